"""The toolset in real agents of pydantic-ai; its own `FunctionModel` plays the model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from pydantic_ai import Agent, UnexpectedModelBehavior
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.tools import ToolDefinition

from adapters.conftest import World
from callgate import CallEnded, CallStarted, ConfigurationError, Event, Printed
from callgate.adapters.pydantic_ai import CallgateToolset

pytestmark = pytest.mark.anyio

META = ["search_tools", "describe_tools", "execute_code", "execute_tool_plan"]
Step = Callable[[list[ModelMessage], AgentInfo], ModelResponse]


class Model:
    """Plays these steps, and keeps what tools each was shown."""

    def __init__(self, *steps: ToolCallPart | list[ToolCallPart] | str) -> None:
        self.steps = list(steps)
        self.shown: list[list[ToolDefinition]] = []
        self.instructions: list[str | None] = []

    def agent(self, toolset: CallgateToolset[None]) -> Agent[None, str]:
        return Agent(FunctionModel(self._play), toolsets=[toolset])

    def names(self) -> list[list[str]]:
        return [[tool.name for tool in tools] for tools in self.shown]

    def _play(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.shown.append(list(info.function_tools))
        self.instructions.append(info.instructions)
        step = self.steps[len(self.shown) - 1]
        parts = [TextPart(step)] if isinstance(step, str) else step if isinstance(step, list) else [step]
        return ModelResponse(parts=parts)


def returns(messages: list[ModelMessage]) -> list[ToolReturnPart]:
    requests = [message for message in messages if isinstance(message, ModelRequest)]
    return [part for request in requests for part in request.parts if isinstance(part, ToolReturnPart)]


async def test_the_model_is_shown_the_meta_tools_and_direct_tools(world: World) -> None:
    model = Model("hello")
    toolset = CallgateToolset[None](world.runtime, direct=["add_numbers"])
    await model.agent(toolset).run("hi")
    (shown,) = model.shown
    assert [tool.name for tool in shown] == [*META, "add_numbers"]
    defined = [
        each["function"] for each in world.runtime.conversation(direct=["add_numbers"]).tool_definitions("openai")
    ]
    assert [(tool.name, tool.description, tool.parameters_json_schema) for tool in shown] == [
        (each["name"], each["description"], each["parameters"]) for each in defined
    ]


async def test_pydantic_ais_own_model_can_call_every_tool(world: World) -> None:
    """`TestModel` makes arguments up from the schemas."""
    toolset = CallgateToolset[None](world.runtime, direct=["add_numbers", "find_book"])
    agent = Agent(TestModel(call_tools=["add_numbers", "find_book", "search_tools"]), toolsets=[toolset])
    result = await agent.run("hi")
    answered = {part.tool_name: part.content for part in returns(result.all_messages())}
    assert answered["add_numbers"] == "0"
    assert answered["find_book"] == "a is on the shelf"
    assert set(answered) == {"add_numbers", "find_book", "search_tools"}


async def test_a_program_and_a_plan_are_run(world: World) -> None:
    code = "total = await add_numbers(a=1, b=2)\nprint('sum', total)"
    steps = [{"id": "s", "tool": "add_numbers", "arguments": {"a": 20, "b": 22}}]
    model = Model(
        [ToolCallPart("execute_code", {"code": code}), ToolCallPart("execute_tool_plan", {"steps": steps})], "done"
    )
    result = await model.agent(CallgateToolset(world.runtime)).run("add")
    program, plan = returns(result.all_messages())
    assert program.content == "sum 3"
    assert "s: 42" in str(plan.content)


async def test_what_a_search_finds_is_shown_from_the_next_step_on_and_to_this_run_alone(world: World) -> None:
    toolset = CallgateToolset[None](world.runtime)
    model = Model(
        ToolCallPart("search_tools", {"query": "book in the library"}),
        ToolCallPart("find_book", {"title": "Emma"}),
        "so",
    )
    result = await model.agent(toolset).run("find Emma")
    assert model.names()[0] == META
    assert "find_book" in model.names()[1]
    assert model.names()[2] == model.names()[1]
    assert returns(result.all_messages())[-1].content == "Emma is on the shelf"

    other = Model("nothing")
    await other.agent(toolset).run("another run")
    assert other.names() == [META]


async def test_runs_at_the_same_time_do_not_see_what_the_other_found(world: World) -> None:
    toolset = CallgateToolset[None](world.runtime)
    searching = Model(ToolCallPart("search_tools", {"query": "book"}), "found")
    waiting = Model(ToolCallPart("execute_code", {"code": "await add_numbers(a=1, b=1)"}), "waited")
    await asyncio.gather(searching.agent(toolset).run("a"), waiting.agent(toolset).run("b"))
    assert "find_book" in searching.names()[1]
    assert waiting.names() == [META, META]


async def test_a_conversation_keeps_what_was_found_from_run_to_run(world: World) -> None:
    toolset = CallgateToolset[None](world.runtime.conversation())
    await Model(ToolCallPart("search_tools", {"query": "book"}), "found").agent(toolset).run("a")
    later = Model("still there")
    await later.agent(toolset).run("b")
    assert "find_book" in later.names()[0]


async def test_a_failed_call_is_a_failed_return_and_the_run_goes_on(world: World) -> None:
    calls = [
        ToolCallPart("find_book", {"title": "burnt"}),
        ToolCallPart("add_numbers", {"a": 1, "c": 2}),
        ToolCallPart("execute_code", {"code": "await add_number(a=1, b=2)"}),
    ]
    model = Model(calls, calls, calls, calls, "enough")
    toolset = CallgateToolset[None](world.runtime, direct=["add_numbers", "find_book"], max_retries=1)
    result = await model.agent(toolset).run("try")
    burnt, unknown, program = returns(result.all_messages())[-3:]
    assert result.output == "enough"
    assert {burnt.outcome, unknown.outcome, program.outcome} == {"failed"}
    assert "the library has burnt down" in str(burnt.content)
    assert "'b'" in str(unknown.content)
    assert "did you mean" in str(program.content)


async def test_the_models_mistakes_may_be_retries_which_count(world: World) -> None:
    call = ToolCallPart("find_book", {"name": "Emma"})
    toolset = CallgateToolset[None](world.runtime, direct=["find_book"], mistakes="retry", max_retries=2)
    result = await Model(call, call, "enough").agent(toolset).run("try")
    retried = returns(result.all_messages())
    assert [(part.outcome, "'title'" in str(part.content)) for part in retried] == [("retried", True)] * 2
    with pytest.raises(UnexpectedModelBehavior, match="find_book"):
        await Model(call, call, call, "never").agent(toolset).run("try")


async def test_what_a_tool_fails_at_is_no_retry(world: World) -> None:
    calls = [
        ToolCallPart("find_book", {"title": "burnt"}),
        ToolCallPart("execute_code", {"code": "await find_book(title='burnt')"}),
        ToolCallPart("execute_code", {"code": "await find_bok(title='Emma')"}),
    ]
    toolset = CallgateToolset[None](world.runtime, direct=["find_book"], mistakes="retry")
    result = await Model(calls, "enough").agent(toolset).run("try")
    assert [part.outcome for part in returns(result.all_messages())] == ["failed", "failed", "retried"]


async def test_arguments_that_are_no_object_are_asked_for_again(world: World) -> None:
    model = Model(ToolCallPart("find_book", "[1, 2]"), ToolCallPart("find_book", '{"title": "Emma"}'), "so")
    result = await model.agent(CallgateToolset(world.runtime, direct=["find_book"])).run("try")
    wrong, right = returns(result.all_messages())
    assert "should be an object" in str(wrong.content)
    assert right.content == "Emma is on the shelf"


async def test_approval_is_asked_of_the_runtime_whoever_calls(world: World) -> None:
    calls = [
        ToolCallPart("send_mail", {"text": "hello"}),
        ToolCallPart("send_mail", {"text": "deny this"}),
        ToolCallPart("execute_code", {"code": "await send_mail(text='from a program')"}),
    ]
    result = await Model(calls, "sent").agent(CallgateToolset(world.runtime, direct=["send_mail"])).run("send")
    allowed, denied, _ = returns(result.all_messages())
    assert sorted(world.sent) == ["from a program", "hello"]
    assert allowed.outcome == "success"
    assert denied.outcome == "failed"
    assert "not on Sundays" in str(denied.content)
    assert {request.caller for request in world.asked} == {"direct", "code"}


@pytest.mark.parametrize(
    "call", [ToolCallPart("wait_forever", {}), ToolCallPart("execute_code", {"code": "await wait_forever()"})]
)
async def test_cancelling_the_run_ends_the_call(world: World, call: ToolCallPart) -> None:
    agent = Model(call, "never").agent(CallgateToolset(world.runtime, direct=["wait_forever"]))
    run = asyncio.create_task(agent.run("wait"))
    async with asyncio.timeout(30):
        await world.began.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
    assert world.cancelled == ["wait_forever"]


async def test_events_are_told_while_a_program_runs(world: World) -> None:
    events: list[Event] = []
    toolset = CallgateToolset[None](world.runtime, on_event=events.append)
    await (
        Model(ToolCallPart("execute_code", {"code": "print(await add_numbers(a=1, b=2))"}), "done")
        .agent(toolset)
        .run("go")
    )
    assert [type(event) for event in events] == [CallStarted, CallEnded, Printed]


async def test_only_the_tools_that_the_operator_named_are_there(world: World) -> None:
    toolset = CallgateToolset[None](world.runtime, tools=["add_numbers"], direct=["add_numbers"])
    model = Model(ToolCallPart("execute_code", {"code": "await find_book(title='Emma')"}), "no")
    result = await model.agent(toolset).run("try")
    (refused,) = returns(result.all_messages())
    assert refused.outcome == "failed"
    assert "find_book" in str(refused.content)


async def test_instructions_say_how_to_choose_unless_they_are_not_wanted(world: World) -> None:
    with_them, without = Model("a"), Model("b")
    await with_them.agent(CallgateToolset(world.runtime)).run("hi")
    await without.agent(CallgateToolset(world.runtime, instructions=False)).run("hi")
    assert "execute_code" in str(with_them.instructions[0])
    assert without.instructions == [None]


async def test_two_toolsets_go_together_with_a_prefix(world: World) -> None:
    toolset = CallgateToolset[None](world.runtime, id="mine", direct=["add_numbers"])
    model = Model(ToolCallPart("calc_add_numbers", {"a": 4, "b": 5}), "nine")
    agent = Agent(FunctionModel(model._play), toolsets=[toolset.prefixed("calc")])
    result = await agent.run("add")
    assert toolset.id == "mine"
    assert [part.content for part in returns(result.all_messages())] == ["9"]


async def test_wrong_options_are_told_when_it_is_made(world: World) -> None:
    with pytest.raises(ConfigurationError, match="did you mean"):
        CallgateToolset(world.runtime, direct=["add_number"])
    with pytest.raises(ConfigurationError, match="mistakes is 'failed' or 'retry', not 'raise'"):
        CallgateToolset(world.runtime, mistakes="raise")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"say direct=\.\.\. to runtime\.conversation"):
        CallgateToolset(world.runtime.conversation(), direct=["add_numbers"])
    with pytest.raises(ConfigurationError, match="neither a Runtime nor a Conversation"):
        CallgateToolset([])  # type: ignore[arg-type]
