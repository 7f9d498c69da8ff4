"""pydantic-ai's own: runs beside each other, retries, instructions, prefixes. The rest is in the conformance suite."""

from __future__ import annotations

import asyncio

import pytest
from pydantic_ai import Agent, UnexpectedModelBehavior
from pydantic_ai.messages import (
    ToolCallPart,
)
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.test import TestModel

from adapters.conftest import World
from adapters.frameworks import Model, returns
from adapters.test_conformance import META
from callgate import ConfigurationError, SyncRuntime
from callgate.adapters.pydantic_ai import CallgateToolset

pytestmark = pytest.mark.anyio


def shown(model: Model) -> list[list[str]]:
    return [[tool.name for tool in tools] for tools in model.shown]


async def test_pydantic_ais_own_model_can_call_every_tool(world: World) -> None:
    """`TestModel` makes arguments up from the schemas."""
    toolset = CallgateToolset[None](world.runtime, direct=["add_numbers", "find_book"])
    agent = Agent(TestModel(call_tools=["add_numbers", "find_book", "search_tools"]), toolsets=[toolset])
    result = await agent.run("hi")
    answered = {part.tool_name: part.content for part in returns(result.all_messages())}
    assert answered["add_numbers"] == "0"
    assert answered["find_book"] == "a is on the shelf"
    assert set(answered) == {"add_numbers", "find_book", "search_tools"}


async def test_what_a_search_finds_is_shown_to_this_run_alone(world: World) -> None:
    toolset = CallgateToolset[None](world.runtime)
    first, other = Model(ToolCallPart("search_tools", {"query": "book"}), "found"), Model("nothing")
    await first.agent(toolset).run("find Emma")
    await other.agent(toolset).run("another run")
    assert "find_book" in shown(first)[1]
    assert shown(other) == [META]


async def test_runs_at_the_same_time_do_not_see_what_the_other_found(world: World) -> None:
    toolset = CallgateToolset[None](world.runtime)
    searching = Model(ToolCallPart("search_tools", {"query": "book"}), "found")
    waiting = Model(ToolCallPart("execute_code", {"code": "await add_numbers(a=1, b=1)"}), "waited")
    await asyncio.gather(searching.agent(toolset).run("a"), waiting.agent(toolset).run("b"))
    assert "find_book" in shown(searching)[1]
    assert shown(waiting) == [META, META]


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
    with pytest.raises(ConfigurationError, match="mistakes is 'failed' or 'retry', not 'raise'"):
        CallgateToolset(world.runtime, mistakes="raise")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"say direct=\.\.\. to runtime\.conversation"):
        CallgateToolset(world.runtime.conversation(), direct=["add_numbers"])
    with pytest.raises(ConfigurationError, match="neither a Runtime nor a Conversation"):
        CallgateToolset([])  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="take the Runtime of a SyncRuntime"):
        CallgateToolset(SyncRuntime(sandbox=None))  # type: ignore[arg-type]
