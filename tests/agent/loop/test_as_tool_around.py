"""What is around an agent inside a task: its guests, its transcript after a kill, its spans, its secrets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic import SecretStr

from agent.loop.resuming import lines_of
from agent.loop.scripted_runs import THOUSAND, of, play, sandboxed, told
from callgate import Limits, Runtime, Telemetry, Tool, tool
from callgate.agent.events import (
    AgentEvent,
    CallEnded,
    Faulted,
    InnerEvent,
    ModelReplied,
    Routed,
    TaskBegan,
    TextArrived,
    innermost,
)
from callgate.agent.loop.agent import Agent
from callgate.agent.loop.resume import OUTCOME_UNKNOWN
from callgate.agent.models.model import Request
from callgate.agent.models.openai_model import OpenAIModel
from callgate.agent.models.scripted import Calls, Say, ScriptedModel
from callgate.errors import ConfigurationError, ModelUnavailable
from callgate.runtime.gate.watching import Origin, origin
from callgate_bench.model.stand_in import Call, Move, OpenAIChat, Script, Turn, serving
from callgate_bench.model.stand_in.server import KEY
from otlp_collector import Providers, collecting

pytestmark = pytest.mark.anyio

TASK = {"task": "How many are there?"}
ASK = Calls(("research", TASK))
IN_A_GUEST = "import os\n"


def program(code: str) -> Calls:
    """A program that needs a guest."""
    return Calls(("execute_code", {"code": f"{IN_A_GUEST}{code}"}))


ASKS = program("print(await research('Count'))")


class World:
    """Tools that say what they did."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.origins: list[Origin | None] = []

    def tools(self) -> list[Tool]:
        @tool(read_only=True)
        async def look(at: str) -> str:
            """Looks."""
            self.done.append(f"look {at}")
            self.origins.append(origin.get())
            return f"seen {at}"

        @tool
        async def send(to: str) -> str:
            """Sends."""
            self.done.append(f"send {to}")
            return "sent"

        return [look, send]


def research(runtime: Runtime, *turns: Any, **options: Any) -> Tool:
    agent = Agent(ScriptedModel(turns, name="inner"), runtime, **{"mode": "direct", "tools": ["look"], **options})
    return agent.as_tool("research", "Finds out.")


def events_inside(result: Any, kind: type[Any]) -> list[Any]:
    return [each for each in map(innermost, of(result, InnerEvent)) if isinstance(each, kind)]


# guests


async def test_an_inner_program_that_only_its_own_caller_could_make_room_for_is_refused_at_once() -> None:
    async with sandboxed(World().tools(), max_guests=1, pool_size=0, queue_seconds=60) as runtime:
        turns = [program("print(1)"), Calls(("look", {"at": "it"})), "seen it"]
        runtime.registry.add(research(runtime, *turns, mode="auto", discovery="none"))
        result, model = await play(runtime, ASKS, "done", mode="auto", limits=Limits(wall_seconds=15))
    assert told(model.requests[1]) == ["seen it"]
    (fault,) = [each for each in events_inside(result, Faulted) if each.fault == "sandbox"]
    assert fault.detail.startswith("the one guest would wait for this program")
    assert [each.mode for each in events_inside(result, Routed)] == ["plan"]
    assert result.ok


async def test_an_agent_that_only_writes_programs_is_a_failed_call_then() -> None:
    async with sandboxed(World().tools(), max_guests=1, pool_size=0, queue_seconds=60) as runtime:
        runtime.registry.add(research(runtime, program("print(1)"), mode="code", discovery="none"))
        asks = program("try:\n    await research('Count')\nexcept ToolError as error:\n    print(error)")
        _, model = await play(runtime, asks, "done", mode="auto", limits=Limits(wall_seconds=15))
    assert told(model.requests[1]) == ["the agent 'research' could not go on: its programs cannot be run here now"]


async def test_two_tasks_whose_programs_wait_for_inner_programs_both_end() -> None:
    here, both = list[int](), anyio.Event()

    async def turn(request: Request) -> Any:
        if len(request.messages) > 1:
            return told(request)[0]
        here.append(1)
        if len(here) == 2:
            both.set()
        await both.wait()
        return program("print('counted')")

    async with sandboxed(World().tools(), max_guests=2, pool_size=0, queue_seconds=60) as runtime:
        runtime.registry.add(research(runtime, *[turn] * 4, mode="auto", discovery="none"))
        answers: list[str] = []

        async def task() -> None:
            _, model = await play(runtime, ASKS, "done", mode="auto", limits=Limits(wall_seconds=15))
            answers.extend(told(model.requests[1]))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(task)
            tasks.start_soon(task)
    assert len(answers) == 2
    assert "counted" in answers  # the other one was refused, and its guest came free


async def test_an_inner_program_has_a_guest_of_its_own_where_there_is_one() -> None:
    async with sandboxed(World().tools(), max_guests=2, pool_size=0) as runtime:
        looks = program("print(await look('it'))")
        ends = lambda request: told(request)[0]  # noqa: E731
        runtime.registry.add(research(runtime, looks, ends, mode="code", discovery="none"))
        result, model = await play(runtime, ASKS, "done", mode="code")
    assert told(model.requests[1]) == ["seen it"]
    assert result.tool_calls == 2


# transcripts


OTHERS = {"directly": ASK, "by a plan": Calls(("execute_tool_plan", {"steps": [
    {"id": "a", "tool": "research", "arguments": TASK}], "output_steps": ["a"]}))}  # fmt: skip


@pytest.mark.parametrize("by", OTHERS)
@pytest.mark.parametrize("reads", [True, False], ids=["only reads", "sends"])
async def test_an_agent_that_was_under_way_is_made_again_only_where_that_can_do_no_harm(
    tmp_path: Path, by: str, reads: bool
) -> None:
    file, world = tmp_path / "task.jsonl", World()
    does = ("look", {"at": "it"}) if reads else ("send", {"to": "it"})
    options: dict[str, Any] = {"mode": "plan", "price": (1, 1), "tools": ["research"]}
    inner: dict[str, Any] = {"tools": [does[0]], "price": (1, 1)}
    async with Runtime(world.tools(), sandbox=None) as runtime:
        turns = [Say(calls=Calls(does), usage=THOUSAND), "three"]
        runtime.registry.add(research(runtime, *turns, **inner))
        model = ScriptedModel([Say(calls=OTHERS[by], usage=THOUSAND), "done"])
        await Agent(model, runtime, transcript=file, **options).run("Count them.")
    lines = file.read_bytes().splitlines(keepends=True)
    kinds = [line["event"]["kind"] if line["kind"] == "inner_event" else line["kind"] for line in lines_of(file)]
    file.write_bytes(b"".join(lines[: kinds.index("message_added") + 1]))
    async with Runtime(world.tools(), sandbox=None) as runtime:
        again = [Say(calls=Calls(does), usage=THOUSAND), Say("three", usage=THOUSAND)]
        runtime.registry.add(research(runtime, *again, **inner))
        model = ScriptedModel([Say("done", usage=THOUSAND)])
        result = await Agent(model, runtime, **options).resume(file)
    assert result.answer == "done"
    if reads:
        assert "three" in told(model.requests[0])[0]
        assert world.done == ["look it"] * 2
        assert (result.turns, result.usage.input_tokens) == (5, 4_500)
        assert result.cost == pytest.approx(0.005)
        assert len({event.task for event in of(result, InnerEvent)}) == 2
    else:
        assert told(model.requests[0]) == [OUTCOME_UNKNOWN]
        assert world.done == ["send it"]
        assert (result.turns, result.usage.input_tokens) == (3, 2_700)


async def test_a_transcript_that_was_cut_off_at_any_line_goes_on_and_nothing_is_sent_twice(tmp_path: Path) -> None:
    whole, file, world = tmp_path / "whole.jsonl", tmp_path / "task.jsonl", World()
    sends = Calls(("send", {"to": "it"}))

    def with_agent(runtime: Runtime) -> Runtime:
        runtime.registry.add(research(runtime, sends, "sent it", tools=["send"]))
        return runtime

    async with Runtime(world.tools(), sandbox=None) as runtime:
        await Agent(ScriptedModel([ASK, "done"]), with_agent(runtime), mode="direct", transcript=whole).run("Send.")
    lines = whole.read_bytes().splitlines(keepends=True)
    kinds = [line["kind"] for line in lines_of(whole)]
    for end in range(1, len(lines) + 1):
        file.write_bytes(b"".join(lines[:end]))
        begun = "call_began" in kinds[:end]
        world.done = ["send it"] if begun else []
        asked = kinds[:end].count("model_replied")
        async with Runtime(world.tools(), sandbox=None) as runtime:
            turns: list[Any] = [ASK, "done"]
            model = ScriptedModel(turns[asked:])
            result = await Agent(model, with_agent(runtime), mode="direct").resume(file)
        assert (result.answer, world.done) == ("done", ["send it"])


async def test_a_result_without_a_transcript_goes_on_and_counts_what_agents_had_spent() -> None:
    async with Runtime(World().tools(), sandbox=None) as runtime:
        runtime.registry.add(research(runtime, Say("three", usage=THOUSAND), price=(1, 1)))
        turns = [Say(calls=ASK, usage=THOUSAND)]
        options: dict[str, Any] = {"mode": "direct", "price": (1, 1)}
        result = await Agent(ScriptedModel([*turns, ModelUnavailable("503")]), runtime, **options).run("Count.")
        assert (result.outcome, result.turns) == ("unavailable", 2)
        again = await Agent(ScriptedModel([Say("done", usage=THOUSAND)]), runtime, **options).resume(result)
    assert (again.answer, again.turns, again.usage.input_tokens) == ("done", 3, 2_700)
    assert again.cost == pytest.approx(0.003)


@pytest.mark.parametrize(
    ("call", "words"), [("call_9", "the last turn has no call 'call_9'"), ("", "the last turn has no call ''")]
)
async def test_a_line_of_an_agent_in_no_call_is_refused(tmp_path: Path, call: str, words: str) -> None:
    file = tmp_path / "task.jsonl"
    async with Runtime(World().tools(), sandbox=None) as runtime:
        runtime.registry.add(research(runtime, "three"))
        agent = Agent(ScriptedModel([ASK, "done"]), runtime, mode="direct", transcript=file)
        await agent.run("Count them.")
        lines = [line | {"call": call} if "call" in line else line for line in lines_of(file)]
        file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        with pytest.raises(ConfigurationError, match=f"line 5: this cannot come here: {words}"):
            await agent.resume(file)


# spans, origins


@pytest.fixture
def providers() -> Iterator[Providers]:
    with collecting() as collected:
        yield collected


async def test_spans_nest_and_the_outer_one_counts_the_inner_one(providers: Providers) -> None:
    telemetry = Telemetry(tracer_provider=providers.tracer, meter_provider=providers.meter)
    world = World()
    async with Runtime(world.tools(), sandbox=None, telemetry=telemetry) as runtime:
        runtime.registry.add(research(runtime, Calls(("look", {"at": "it"})), "three"))
        result, _ = await play(runtime, OTHERS["by a plan"], "done", mode="plan")
    collected = providers.flush()
    plan = "invoke_agent callgate > execute_tool execute_tool_plan > execute_tool research"
    assert [line for line in collected.tree() if "research" in line] == [
        plan,
        f"{plan} > invoke_agent research",
        f"{plan} > invoke_agent research > chat inner",
        f"{plan} > invoke_agent research > execute_tool look",
        f"{plan} > invoke_agent research > chat inner",
    ]
    outer, inner = collected.one("invoke_agent callgate"), collected.one("invoke_agent research")
    assert inner.attributes["gen_ai.agent.name"] == "research"
    assert outer.attributes["gen_ai.usage.input_tokens"] == result.usage.input_tokens
    assert outer.attributes["gen_ai.usage.input_tokens"] > inner.attributes["gen_ai.usage.input_tokens"]
    (task,) = events_inside(result, TaskBegan)
    assert inner.attributes["gen_ai.conversation.id"] == task.id
    (began,) = of(result, TaskBegan)
    assert world.origins == [Origin(task=task.id, outer_task=began.id, turn=1, call="call_1_1")]


async def test_the_audit_log_says_inside_which_task_an_agent_called(tmp_path: Path) -> None:
    async with Runtime(World().tools(), sandbox=None, audit=tmp_path / "audit.jsonl") as runtime:
        runtime.registry.add(research(runtime, Calls(("look", {"at": "it"})), "three"))
        result, _ = await play(runtime, ASK, "done", mode="direct")
    (outer,), (inner,) = of(result, TaskBegan), events_inside(result, TaskBegan)
    who = {
        line["tool"]: (line["task"], line.get("outer_task"))
        for line in lines_of(tmp_path / "audit.jsonl")
        if "tool" in line
    }
    assert who == {"research": (outer.id, None), "look": (inner.id, outer.id)}


# a model over HTTP, which both agents ask


@pytest.mark.parametrize("stream", [True, False], ids=["streaming", "not"])
async def test_agents_inside_each_other_may_share_one_model(stream: bool) -> None:
    def asks(turn: Turn) -> Move:
        if turn.user != "Where?":
            return f"{turn.user[:-1]} it is."
        return [Call("research", {"task": "Left?"}), Call("research", {"task": "Right?"})]

    def concludes(turn: Turn) -> Move:
        return " ".join(answer.text for answer in turn.answers)

    heard: list[AgentEvent] = []
    with serving(OpenAIChat(Script(asks, concludes))) as url:
        model = OpenAIModel("gpt", base_url=f"{url}/v1", api_key=KEY)
        async with Runtime(World().tools(), sandbox=None) as runtime:
            inner = Agent(model, runtime, mode="direct", tools=["look"])
            runtime.registry.add(inner.as_tool("research", "Finds out."))
            lead = Agent(model, runtime, mode="direct", tools=["research"], on_event=heard.append, stream=stream)
            result = await lead.run("Where?")
        await model.aclose()
    assert (result.answer, result.turns) == ("Left it is. Right it is.", 4)
    calls = {event.call: event.task for event in of(result, InnerEvent)}
    assert len(calls) == len(set(calls.values())) == 2
    said: dict[str, str] = {}
    for event in heard:
        if isinstance(event, InnerEvent) and isinstance(event.event, TextArrived):
            said[event.call] = said.get(event.call, "") + event.event.text
    assert sorted(said.values()) == (["Left it is.", "Right it is."] if stream else [])
    assert result.usage.input_tokens == sum(
        each.usage.input_tokens for each in map(innermost, result.events) if isinstance(each, ModelReplied)
    )


# secrets


@pytest.mark.parametrize("written", [True, False], ids=["transcript", "none"])
async def test_a_secret_of_an_inner_tool_is_in_no_transcript_and_no_inner_event_of_a_result(
    written: bool, tmp_path: Path
) -> None:
    @tool
    async def unlock(pin: str) -> str:
        """Unlocks."""
        return f"open with {pin}"

    @tool(name="unlock")
    async def secret_unlock(pin: SecretStr) -> str:
        """Unlocks."""
        return f"open with {pin.get_secret_value()}"

    files = [tmp_path / "outer.jsonl", tmp_path / "inner.jsonl"]
    heard: list[AgentEvent] = []
    async with Runtime([secret_unlock], sandbox=None) as inner, Runtime([unlock], sandbox=None) as runtime:
        turns = [Calls(("unlock", {"pin": "8461-0937"})), "It is open: the pin was 8461-0937."]
        runtime.registry.add(research(inner, *turns, tools=["unlock"], transcript=files[1]))
        options: dict[str, Any] = {"transcript": files[0]} if written else {}
        result, _ = await play(runtime, ASK, "done", mode="direct", on_event=heard.append, **options)
    assert result.ok
    for file in files if written else files[1:]:
        assert "[redacted]" in file.read_text()
        assert "8461-0937" not in file.read_text()
    (call,) = events_inside(result, CallEnded)
    assert call.text == "open with [redacted]"
    inside = of(result, InnerEvent)
    assert "8461-0937" not in str([each for each in inside if isinstance(each.event, CallEnded)])
    assert next(each.text for each in map(innermost, heard) if isinstance(each, CallEnded)) == "open with 8461-0937"


PIN = "8461-0937"


@pytest.mark.parametrize("depth", [1, 2])
async def test_a_secret_of_an_inner_tool_is_on_no_page_of_the_outer_task_whose_result_has_it(
    depth: int, tmp_path: Path
) -> None:
    @tool
    async def unlock(pin: SecretStr) -> str:
        """Unlocks."""
        return "open"

    said = f"the pin is {PIN}"
    gone = ModelUnavailable("gone")
    inner = [Calls(("unlock", {"pin": PIN})), said]
    async with Runtime([unlock], sandbox=None) as runtime:
        runtime.registry.add(research(runtime, *inner, *inner, tools=["unlock"]))
        if depth == 2:
            manager = Agent(ScriptedModel([ASK, said] * 2), runtime, mode="direct", tools=["research"])
            runtime.registry.add(manager.as_tool("manager", "Manages."))
        name = "research" if depth == 1 else "manager"
        options: Any = {"mode": "direct", "tools": [name]}
        turn = Calls((name, {"task": "unlock it"}))
        result = await Agent(ScriptedModel([turn, said]), runtime, **options).run("unlock it")
        stopped = await Agent(ScriptedModel([turn, gone]), runtime, **options).run("unlock it")
        file = tmp_path / "resumed.jsonl"
        resumed = await Agent(ScriptedModel([said]), runtime, transcript=file, **options).resume(stopped)
        again = await Agent(ScriptedModel([]), runtime, **options).resume(result)
    assert (result.answer, stopped.outcome, resumed.answer, again.answer) == (said, "unavailable", said, said)
    pages = [result.trace(), stopped.trace(), resumed.trace(), again.trace(), file.read_text()]
    assert [PIN in page for page in pages] == [False] * len(pages)
