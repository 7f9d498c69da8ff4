"""Each framework as the conformance suite drives it: show the tools, make calls, say what came back."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from agents import Agent as OpenAIAgent
from agents import ModelSettings, OpenAIResponsesModel, RunConfig, Runner
from agents.items import ToolCallOutputItem
from langchain_core.messages import ToolCall
from langchain_core.utils.function_calling import convert_to_openai_tool
from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.tools import ToolDefinition

from callgate.adapters.langchain import langchain_tools
from callgate.adapters.openai_agents import openai_agents_tools
from callgate.adapters.pydantic_ai import CallgateToolset
from callgate_bench.model.stand_in import Call, OpenAIResponses, Script, serving
from callgate_bench.model.stand_in.server import KEY

Turn = Sequence[tuple[str, dict[str, Any]]]
"""Calls that a model makes at once."""


@dataclass
class Ran:
    """What a model was shown before each turn, as name, description and parameters, and the text of each answer."""

    shown: list[list[tuple[str, str | None, dict[str, Any]]]] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)

    @property
    def names(self) -> list[list[str]]:
        return [[name for name, _, _ in tools] for tools in self.shown]


def returns(messages: list[ModelMessage]) -> list[ToolReturnPart]:
    requests = [message for message in messages if isinstance(message, ModelRequest)]
    return [part for request in requests for part in request.parts if isinstance(part, ToolReturnPart)]


class Model:
    """Plays these steps for pydantic-ai, and keeps what it was shown."""

    def __init__(self, *steps: ToolCallPart | Sequence[ToolCallPart] | str) -> None:
        self.steps = list(steps)
        self.shown: list[list[ToolDefinition]] = []
        self.instructions: list[str | None] = []

    def agent(self, toolset: Any) -> Agent[None, str]:
        return Agent(FunctionModel(self._play), toolsets=[toolset])

    def _play(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.shown.append(list(info.function_tools))
        self.instructions.append(info.instructions)
        step = self.steps[len(self.shown) - 1]
        parts = [TextPart(step)] if isinstance(step, str) else [step] if isinstance(step, ToolCallPart) else list(step)
        return ModelResponse(parts=parts)


async def pydantic_ai(source: Any, *turns: Turn, **options: Any) -> Ran:
    model = Model(*[[ToolCallPart(name, given) for name, given in turn] for turn in turns], "done")
    result = await model.agent(CallgateToolset[None](source, **options)).run("go")
    return Ran(
        [[(each.name, each.description, each.parameters_json_schema) for each in tools] for tools in model.shown],
        [str(part.content) for part in returns(result.all_messages())],
    )


async def openai_agents(source: Any, *turns: Turn, **options: Any) -> Ran:
    script = Script(*[lambda _, turn=turn: [Call(*each) for each in turn] for turn in turns], lambda _: "done")
    api = OpenAIResponses(script)
    with serving(api) as url:
        async with AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as client:
            result = await run_agent(client, openai_agents_tools(source, **options))
    return Ran(
        [[(each["name"], each["description"], each["parameters"]) for each in sent["tools"]] for sent in api.requests],
        [str(item.output) for item in result.new_items if isinstance(item, ToolCallOutputItem)],
    )


async def run_agent(client: AsyncOpenAI, tools: list[Any]) -> Any:
    """A run of an agent of the OpenAI Agents SDK."""
    model = OpenAIResponsesModel(model="gpt-6", openai_client=client)
    agent = OpenAIAgent(name="tester", model=model, tools=tools, model_settings=ModelSettings(store=False))
    return await Runner.run(agent, "go", run_config=RunConfig(tracing_disabled=True))


async def langchain(source: Any, *turns: Turn, **options: Any) -> Ran:
    """LangChain's agents ask for the tools again before each turn, and so does this."""
    ran = Ran()
    for turn in [*turns, []]:
        tools = {tool.name: tool for tool in langchain_tools(source, **options)}
        functions = [convert_to_openai_tool(tool)["function"] for tool in tools.values()]
        ran.shown.append([(each["name"], each["description"], each["parameters"]) for each in functions])
        for name, given in turn:
            message = await tools[name].ainvoke(ToolCall(name=name, args=given, id="call_1", type="tool_call"))
            assert json.loads(json.dumps(message.artifact)) == message.artifact, "checkpointers keep it as JSON"
            ran.answers.append(message.content)
    return ran


FRAMEWORKS: dict[str, Callable[..., Any]] = {
    "langchain": langchain,
    "openai_agents": openai_agents,
    "pydantic_ai": pydantic_ai,
}
