"""The tools as LangChain invokes them, with `ainvoke` and with `invoke`, and as it shows them to models."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import anyio.to_thread
import pytest
from langchain_core.messages import ToolCall, ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from adapters.conftest import World
from callgate import CallEnded, CallStarted, ConfigurationError, Event, Printed
from callgate.adapters.langchain import langchain_tools

pytestmark = pytest.mark.anyio

META = ["search_tools", "describe_tools", "execute_code", "execute_tool_plan"]


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall(name=name, args=arguments, id="call_1", type="tool_call")


def by_name(tools: list[BaseTool]) -> dict[str, BaseTool]:
    return {tool.name: tool for tool in tools}


def _titled(title: str) -> dict[str, str]:
    return {"title": title}


async def test_langchain_shows_models_what_callgate_defines(world: World) -> None:
    tools = langchain_tools(world.runtime, direct=["add_numbers"])
    assert [tool.name for tool in tools] == [*META, "add_numbers"]
    shown = [convert_to_openai_tool(tool) for tool in tools]
    defined = world.runtime.tool_definitions("openai", direct=["add_numbers"])
    assert [each["function"]["name"] for each in shown] == [each["function"]["name"] for each in defined]
    for each, ours in zip(shown, defined, strict=True):
        assert each["function"]["description"] == ours["function"]["description"]
        assert each["function"]["parameters"]["properties"] == ours["function"]["parameters"]["properties"]


async def test_a_call_is_answered_with_a_tool_message(world: World) -> None:
    tools = by_name(langchain_tools(world.runtime, direct=["add_numbers"]))
    message = await tools["add_numbers"].ainvoke(call("add_numbers", a=40, b=2))
    assert isinstance(message, ToolMessage)
    assert (message.content, message.status, message.tool_call_id) == ("42", "success", "call_1")
    assert message.artifact == {"structured": {"result": 42}, "found": [], "tools_changed": False}
    assert await tools["add_numbers"].ainvoke({"a": 1, "b": 2}) == "3"


async def test_a_program_is_run_and_its_result_is_the_artifact(world: World) -> None:
    tools = by_name(langchain_tools(world.runtime))
    message = await tools["execute_code"].ainvoke(call("execute_code", code="print(await add_numbers(a=1, b=2))"))
    assert message.content == "3"
    assert message.artifact["structured"]["ok"]
    assert message.artifact["structured"]["logs"] == "3\n"
    assert message.artifact["structured"]["tool_calls"] == 1


async def test_whatever_comes_back_can_be_kept_as_json(world: World) -> None:
    """Checkpointers keep messages with their artifacts, and know no classes of ours."""
    tools = by_name(langchain_tools(world.runtime))
    steps = [{"id": "s", "tool": "add_numbers", "arguments": {"a": 1, "b": 2}}]
    calls: dict[str, dict[str, Any]] = {
        "search_tools": {"query": "add"},
        "describe_tools": {"names": ["add_numbers"]},
        "execute_code": {"code": "await add_numbers(a=1, b=2)"},
        "execute_tool_plan": {"steps": steps},
    }
    for name, arguments in calls.items():
        message = await tools[name].ainvoke(call(name, **arguments))
        assert message.status == "success"
        assert json.loads(json.dumps(message.artifact)) == message.artifact
        assert message.artifact["structured"]


async def test_events_are_told_while_a_program_runs(world: World) -> None:
    events: list[Event] = []
    tools = by_name(langchain_tools(world.runtime, on_event=events.append))
    await tools["execute_code"].ainvoke({"code": "print(await add_numbers(a=1, b=2))"})
    assert [type(event) for event in events] == [CallStarted, CallEnded, Printed]


async def test_failures_are_tool_messages_with_status_error(world: World) -> None:
    tools = by_name(langchain_tools(world.runtime, direct=["add_numbers", "find_book"]))
    burnt = await tools["find_book"].ainvoke(call("find_book", title="burnt"))
    unknown = await tools["add_numbers"].ainvoke(call("add_numbers", a=1, c=2))
    program = await tools["execute_code"].ainvoke(call("execute_code", code="await add_number(a=1, b=2)"))
    assert [burnt.status, unknown.status, program.status] == ["error"] * 3
    assert "the library has burnt down" in burnt.content
    assert "'b'" in unknown.content
    assert "did you mean" in program.content


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


async def test_they_are_made_in_the_event_loop(world: World) -> None:
    with pytest.raises(ConfigurationError, match="in the event loop in which the runtime was entered"):
        await anyio.to_thread.run_sync(langchain_tools, world.runtime)


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


async def test_a_conversation_is_asked_anew_before_each_turn(world: World) -> None:
    conversation = world.runtime.conversation()
    tools = by_name(langchain_tools(conversation))
    assert list(tools) == META
    found = await tools["search_tools"].ainvoke(call("search_tools", query="book in the library"))
    assert found.artifact["tools_changed"]
    grown = by_name(langchain_tools(conversation))
    assert "find_book" in grown
    assert (await grown["find_book"].ainvoke(call("find_book", title="Emma"))).content == "Emma is on the shelf"
    assert list(by_name(langchain_tools(world.runtime.conversation()))) == META


async def test_approval_is_asked_of_the_runtime(world: World) -> None:
    (tool,) = langchain_tools(world.runtime, meta=(), direct=["send_mail"])
    assert (await tool.ainvoke(call("send_mail", text="hello"))).status == "success"
    denied = await tool.ainvoke(call("send_mail", text="deny this"))
    assert denied.status == "error"
    assert "not on Sundays" in denied.content
    assert world.sent == ["hello"]


async def test_cancelling_the_call_ends_what_it_started(world: World) -> None:
    tools = by_name(langchain_tools(world.runtime))
    running = asyncio.create_task(tools["execute_code"].ainvoke({"code": "await wait_forever()"}))
    async with asyncio.timeout(30):
        await world.began.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert world.cancelled == ["wait_forever"]


async def test_wrong_options_are_told_when_they_are_made(world: World) -> None:
    with pytest.raises(ConfigurationError, match="did you mean"):
        langchain_tools(world.runtime, direct=["add_number"])
