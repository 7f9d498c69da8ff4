"""The loop with the model, over both wires: against the scripted endpoint, and one that answers as it is told."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.erring_endpoint import WIRES, Doing, Erring, opened, results_in, said, talk
from bench.scripted_workloads import CITIES, TOOLS, server_process
from callgate.bench.contestants.seat import CannotDo, Turn
from callgate.bench.model.conversation import SYSTEM, Acted, Conversation, Ended, converse, round_of
from callgate.bench.model.endpoint import Endpoint
from callgate.bench.model.model_client import Wire
from callgate.bench.model.scripted_endpoint import ScriptedEndpoint
from callgate.bench.model.stand_in.server import serving
from callgate.bench.peers.process import PeerFailed
from callgate.bench.results import Round
from callgate.bench.workloads.workload import Call

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with server_process() as (_, found):
        yield found


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(("form", "turns", "batches"), [("direct", 5, [1, 1, 1, 1]), ("direct-parallel", 3, [3, 1])])
async def test_a_conversation_with_the_scripted_model(
    wire: Wire, form: str, turns: int, batches: list[int], address: str
) -> None:
    doing = Doing()
    async with Endpoint.scripted(wire, address) as endpoint:
        name = await ScriptedEndpoint(address).register("weather", opened(form), turn_seconds=0.02)
        talked = await converse(
            endpoint.model(name), task="Where?", opened=opened(form, system="Be brief."), act=doing, most_turns=9
        )
    assert (talked.ended, talked.reason, talked.turns) == (Ended.ANSWERED, "", turns)
    assert [len(calls) for calls in doing.asked] == batches == [len(each.turn.texts) for each in talked.acted]
    assert [call.arguments["city"] for calls in doing.asked for call in calls][:3] == list(CITIES)
    assert talked.answer.endswith("degrees, 23 m")
    assert talked.input_tokens > 100 * turns
    assert talked.output_tokens > 10
    assert talked.model_seconds >= 0.02 * turns


@pytest.mark.parametrize("wire", WIRES)
async def test_input_that_is_too_long_ends_it_with_the_number(wire: Wire, address: str) -> None:
    async def act(calls: list[Call]) -> Turn:
        return Turn(texts=["a word of many " * 1000] * len(calls), seconds=0.0)

    async with Endpoint.scripted(wire, address) as endpoint:
        name = await ScriptedEndpoint(address).register("weather", opened(), context_tokens=2000)
        talked = await converse(endpoint.model(name), task="Where?", opened=opened(), act=act, most_turns=9)
    assert (talked.ended, talked.turns) == (Ended.TOO_LONG, 2)
    assert talked.refused_tokens > 9000
    assert str(talked.refused_tokens) in talked.reason


@pytest.mark.parametrize("wire", WIRES)
async def test_a_script_that_fails_ends_it_with_its_reason(wire: Wire, address: str) -> None:
    async with Endpoint.scripted(wire, address) as endpoint:
        name = await ScriptedEndpoint(address).register("fails", opened())
        talked = await converse(endpoint.model(name), task="Where?", opened=opened(), act=Doing(), most_turns=9)
    assert talked.ended is Ended.FAILED
    assert talked.reason.startswith(
        'the model refused: the script cannot go on: not what was expected: {"city": "Rome"'
    )


@pytest.mark.parametrize("wire", WIRES)
async def test_usage_is_the_endpoints_own_and_what_was_cached_is_input(wire: Wire) -> None:
    talked = await talk(Erring(wire, said(wire, "ho", (("get_weather", '{"city": "Rome"}'),)), said(wire, "20")), wire)
    assert (talked.ended, talked.answer) == (Ended.ANSWERED, "20")
    assert (talked.turns, talked.input_tokens, talked.output_tokens) == (2, 200, 20)


@pytest.mark.parametrize("wire", WIRES)
async def test_the_prompt_is_the_common_text_then_the_contestants_then_the_task(wire: Wire) -> None:
    api = Erring(wire, said(wire, "20"))
    await talk(api, wire)
    (body,) = api.requests
    system = f"{SYSTEM}\n\nBe brief."
    if wire == "openai":
        assert body["messages"] == [{"role": "system", "content": system}, {"role": "user", "content": "Where?"}]
        assert [tool["function"]["parameters"] for tool in body["tools"]] == [tool["input_schema"] for tool in TOOLS]
        assert body["parallel_tool_calls"] is True
    else:
        assert (body["system"], body["messages"]) == (system, [{"role": "user", "content": "Where?"}])
        assert body["tools"] == TOOLS
        assert body["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": False}


@pytest.mark.parametrize("wire", WIRES)
async def test_one_call_at_a_time_is_asked_for_on_the_wire(wire: Wire) -> None:
    api = Erring(wire, said(wire, "20"))
    with serving(api) as address:
        url = f"{address}/v1" if wire == "openai" else address
        async with Endpoint(wire, base_url=url, key="any", retries=0) as endpoint:
            await converse(endpoint.model("m"), task="?", opened=opened("direct"), act=Doing(), most_turns=1)
    (body,) = api.requests
    assert body.get("parallel_tool_calls") is False or body["tool_choice"]["disable_parallel_tool_use"] is True


@pytest.mark.parametrize("wire", WIRES)
async def test_the_model_is_told_what_is_wrong_with_its_calls_and_the_rest_is_done(wire: Wire) -> None:
    calls = (("get_wether", "{}"), ("get_weather", '{"city": "Rome"}'), ("xyz", "{}"))
    api, doing = Erring(wire, said(wire, "", calls), said(wire, "20")), Doing()
    talked = await talk(api, wire, act=doing)
    assert talked.ended is Ended.ANSWERED
    assert doing.asked == [[Call("get_weather", {"city": "Rome"})]]
    near, right, far = results_in(api.requests[1])
    assert near == "Error: there is no tool 'get_wether'. Did you mean get_weather?"
    assert right.startswith('{"city": "Rome"')
    assert far == "Error: there is no tool 'xyz'. There are: get_weather, get_height."


@pytest.mark.parametrize(
    ("wire", "arguments", "words"),
    [
        ("openai", '{"city": "Rome"', "they are no JSON: Expecting ',' delimiter"),
        ("openai", '"Rome"', "they have to be a JSON object, and are str"),
        ("openai", "[" * 100_000, "they are no JSON: maximum recursion depth"),
        ("anthropic", '["Rome"]', "they have to be a JSON object, and are list"),
    ],
)
async def test_arguments_that_are_no_object_are_told_to_the_model(wire: Wire, arguments: str, words: str) -> None:
    api, doing = Erring(wire, said(wire, "", (("get_weather", arguments),)), said(wire, "20")), Doing()
    talked = await talk(api, wire, act=doing)
    assert (talked.ended, doing.asked, talked.acted) == (Ended.ANSWERED, [], [])
    (told,) = results_in(api.requests[1])
    assert told.startswith(f"Error: the arguments of get_weather cannot be read: {words}")


async def test_a_model_that_never_answers_is_asked_so_often_and_no_more() -> None:
    call = said("openai", "hm", (("get_weather", '{"city": "Rome"}'),))
    talked = await talk(Erring("openai", call, call, call), "openai", most_turns=3)
    assert (talked.ended, talked.turns, len(talked.acted)) == (Ended.TOO_MANY_TURNS, 3, 3)
    assert talked.reason == "no answer after 3 turns of the model"


async def test_last_words_of_a_program_end_it() -> None:
    async def act(calls: list[Call]) -> Turn:
        return Turn(texts=["20"], seconds=0.5, final="20 degrees")

    call = said("openai", "let me see", (("get_weather", '{"city": "Rome"}'),))
    talked = await talk(Erring("openai", call), "openai", act=act)
    assert (talked.ended, talked.answer, talked.turns) == (Ended.ANSWERED, "20 degrees", 1)
    assert talked.contestant_seconds == 0.5


@pytest.mark.parametrize("error", [PeerFailed("it hangs"), CannotDo("no loops")])
async def test_what_the_contestant_raises_goes_through(error: Exception) -> None:
    async def act(calls: list[Call]) -> Turn:
        raise error

    with pytest.raises(type(error), match=str(error)):
        await talk(Erring("openai", said("openai", "", (("get_weather", "{}"),))), "openai", act=act)


async def test_a_contestant_has_to_give_a_text_for_each_call() -> None:
    async def act(calls: list[Call]) -> Turn:
        return Turn(texts=[], seconds=0.0)

    with pytest.raises(PeerFailed, match="0 texts for 1 calls"):
        await talk(Erring("openai", said("openai", "", (("get_weather", "{}"),))), "openai", act=act)


async def test_half_of_a_surrogate_pair_does_not_stop_it() -> None:
    async def act(calls: list[Call]) -> Turn:
        return Turn(texts=["\ud83d"], seconds=0.0)

    api = Erring("anthropic", said("anthropic", "", (("get_weather", "{}"),)), said("anthropic", "so"))
    assert (await talk(api, "anthropic", act=act)).ended is Ended.ANSWERED
    assert results_in(api.requests[1]) == ["?"]


def test_what_a_conversation_cost_is_split_up() -> None:
    acted = [
        Acted(began=100.0, ended=104.5, turn=Turn(texts=[""], seconds=4.0, intervals=[(101.0, 103.0), (101.0, 102.0)])),
        Acted(began=110.0, ended=111.0, turn=Turn(texts=[""], seconds=1.0, intervals=[(110.25, 110.75)])),
    ]
    talked = Conversation(turns=3, input_tokens=900, output_tokens=70, model_seconds=6.0, acted=acted)
    assert round_of(talked) == Round(
        wall_seconds=11.0, model_seconds=6.0, tool_seconds=2.5, overhead_seconds=2.5, turns=3, calls=3,
        input_tokens=900, output_tokens=70, concurrency=2, busy=3.5 / 2.5,
    )  # fmt: skip
