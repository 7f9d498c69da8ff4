"""pydantic-ai-harness' CodeMode: ``python -m callgate_bench.contestants.pydantic_ai_mode``.

An agent of pydantic-ai with the workload's tools and the capability `CodeMode`, as an application runs it; its model is
pydantic-ai's `FunctionModel`. Programs run in Monty, in a session that lasts as long as the run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_ai import Agent, Tool
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import UsageLimits
from pydantic_ai_harness import CodeMode

from callgate_bench.contestants.contestant import CannotDo, Opened, Turn, pydantic_ai_refusal
from callgate_bench.contestants.played_agent import PlayedAgent
from callgate_bench.serving import serve

__all__ = ["PydanticAIMode"]

_TOOL_CALLS = 300
"""Its default would end the fan-out."""


class PydanticAIMode(PlayedAgent):
    """Programs by way of an agent's `run_code`."""

    packages = ("pydantic-ai-harness", "pydantic-ai-slim", "pydantic-monty")

    async def show(self) -> Opened:
        """What the agent shows its model."""
        mode = CodeMode[None](max_tool_calls=_TOOL_CALLS)
        tools = [Tool(each) for each in self.tools]
        self._agent: Agent[None, str] = Agent(FunctionModel(self._model), tools=tools, capabilities=[mode])
        await self.begin()
        info = self.first_request[1]
        definitions = [
            {"name": each.name, "description": each.description or "", "input_schema": each.parameters_json_schema}
            for each in info.function_tools
        ]
        note = f"max_tool_calls raised to {_TOOL_CALLS}; its default is 100"
        return Opened(tools=definitions, system=info.instructions or "", tool="run_code", note=note)

    async def converse(self) -> Any:
        """Run the agent."""
        return await self._agent.run(self.workload.task, usage_limits=UsageLimits(request_limit=None))

    async def _model(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        response: ModelResponse = await self.played((messages, info))
        return response

    async def act(self, calls: Sequence[Mapping[str, Any]]) -> Turn:
        """Hand the agent what its model calls."""
        parts = [ToolCallPart(each["tool"], dict(each["arguments"])) for each in calls]
        asked = await self.say(ModelResponse(parts=parts))
        if asked is None:
            raise RuntimeError("the agent ended without its model's last word")
        parts_of_last = asked[0][-1].parts
        return Turn(texts=[self._told(each) for each in parts_of_last if isinstance(each, ToolReturnPart)])

    def _told(self, part: ToolReturnPart) -> str:
        if self.scripted and part.outcome == "retried" and isinstance(part.content, str):
            refused = pydantic_ai_refusal(part.content)
            if refused:
                raise CannotDo(refused)
        return part.model_response_str()


if __name__ == "__main__":
    asyncio.run(serve(PydanticAIMode()))
