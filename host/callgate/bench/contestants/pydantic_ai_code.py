"""pydantic-ai-harness' CodeMode: ``python -m callgate.bench.contestants.pydantic_ai_code``.

An agent of pydantic-ai with the workload's tools and the capability `CodeMode`, run as an application runs it: one run
of the agent is one conversation. Its model is pydantic-ai's `FunctionModel`, which takes what the harness's model calls
and gives back what the agent would send to it. A turn's seconds are what the agent takes from the one to the other.
Programs run in Monty, in a session that lasts as long as the run.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from callgate.bench.contestants.refusals import pydantic_ai_refusal
from callgate.bench.contestants.seat import CannotDo, Meter, Opened, Steered, Turn, answered, cannot_or
from callgate.bench.serving import serve
from callgate.bench.workloads import WORKLOADS
from callgate.bench.workloads.workload import Workload

try:
    from pydantic_ai import Agent, Tool
    from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart, ToolReturnPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel
    from pydantic_ai.usage import UsageLimits
    from pydantic_ai_harness import CodeMode
except ImportError:  # an optional peer: the harness says so
    sys.exit("pydantic-ai-harness[code-mode] is not installed")

__all__ = ["PydanticAICode"]

_TOOL = "run_code"
_TOOL_CALLS: Mapping[str, int] = {"fan-out": 300}
"""Workloads whose programs call tools more often than `max_tool_calls` allows by default (100)."""


class PydanticAICode(Steered):
    """The functions that may be asked for: see `seat.Contestant`.

    Args:
        workloads: by name.
    """

    def __init__(self, workloads: Mapping[str, Workload] = WORKLOADS) -> None:
        self._workloads = workloads
        self._meter = Meter()
        self._agent: Agent[None, str]
        self._task = ""
        self._run: asyncio.Task[Any] | None = None
        self._asked: asyncio.Queue[tuple[float, list[ModelMessage], AgentInfo]]
        self._said: asyncio.Queue[ModelResponse]

    async def open(self, workload: str, paced: float = 1.0, scripted: bool = True) -> dict[str, Any]:
        """An agent with the tools of the workload, which has begun to run."""
        self.steer(paced, scripted)
        chosen = self._workloads[workload]
        most = _TOOL_CALLS.get(workload)
        mode = CodeMode[None]() if most is None else CodeMode[None](max_tool_calls=most)
        tools = [Tool(self._meter.metered(each)) for each in chosen.tools]
        self._agent = Agent(FunctionModel(self._model), tools=tools, capabilities=[mode])
        self._task = chosen.task
        info = await self._begun()
        definitions = [
            {"name": each.name, "description": each.description or "", "input_schema": each.parameters_json_schema}
            for each in info.function_tools
        ]
        note = f"max_tool_calls raised to {most}; its default is 100" if most else ""
        system = info.instructions or ""
        return answered(
            Opened(tools=definitions, system=system, form="program", tool=_TOOL, argument="code", note=note)
        )

    async def begin(self) -> dict[str, Any]:
        """A new conversation: a new run of the agent."""
        await self._begun()
        return {}

    async def _begun(self) -> AgentInfo:
        await self.aclose()
        self._asked, self._said = asyncio.Queue(), asyncio.Queue()
        unlimited = UsageLimits(request_limit=None)
        self._run = asyncio.create_task(self._agent.run(self._task, usage_limits=unlimited))
        _, _, info = await self._next()
        return info

    async def _model(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self._asked.put_nowait((time.perf_counter(), messages, info))
        return await self._said.get()

    async def _next(self) -> tuple[float, list[ModelMessage], AgentInfo]:
        """What the agent sends to its model next. Raises what the run raised, where it ended."""
        assert self._run is not None
        asked = asyncio.create_task(self._asked.get())
        await asyncio.wait([asked, self._run], return_when=asyncio.FIRST_COMPLETED)
        if asked.done():
            return asked.result()
        asked.cancel()
        self._run.result()
        raise AssertionError("the agent ended without its model's last word")

    @cannot_or
    async def turn(self, calls: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Hand the agent what its model calls."""
        self._meter.taken()
        parts = [ToolCallPart(each["tool"], dict(each["arguments"])) for each in calls]
        started = time.perf_counter()
        self._said.put_nowait(ModelResponse(parts=parts))
        ended, messages, _ = await self._next()
        texts = [self._told(each) for each in messages[-1].parts if isinstance(each, ToolReturnPart)]
        return answered(Turn(texts=texts, seconds=ended - started, intervals=self._meter.taken()))

    def _told(self, part: ToolReturnPart) -> str:
        """What the model sees of a call's end."""
        if self.scripted and part.outcome == "retried" and isinstance(part.content, str):
            refused = pydantic_ai_refusal(part.content)
            if refused:
                raise CannotDo(refused)
        return part.model_response_str()

    async def version(self) -> dict[str, Any]:
        """Of pydantic-ai-harness, pydantic-ai and Monty."""
        of = importlib.metadata.version
        others = f"pydantic-ai {of('pydantic-ai-slim')}, pydantic-monty {of('pydantic-monty')}"
        return {"version": f"{of('pydantic-ai-harness')}, {others}"}

    async def aclose(self) -> dict[str, Any]:
        """End the run, and with it Monty's workers."""
        run, self._run = self._run, None
        if run is not None:
            run.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await run
        return {}


if __name__ == "__main__":
    asyncio.run(serve(PydanticAICode()))
