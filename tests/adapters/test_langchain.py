"""LangChain's own: tool messages with artifacts, `invoke` beside `ainvoke`, threads. The conformance suite has more."""

from __future__ import annotations

from typing import Any

import anyio.to_thread
import pytest
from langchain_core.messages import ToolCall, ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import BaseTool

from adapters.conftest import World
from callgate import ConfigurationError
from callgate.adapters.langchain import langchain_tools

pytestmark = pytest.mark.anyio


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall(name=name, args=arguments, id="call_1", type="tool_call")


def by_name(tools: list[BaseTool]) -> dict[str, BaseTool]:
    return {tool.name: tool for tool in tools}


def _titled(title: str) -> dict[str, str]:
    return {"title": title}


async def test_a_call_is_answered_with_a_tool_message(world: World) -> None:
    tools = by_name(langchain_tools(world.runtime, direct=["add_numbers"]))
    message = await tools["add_numbers"].ainvoke(call("add_numbers", a=40, b=2))
    assert isinstance(message, ToolMessage)
    assert (message.content, message.status, message.tool_call_id) == ("42", "success", "call_1")
    assert message.artifact == {"structured": {"result": 42}, "found": [], "tools_changed": False}
    assert await tools["add_numbers"].ainvoke({"a": 1, "b": 2}) == "3"
    program = await tools["execute_code"].ainvoke(call("execute_code", code="print(await add_numbers(a=1, b=2))"))
    structured = program.artifact["structured"]
    assert (structured["ok"], structured["logs"], structured["tool_calls"]) == (True, "3\n", 1)


async def test_failures_are_tool_messages_with_status_error(world: World) -> None:
    tools = by_name(langchain_tools(world.runtime, direct=["add_numbers", "find_book"]))
    for failing in (
        call("find_book", title="burnt"),
        call("add_numbers", a=1, c=2),
        call("execute_code", code="await add_number(a=1, b=2)"),
    ):
        assert (await tools[failing["name"]].ainvoke(failing)).status == "error"


async def test_invoke_works_in_another_thread(world: World) -> None:
    tools = by_name(langchain_tools(world.runtime, direct=["add_numbers", "find_book"]))
    message = await anyio.to_thread.run_sync(tools["add_numbers"].invoke, call("add_numbers", a=40, b=2))
    assert message.content == "42"
    failed = await anyio.to_thread.run_sync(tools["find_book"].invoke, call("find_book", title="burnt"))
    assert failed.status == "error"
    chain = RunnableLambda(_titled) | tools["find_book"]
    assert await anyio.to_thread.run_sync(chain.invoke, "Emma") == "Emma is on the shelf"


async def test_invoke_in_the_runtimes_own_loop_says_what_to_do_instead(world: World) -> None:
    tools = by_name(langchain_tools(world.runtime, direct=["add_numbers"]))
    with pytest.raises(ConfigurationError, match=r"await tool\.ainvoke"):
        tools["add_numbers"].invoke({"a": 1, "b": 2})


async def test_they_may_be_made_in_any_thread(world: World) -> None:
    made = by_name(await anyio.to_thread.run_sync(langchain_tools, world.runtime))
    assert await made["execute_code"].ainvoke({"code": "await add_numbers(a=1, b=2)"}) == "Value: 3"


async def test_argument_names_that_langchain_uses_itself_arrive(world: World) -> None:
    """Arguments are a foreign tool's, and may be called anything."""
    from callgate import Runtime, Tool

    names = ["config", "run_manager", "self", "callbacks", "name", "input", "tool_call_id", "class"]
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in names}, "required": names}

    async def echo(**given: str) -> dict[str, str]:
        return given

    odd = Tool.from_schema("odd", "Odd names.", schema, echo)
    async with Runtime([odd], sandbox=None) as runtime:
        (tool,) = langchain_tools(runtime, meta=(), direct=["odd"])
        given = {name: name.upper() for name in names}
        message = await tool.ainvoke(ToolCall(name="odd", args=given, id="1", type="tool_call"))
        threaded = await anyio.to_thread.run_sync(
            tool.invoke, ToolCall(name="odd", args=given, id="1", type="tool_call")
        )
    assert message.artifact["structured"]["result"] == given
    assert threaded.artifact["structured"]["result"] == given
