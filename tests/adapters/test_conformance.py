"""What every adapter does: the framework shows what callgate defines, its calls pass the gate, failures are words."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from adapters.conftest import World
from adapters.frameworks import FRAMEWORKS, langchain
from callgate import CallEnded, CallStarted, ConfigurationError, Event, Printed

pytestmark = pytest.mark.anyio

META = ["search_tools", "describe_tools", "execute_code", "execute_tool_plan"]
FOUND = ("search_tools", {"query": "book in the library"})
PRINTS = ("execute_code", {"code": "print(await add_numbers(a=1, b=2))"})


@pytest.fixture(params=FRAMEWORKS)
def run(request: pytest.FixtureRequest) -> Any:
    return FRAMEWORKS[request.param]


async def test_the_model_is_shown_what_callgate_defines(world: World, run: Any) -> None:
    ran = await run(world.runtime, direct=["add_numbers"])
    assert ran.names == [[*META, "add_numbers"]]
    # as the adapter of each asks: a conversation where the tools grow, the runtime where they do not
    sources: list[tuple[Any, dict[str, Any]]] = [
        (world.runtime, {"direct": ["add_numbers"]}),
        (world.runtime.conversation(direct=["add_numbers"]), {}),
    ]
    defined = [
        {each["function"]["name"]: each["function"] for each in source.tool_definitions("openai", **options)}
        for source, options in sources
    ]
    for name, description, parameters in ran.shown[0]:
        assert description in [each[name]["description"] for each in defined]
        assert parameters["properties"] == defined[0][name]["parameters"]["properties"]
        assert run is langchain or parameters == defined[0][name]["parameters"]


async def test_tools_programs_plans_and_descriptions_are_answered(world: World, run: Any) -> None:
    steps = [{"id": "s", "tool": "add_numbers", "arguments": {"a": 20, "b": 22}}]
    calls = [
        ("add_numbers", {"a": 40, "b": 2}),
        PRINTS,
        ("execute_code", {"code": "await add_numbers(a=1, b=2)"}),
        ("execute_tool_plan", {"steps": steps}),
        ("describe_tools", {"names": ["add_numbers"]}),
    ]
    added, printed, value, plan, described = (await run(world.runtime, calls, direct=["add_numbers"])).answers
    assert (added, printed, value) == ("42", "3", "Value: 3")
    assert "s: 42" in plan
    assert "Add two numbers." in described


async def test_a_search_for_several_steps_is_answered(world: World, run: Any) -> None:
    both = {"query": ["book in the library", "add numbers"], "detail": "names"}
    (answer,) = (await run(world.runtime, [("search_tools", both)])).answers
    assert "the best of each query first" in answer
    assert "add_numbers" in answer


async def test_failures_are_answers_in_words_and_the_run_goes_on(world: World, run: Any) -> None:
    calls = [
        ("find_book", {"title": "burnt"}),
        ("add_numbers", {"a": 1, "c": 2}),
        ("execute_code", {"code": "await add_number(a=1, b=2)"}),
    ]
    ran = await run(world.runtime, calls, calls, calls, direct=["add_numbers", "find_book"])
    burnt, unknown, program = ran.answers[-3:]
    assert "the library has burnt down" in burnt
    assert "'b'" in unknown
    assert "did you mean" in program


async def test_a_conversation_shows_what_was_found_and_no_other_does(world: World, run: Any) -> None:
    conversation = world.runtime.conversation()
    ran = await run(conversation, [FOUND], [("find_book", {"title": "Emma"})])
    assert ran.names[0] == META
    assert "find_book" in ran.names[1]
    assert ran.answers[-1] == "Emma is on the shelf"
    assert "find_book" in (await run(conversation)).names[0]
    assert (await run(world.runtime.conversation())).names == [META]


async def test_approval_is_asked_of_the_runtime_whoever_calls(world: World, run: Any) -> None:
    calls = [
        ("send_mail", {"text": "hello"}),
        ("send_mail", {"text": "deny this"}),
        ("execute_code", {"code": "await send_mail(text='from a program')"}),
    ]
    _, denied, _ = (await run(world.runtime, calls, direct=["send_mail"])).answers
    assert "not on Sundays" in denied
    assert sorted(world.sent) == ["from a program", "hello"]
    assert {request.caller for request in world.asked} == {"direct", "code"}


async def test_events_are_told_while_a_program_runs(world: World, run: Any) -> None:
    events: list[Event] = []
    await run(world.runtime, [PRINTS], on_event=events.append)
    assert [type(event) for event in events] == [CallStarted, CallEnded, Printed]


@pytest.mark.parametrize("call", [("wait_forever", {}), ("execute_code", {"code": "await wait_forever()"})])
async def test_cancelling_the_run_ends_the_call(world: World, run: Any, call: tuple[str, dict[str, Any]]) -> None:
    running = asyncio.create_task(run(world.runtime, [call], direct=["wait_forever"]))
    async with asyncio.timeout(30):
        await world.began.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert world.cancelled == ["wait_forever"]


async def test_only_the_tools_that_the_operator_named_are_there(world: World, run: Any) -> None:
    calls = [("execute_code", {"code": "await find_book(title='Emma')"})]
    (refused,) = (await run(world.runtime, calls, tools=["add_numbers"])).answers
    assert "find_book" in refused


async def test_wrong_options_are_told_when_the_tools_are_made(world: World, run: Any) -> None:
    with pytest.raises(ConfigurationError, match="did you mean"):
        await run(world.runtime, direct=["add_number"])
