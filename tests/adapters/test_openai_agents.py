"""The function tools in real runs of the OpenAI Agents SDK, against the stand-in for the Responses API."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from agents import Agent, FunctionTool, ModelSettings, OpenAIResponsesModel, RunConfig, Runner, ToolSearchTool
from agents.items import ToolCallOutputItem
from agents.tool_context import ToolContext
from openai import AsyncOpenAI
from openai.types.responses import ResponseFunctionToolCall
from openai.types.responses.response_function_tool_call import CallerDirect, CallerProgram

from adapters.conftest import World
from callgate import CallEnded, CallStarted, ConfigurationError, Event, Printed, Runtime, Tool
from callgate.adapters.openai_agents import openai_agents_tools
from callgate.bench.model.stand_in import Call, Move, OpenAIResponses, Script, Turn, serving
from callgate.bench.model.stand_in.server import KEY

pytestmark = pytest.mark.anyio

META = ["search_tools", "describe_tools", "execute_code", "execute_tool_plan"]
QUIET = RunConfig(tracing_disabled=True)


class Service:
    """Runs agents against a script."""

    async def run(self, tools: list[Any], *moves: Move | Any, prompt: str = "go") -> Any:
        turns = [move if callable(move) else lambda turn, move=move: move for move in moves]
        self.api = OpenAIResponses(Script(*turns))
        with serving(self.api) as url:
            async with AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as client:
                model = OpenAIResponsesModel(model="gpt-6", openai_client=client)
                agent = Agent(name="tester", model=model, tools=tools, model_settings=ModelSettings(store=False))
                return await Runner.run(agent, prompt, run_config=QUIET)

    def shown(self) -> list[list[str]]:
        return [[tool["name"] for tool in request.get("tools", [])] for request in self.api.requests]


@pytest.fixture
def service() -> Service:
    return Service()


def context_of(name: str, caller: CallerDirect | CallerProgram | None = None) -> ToolContext[None]:
    call = ResponseFunctionToolCall(type="function_call", call_id="c1", name=name, arguments="{}", caller=caller)
    return ToolContext(None, tool_name=name, tool_call_id="c1", tool_arguments="{}", tool_call=call)


def outputs(result: Any) -> list[str]:
    return [item.output for item in result.new_items if isinstance(item, ToolCallOutputItem)]


async def test_the_model_is_sent_what_callgate_defines(world: World, service: Service) -> None:
    tools = openai_agents_tools(world.runtime, direct=["add_numbers"])
    result = await service.run(tools, "hello")
    assert result.final_output == "hello"
    sent = service.api.requests[0]["tools"]
    defined = world.runtime.tool_definitions("openai-responses", direct=["add_numbers"])
    assert [
        {key: each[key] for key in ("type", "name", "description", "parameters", "strict")} for each in sent
    ] == defined


async def test_calls_are_answered_and_the_run_goes_on(world: World, service: Service) -> None:
    def adds(turn: Turn) -> Move:
        return [Call("add_numbers", {"a": 40, "b": 2}), Call("execute_code", {"code": "await add_numbers(a=1, b=2)"})]

    def concludes(turn: Turn) -> Move:
        return " ".join(answer.text for answer in turn.answers)

    tools = openai_agents_tools(world.runtime, direct=["add_numbers"])
    result = await service.run(tools, adds, concludes)
    assert result.final_output == "42 Value: 3"


async def test_strict_definitions_stay_as_callgate_made_them(world: World, service: Service) -> None:
    tools = openai_agents_tools(world.runtime, direct=["add_numbers", "find_book"], strict=True)
    moves = [Call("find_book", {"title": "Emma"}), lambda turn: turn.answer]
    result = await service.run(tools, *moves)
    assert result.final_output == "Emma is on the shelf"
    sent = {each["name"]: each["strict"] for each in service.api.requests[0]["tools"]}
    assert sent["find_book"] is True


async def test_failures_are_outputs_in_words(world: World, service: Service) -> None:
    tools = openai_agents_tools(world.runtime, direct=["add_numbers", "find_book"])
    calls = [
        Call("find_book", {"title": "burnt"}),
        Call("add_numbers", {"a": 1, "c": 2}),
        Call("execute_code", {"code": "await add_number(a=1, b=2)"}),
    ]
    result = await service.run(tools, calls, calls, "enough")
    burnt, unknown, program = outputs(result)[-3:]
    assert result.final_output == "enough"
    assert "the library has burnt down" in burnt
    assert "'b'" in unknown
    assert "did you mean" in program


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


async def test_a_conversations_tools_grow_while_the_agent_runs(world: World, service: Service) -> None:
    conversation = world.runtime.conversation()
    tools = openai_agents_tools(conversation)
    result = await service.run(
        tools,
        Call("search_tools", {"query": "book in the library"}),
        Call("find_book", {"title": "Emma"}),
        lambda turn: turn.answer,
    )
    assert result.final_output == "Emma is on the shelf"
    assert service.shown()[0] == META
    assert "find_book" in service.shown()[1]
    assert [tool.name for tool in openai_agents_tools(world.runtime.conversation())] == META


async def test_tools_of_a_runtime_do_not_grow(world: World, service: Service) -> None:
    """They are every user's."""
    tools = openai_agents_tools(world.runtime)
    await service.run(tools, Call("search_tools", {"query": "book in the library"}), "found")
    assert service.shown() == [META, META]


async def test_approval_is_asked_of_the_runtime(world: World, service: Service) -> None:
    tools = openai_agents_tools(world.runtime, direct=["send_mail"])
    calls = [Call("send_mail", {"text": "hello"}), Call("send_mail", {"text": "deny this"})]
    result = await service.run(tools, calls, "sent")
    allowed, denied = outputs(result)
    assert allowed == "1"
    assert "not on Sundays" in denied
    assert world.sent == ["hello"]


async def test_events_are_told_while_a_program_runs(world: World, service: Service) -> None:
    events: list[Event] = []
    tools = openai_agents_tools(world.runtime, on_event=events.append)
    await service.run(tools, Call("execute_code", {"code": "print(await add_numbers(a=1, b=2))"}), "done")
    assert [type(event) for event in events] == [CallStarted, CallEnded, Printed]


async def test_cancelling_the_run_ends_the_call(world: World, service: Service) -> None:
    tools = openai_agents_tools(world.runtime)
    running = asyncio.create_task(service.run(tools, Call("execute_code", {"code": "await wait_forever()"}), "never"))
    async with asyncio.timeout(30):
        await world.began.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert world.cancelled == ["wait_forever"]


async def test_wrong_options_are_told_when_they_are_made(world: World) -> None:
    with pytest.raises(ConfigurationError, match="did you mean"):
        openai_agents_tools(world.runtime, direct=["add_number"])
