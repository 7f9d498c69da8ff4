"""smolagents' CodeAgent: ``python -m callgate.bench.contestants.smolagents_code``.

A `CodeAgent` with the workload's tools and its default executor, run as an application runs it: one run of the agent
is one conversation. Its model takes what the harness's model calls and gives back what the agent would send to it; a
turn's seconds are what the agent takes from the one to the other. The agent's model writes text, and programs stand in
it between tags; in the agent's memory each is a call of ``python_interpreter``, and that is what the harness's model
calls here.

The default executor, `LocalPythonExecutor`, walks the program's tree within this process. smolagents says of it that it
is no security sandbox.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import queue
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from callgate.bench.contestants.refusals import smolagents_refusal
from callgate.bench.contestants.seat import CannotDo, Meter, Opened, Steered, Turn, answered, cannot_or
from callgate.bench.serving import serve
from callgate.bench.workloads import WORKLOADS
from callgate.bench.workloads.pacing import at_once
from callgate.bench.workloads.workload import Function, Workload

try:
    from smolagents import ChatMessage, CodeAgent, LogLevel, MessageRole, Model, Tool
    from smolagents._function_type_hints_utils import get_json_schema
    from smolagents.tools import AUTHORIZED_TYPES
except ImportError:  # an optional peer: the harness says so
    sys.exit("smolagents is not installed")

__all__ = ["SmolagentsCode"]

_TOOL = "python_interpreter"
_ARGUMENT = "code"
_DEFINITION: Mapping[str, Any] = {
    "name": _TOOL,
    "description": "Runs the code of a step.",
    "input_schema": {"type": "object", "properties": {_ARGUMENT: {"type": "string"}}, "required": [_ARGUMENT]},
}
_STEPS = 1_000_000
_CLOSING_SECONDS = 5.0
_NOTE = "programs are handed over as tool calls; smolagents' own models write them as text between tags"
_NO_REAL_MODEL = (
    "its prompt has models write programs as text between <code> tags, and the harness takes them as tool calls: a "
    "model that does as it is told would not be understood"
)


class _Left(BaseException):
    """The conversation is over; nothing of smolagents catches this."""


class _Played(Model):  # type: ignore[misc]
    """A model that is played by the harness."""

    def __init__(self) -> None:
        super().__init__(model_id="played by the harness")
        self.asked: queue.SimpleQueue[tuple[float, list[ChatMessage]]] = queue.SimpleQueue()
        self.said: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def generate(self, messages: list[ChatMessage], *_: Any, **__: Any) -> ChatMessage:
        """Give what the harness's model said. In the agent's thread."""
        self.asked.put((time.perf_counter(), messages))
        said = self.said.get()
        if said is None:
            raise _Left
        return ChatMessage(role=MessageRole.ASSISTANT, content=said)


class _Run:
    """A run of an agent, in a thread of its own."""

    def __init__(self, agent: CodeAgent, model: _Played, task: str) -> None:
        self._agent = agent
        self._model = model
        self._ended: list[Any] = []
        self._thread = threading.Thread(target=self._go, args=(task,), daemon=True)
        self._thread.start()

    def _go(self, task: str) -> None:
        try:
            self._ended.append(self._agent.run(task))
        except (_Left, Exception) as error:
            self._ended.append(error)
        self._model.asked.put((time.perf_counter(), []))

    def over(self) -> bool:
        """Whether it has ended."""
        return bool(self._ended)

    async def next(self) -> tuple[float, str]:
        """When the agent asked its model again, or ended; and what is new to the model, or the agent's last word.

        Raises what the run raised.
        """
        at, messages = await asyncio.to_thread(self._model.asked.get)
        if messages:
            return at, "".join(_texts(messages[-1]))
        if isinstance(self._ended[0], BaseException):
            raise self._ended[0]
        return at, str(self._ended[0])

    def leave(self) -> None:
        """End it."""
        self._model.said.put(None)
        self._thread.join(_CLOSING_SECONDS)


class SmolagentsCode(Steered):
    """The functions that may be asked for: see `seat.Contestant`.

    Args:
        workloads: by name.
    """

    def __init__(self, workloads: Mapping[str, Workload] = WORKLOADS) -> None:
        self._workloads = workloads
        self._meter = Meter()
        self._workload = ""
        self._run: _Run | None = None
        self._model: _Played
        self._agent: CodeAgent

    @cannot_or
    async def open(self, workload: str, paced: float = 1.0, scripted: bool = True) -> dict[str, Any]:
        """An agent with the tools of the workload, which has begun to run."""
        if not scripted:
            raise CannotDo(_NO_REAL_MODEL)
        self.steer(paced, scripted)
        self._workload = workload
        await self.begin()
        return answered(
            Opened(
                tools=[dict(_DEFINITION)], system=self._agent.initialize_system_prompt(), form="program", tool=_TOOL,
                argument=_ARGUMENT, dialect="sync-final", note=_NOTE,
            )
        )  # fmt: skip

    async def begin(self) -> dict[str, Any]:
        """A new conversation: a new agent, which runs."""
        await self.aclose()
        workload = self._workloads[self._workload]
        self._model = _Played()
        self._agent = CodeAgent(
            tools=[_tool(each, self._meter) for each in workload.tools],
            model=self._model,
            max_steps=_STEPS,
            verbosity_level=LogLevel.OFF,
        )
        self._run = _Run(self._agent, self._model, workload.task)
        await self._run.next()
        return {}

    @cannot_or
    async def turn(self, calls: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Hand the agent its programs, one after the other, until one has given the final answer.

        Raises:
            RuntimeError: one has given it in an earlier turn, or there is no conversation.
        """
        if self._run is None or self._run.over():
            raise RuntimeError("the agent has given its final answer; begin a new conversation")
        self._meter.taken()
        texts: list[str] = []
        seconds, final = 0.0, ""
        opening, closing = self._agent.code_block_tags
        for each in calls:
            started = time.perf_counter()
            self._model.said.put(f"{opening}\n{each['arguments'][_ARGUMENT]}\n{closing}")
            ended, text = await self._run.next()
            seconds += ended - started
            texts.append(text)
            if self._run.over():
                final = text
                break
            error = getattr(self._agent.memory.steps[-1], "error", None)
            refused = smolagents_refusal(error.message) if self.scripted and error is not None else ""
            if refused:
                raise CannotDo(refused)
        return answered(Turn(texts=texts, seconds=seconds, final=final, intervals=self._meter.taken()))

    async def version(self) -> dict[str, Any]:
        """Of smolagents."""
        return {"version": importlib.metadata.version("smolagents")}

    async def aclose(self) -> dict[str, Any]:
        """End the run."""
        run, self._run = self._run, None
        if run is not None:
            await asyncio.to_thread(run.leave)
        return {}


def _texts(message: ChatMessage) -> list[str]:
    content = message.content
    return [str(each.get("text", "")) for each in content] if isinstance(content, list) else [str(content)]


def _tool(function: Function, meter: Meter) -> Tool:
    """A tool as smolagents' own decorator would have it, if the function were not async: it runs where it is called."""
    metered = meter.metered(function)
    schema = get_json_schema(function)["function"]
    returned = schema.get("return", {}).get("type", "any")

    class WorkloadTool(Tool):  # type: ignore[misc]
        name = schema["name"]
        description = schema["description"]
        inputs = schema["parameters"]["properties"]
        output_type = returned if returned in AUTHORIZED_TYPES else "any"
        skip_forward_signature_validation = True

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            """Call it."""
            return at_once(metered(*args, **kwargs))

    return WorkloadTool()


if __name__ == "__main__":
    asyncio.run(serve(SmolagentsCode()))
