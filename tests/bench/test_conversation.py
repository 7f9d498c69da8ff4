"""The loop with the model, in memory: what ends it, what the model is told, and what it cost."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from bench.scripted_workloads import TOOLS
from callgate import ContextExceeded, ModelUnavailable
from callgate.agent.models.model import Assistant, Delta, ModelProvider, Reply, Request, ToolCall, ToolReplies, Usage
from callgate_bench.contest.process import PeerFailed
from callgate_bench.contestants.contestant import CannotDo, Contestant, Opened, ToolClock, Turn
from callgate_bench.model.conversation import SYSTEM, Conversation, converse, round_of
from callgate_bench.model.talks import EndpointMissing, Wire, model_at
from callgate_bench.results import Round
from callgate_bench.workloads.workload import Call

pytestmark = pytest.mark.anyio
ROME = ToolCall(id="c1", name="get_weather", arguments={"city": "Rome"})


@pytest.fixture
def anyio_backend() -> str:
    """The harness runs on asyncio."""
    return "asyncio"


class Says:
    """A model that says this, or fails so."""

    def __init__(self, *replies: Reply | Exception, provider: ModelProvider = "openai") -> None:
        self.name = "m"
        self.provider: ModelProvider = provider
        self.requests: list[Request] = []
        self._replies = list(replies)

    async def ask(self, request: Request, *, on_delta: Callable[[Delta], None] | None = None) -> Reply:
        self.requests.append(
            Request(**{name: getattr(request, name) for name in Request.__slots__} | {"messages": [*request.messages]})
        )
        reply = self._replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply

    async def aclose(self) -> None:
        pass


def said(text: str = "", *calls: ToolCall, ended: Any = "", **rest: Any) -> Reply:
    turn = Assistant(text=text, calls=calls)
    usage = rest.pop("usage", Usage(input_tokens=100, output_tokens=10))
    return Reply(turn=turn, ended=ended or ("calls" if calls else "answered"), usage=usage, **rest)


class Doing:
    """A contestant of one's own: notes what it is asked, and knows the weather."""

    def __init__(self, turn: Turn | Exception | None = None) -> None:
        self.asked: list[list[Call]] = []
        self._turn = turn

    async def __call__(self, calls: Sequence[Call]) -> Turn:
        self.asked.append(list(calls))
        if isinstance(self._turn, Exception):
            raise self._turn
        return self._turn or Turn(texts=[json.dumps(dict(call.arguments)) for call in calls])


async def talk(model: Says, act: Doing | None = None, *, form: str = "direct-parallel", turns: int = 5) -> Conversation:
    opened = Opened(tools=TOOLS, form=form, system="Be brief.")
    return await converse(model, task="Where?", opened=opened, act=act or Doing(), most_turns=turns)


def results_of(model: Says) -> list[str]:
    last = model.requests[-1].messages[-1]
    assert isinstance(last, ToolReplies)
    return [each.text for each in last.replies]


async def test_the_prompt_is_the_common_text_then_the_contestants_then_the_task() -> None:
    for wire, form in (("openai", "direct-parallel"), ("anthropic", "direct")):
        model = Says(said("20"), provider=wire)  # type: ignore[arg-type]
        assert (await talk(model, form=form)).ended == "right"
        (request,) = model.requests
        assert request.system == f"{SYSTEM}\n\nBe brief."
        assert request.parallel is (form != "direct")
        named = [tool["function"] if wire == "openai" else tool for tool in request.tools]
        assert [tool["name"] for tool in named] == [tool["name"] for tool in TOOLS]


async def test_the_model_is_told_what_is_wrong_with_its_calls_and_the_rest_is_done() -> None:
    unreadable = ToolCall(id="c4", name="get_weather", fault="they are not JSON", written="{")
    wrong = (ToolCall(id="c2", name="get_wether"), ROME, ToolCall(id="c3", name="xyz"), unreadable)
    model, doing = Says(said("", *wrong), said("20")), Doing()
    talked = await talk(model, doing)
    assert (talked.ended, talked.answer, talked.turns) == ("right", "20", 2)
    assert (talked.input_tokens, talked.output_tokens) == (200, 20)
    assert doing.asked == [[Call("get_weather", {"city": "Rome"})]]
    assert results_of(model) == [
        "Error: there is no tool 'get_wether'. Did you mean get_weather?",
        '{"city": "Rome"}',
        "Error: there is no tool 'xyz'. There are: get_weather, get_height.",
        "Error: the arguments of get_weather cannot be read: they are not JSON. Call it again.",
    ]


@pytest.mark.parametrize(
    ("reply", "ended", "reason"),
    [
        (said(ended="empty"), "failed", "the model's reply is empty"),
        (said("no", ended="refused", refusal="I will not"), "failed", "the model refused: I will not"),
        (said("half an", ended="cut"), "failed", "the model's reply was cut at 10 tokens"),
        (said("20", usage=Usage(estimated=True)), "failed", "the model's endpoint gave a reply without its usage"),
        (ModelUnavailable("nobody there"), "failed", "nobody there"),
        (ContextExceeded("too long: 900 tokens"), "cannot", "too long: 900 tokens"),
        (said("hm", ROME), "failed", "no answer after 1 turns of the model"),
    ],
)
async def test_what_nobody_can_go_on_with_ends_it_with_the_reason(
    reply: Reply | Exception, ended: str, reason: str
) -> None:
    talked = await talk(Says(reply), turns=1)
    assert (talked.ended, talked.turns) == (ended, 1)
    assert talked.reason.startswith(reason)


async def test_last_words_of_a_program_end_it() -> None:
    talked = await talk(Says(said("let me see", ROME)), Doing(Turn(texts=["20"], final="20 degrees")))
    assert (talked.ended, talked.answer, talked.turns) == ("right", "20 degrees", 1)


@pytest.mark.parametrize(
    ("turn", "error", "words"),
    [
        (PeerFailed("it hangs"), PeerFailed, "it hangs"),
        (CannotDo("no loops"), CannotDo, "no loops"),
        (Turn(texts=[]), PeerFailed, "0 texts for 1 calls"),
    ],
)
async def test_what_the_contestant_cannot_do_goes_through(
    turn: Turn | Exception, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        await talk(Says(said("", ROME)), Doing(turn))


async def test_half_of_a_surrogate_pair_does_not_stop_it() -> None:
    model = Says(said("", ROME), said("so"))
    assert (await talk(model, Doing(Turn(texts=["\ud83d"])))).ended == "right"
    assert results_of(model) == ["?"]


@pytest.mark.parametrize(
    ("changes", "ended", "found"),
    [
        ([], 10.0, (0.0, 0, 0)),
        ([(1, 1), (3, -1)], 10.0, (2.0, 1, 1)),
        ([(1, 1), (3, -1), (3, 1), (5, -1)], 10.0, (4.0, 2, 1)),
        ([(1, 1), (3, -1), (5, 1), (6, -1)], 10.0, (3.0, 2, 1)),
        ([(1, 1), (2, 1), (2, 1), (3, -1), (4, -1), (5, -1)], 10.0, (4.0, 3, 3)),
        ([(1, 1), (2, 1), (3, -1), (4, -1)], 10.0, (3.0, 2, 2)),
        ([(8, 1)], 10.0, (2.0, 1, 1)),
    ],
)
def test_how_long_tools_were_at_work(
    changes: list[tuple[float, int]], ended: float, found: tuple[float, int, int]
) -> None:
    clock = ToolClock()
    for now, by in changes:
        clock.change(now, by)
    clock.change(ended)
    assert (clock.seconds, clock.calls, clock.concurrency) == found


class Lingering(Contestant):
    """Calls its tool, and comes back before the tool does."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.lingering = asyncio.Event(), list[asyncio.Task[None]]()

    async def tool(self) -> None:
        await self.left.wait()

    async def act(self, calls: Sequence[Any]) -> Turn:
        self.lingering.append(asyncio.create_task(self._timed(self.tool)()))  # type: ignore[arg-type]
        await asyncio.sleep(0.01)
        return Turn(texts=[])


async def test_a_call_that_outlives_its_turn_counts_to_the_turns_end() -> None:
    contestant = Lingering()
    for _ in range(2):
        turn = Turn(**await contestant.turn([]))
        assert (turn.calls, turn.concurrency) == (1, 1)
        assert 0 < turn.tool_seconds <= turn.seconds
        contestant.left.set()
        contestant.left = asyncio.Event()
    contestant.left.set()
    await asyncio.gather(*contestant.lingering)


def test_what_a_conversation_cost_is_split_up() -> None:
    turns = [
        Turn(texts=[""], seconds=4.0, tool_seconds=2.0, calls=2, concurrency=2),
        Turn(texts=[""], seconds=1.0, tool_seconds=0.5, calls=1, concurrency=1),
    ]
    talked = Conversation(turns=3, input_tokens=900, output_tokens=70, model_seconds=6.0, acted=turns)
    assert round_of(talked) == Round(
        wall_seconds=11.0, model_seconds=6.0, tool_seconds=2.5, overhead_seconds=2.5, turns=3, calls=3,
        input_tokens=900, output_tokens=70, concurrency=2,
    )  # fmt: skip


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
async def test_a_real_endpoint_needs_a_key_and_the_sdk(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(EndpointMissing, match=f"there is no key for the {wire} endpoint: set {wire.upper()}_API_KEY"):
        model_at(wire, "m")
    monkeypatch.setenv(f"{wire.upper()}_API_KEY", "k")
    await model_at(wire, "m").aclose()
    monkeypatch.setitem(sys.modules, wire, None)
    with pytest.raises(EndpointMissing, match=f"the SDK {wire} is not installed: "):
        model_at(wire, "m")
