"""The OpenAI Agents SDK's own: strict and deferred tools, and calls by the service's programs."""

from __future__ import annotations

from typing import Any

import pytest
from agents import FunctionTool, ToolSearchTool
from agents.tool_context import ToolContext
from openai import AsyncOpenAI
from openai.types.responses import ResponseFunctionToolCall
from openai.types.responses.response_function_tool_call import CallerDirect, CallerProgram

from adapters.conftest import World
from adapters.frameworks import openai_agents, run_agent
from callgate import Runtime, Tool
from callgate.adapters.openai_agents import openai_agents_tools
from callgate_bench.model.stand_in import Call, OpenAIResponses, Script, serving
from callgate_bench.model.stand_in.server import KEY

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("strict", [False, True])
async def test_the_model_is_sent_what_callgate_defines(world: World, strict: bool) -> None:
    options: Any = {"direct": ["add_numbers", "find_book"], "strict": strict}
    api = OpenAIResponses(Script(lambda _: Call("find_book", {"title": "Emma"}), lambda turn: turn.answer))
    with serving(api) as url:
        async with AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as client:
            result = await run_agent(client, openai_agents_tools(world.runtime, **options))
    assert result.final_output == "Emma is on the shelf"
    sent = [{key: each[key] for key in KEYS} for each in api.requests[0]["tools"]]
    assert sent == world.runtime.tool_definitions("openai-responses", **options)
    assert [each["strict"] for each in sent if each["name"] == "find_book"] == [strict]


async def test_tools_of_a_runtime_do_not_grow(world: World) -> None:
    """They are every user's."""
    found = await openai_agents(world.runtime, [("search_tools", {"query": "book in the library"})])
    assert found.names[1] == found.names[0]


KEYS = ("type", "name", "description", "parameters", "strict")


def context_of(name: str, caller: CallerDirect | CallerProgram | None = None) -> ToolContext[None]:
    call = ResponseFunctionToolCall(type="function_call", call_id="c1", name=name, arguments="{}", caller=caller)
    return ToolContext(None, tool_name=name, tool_call_id="c1", tool_arguments="{}", tool_call=call)


async def test_arguments_that_are_no_json_are_answered_in_words(world: World) -> None:
    (tool,) = openai_agents_tools(world.runtime, meta=(), direct=["add_numbers"])
    assert isinstance(tool, FunctionTool)
    context = context_of("add_numbers")
    assert "not valid JSON" in await tool.on_invoke_tool(context, '{"a": 1,')
    assert "must be an object" in await tool.on_invoke_tool(context, "[1]")


async def test_calls_by_the_services_own_programs_are_held_to_allowed_callers(world: World) -> None:
    async def secret() -> str:
        return "told"

    both = Tool.from_function(secret, name="both", description="For both.", allowed_callers=["direct", "code"])
    alone = Tool.from_function(secret, name="alone", description="For the model.", allowed_callers=["direct"])
    async with Runtime([both, alone], sandbox=None) as runtime:
        tools = openai_agents_tools(runtime, meta=(), direct="all", programmatic="programmatic")
        by_name = {tool.name: tool for tool in tools if isinstance(tool, FunctionTool)}
        assert {name: tool.allowed_callers for name, tool in by_name.items()} == {
            "both": ["direct", "programmatic"],
            "alone": ["direct"],
        }
        program = CallerProgram(type="program", caller_id="p1")
        assert await by_name["both"].on_invoke_tool(context_of("both", program), "{}") == '"told"'
        assert "Error" in await by_name["alone"].on_invoke_tool(context_of("alone", program), "{}")
        direct = CallerDirect(type="direct")
        assert await by_name["alone"].on_invoke_tool(context_of("alone", direct), "{}") == "told"


async def test_deferred_tools_come_with_the_services_tool_search(world: World) -> None:
    *tools, search = openai_agents_tools(world.runtime, meta=(), direct=["add_numbers", "find_book"], defer="all")
    assert [tool.defer_loading for tool in tools if isinstance(tool, FunctionTool)] == [True, True]
    assert isinstance(search, ToolSearchTool)
