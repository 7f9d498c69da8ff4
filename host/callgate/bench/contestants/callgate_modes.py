"""callgate's own modes: ``python -m callgate.bench.contestants.callgate_modes MODE``.

As an application would: a runtime with the workload's tools, its own definitions for the model, its own answers. What a
mode does not take part in is not there: direct calls and plans need no sandbox, and the fast path has none.
"""

from __future__ import annotations

import asyncio
import functools
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

from callgate.bench.contestants.seat import CannotDo, Meter, Opened, Steered, Turn, answered, cannot_or
from callgate.bench.serving import serve
from callgate.bench.singles.context import LIMITS, calm, still
from callgate.bench.workloads import WORKLOADS
from callgate.bench.workloads.workload import Busy, Function
from callgate.errors import CallgateError, ToolError
from callgate.runtime import Answer, CodeResult, Runtime
from callgate.tools import tool

__all__ = ["MODES", "Modes"]

MODES: Mapping[str, Mapping[str, Any]] = {
    "direct": {"sandbox": None},
    "direct-parallel": {"sandbox": None},
    "plan": {"sandbox": None},
    "code-jail": {"sandbox": "jail", "path": "sandbox"},
    "code-docker": {"sandbox": "docker", "path": "sandbox"},
    "code-fast": {"sandbox": None, "path": "plan"},
}
"""Options of the runtime, by the mode's name."""

_META = {"plan": ("execute_tool_plan", "plan", "plan")}
_CODE = ("execute_code", "code", "program")


class Modes(Steered):
    """The functions that may be asked for: see `seat.Contestant`."""

    def __init__(self, mode: str) -> None:
        self._mode = mode
        self._options = MODES[mode]
        self._meter = Meter()
        self._stack = AsyncExitStack()
        self._runtime: Runtime

    async def open(self, workload: str, paced: float = 1.0, scripted: bool = True) -> dict[str, Any]:
        """A runtime with the tools of the workload, its pool full."""
        await self._stack.aclose()
        self.steer(paced, scripted)
        tools = [tool(read_only=True)(self._meter.metered(_told(each))) for each in WORKLOADS[workload].tools]
        self._runtime = await self._stack.enter_async_context(Runtime(tools, limits=LIMITS, **self._options))
        if self._options["sandbox"] is not None:
            await calm(self._runtime)
        return answered(self._opened())

    def _opened(self) -> Opened:
        if self._mode.startswith("direct"):
            definitions = self._runtime.tool_definitions("anthropic", meta=(), direct="all")
            return Opened(tools=definitions, form=self._mode)
        name, argument, form = _META.get(self._mode, _CODE)
        definitions = self._runtime.tool_definitions("anthropic", meta=(name,))  # type: ignore[arg-type]
        instructions = self._runtime.instructions(meta=(name,))  # type: ignore[arg-type]
        return Opened(tools=definitions, system=instructions, form=form, tool=name, argument=argument)

    async def begin(self) -> dict[str, Any]:
        """A new conversation: the pool is full again."""
        if self._options["sandbox"] is not None:
            await calm(self._runtime)
        return {}

    @cannot_or
    async def turn(self, calls: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Answer what the model calls, at the same time."""
        self._meter.taken()
        meta = () if self._mode.startswith("direct") else (_META.get(self._mode, _CODE)[0],)
        started = time.perf_counter()
        answers = await asyncio.gather(
            *(self._runtime.answer(each["tool"], each["arguments"], meta=meta) for each in calls)  # type: ignore[arg-type]
        )
        seconds = time.perf_counter() - started
        guest = 0
        if self._mode == "code-docker":
            guest = max((each.result.usage.peak_memory_bytes or 0 for each in answers if _ran(each)), default=0)  # type: ignore[union-attr]
        if self._mode == "code-fast" and self.scripted:
            _must_be_graphs(answers)
        texts = [each.text for each in answers]
        return answered(Turn(texts=texts, seconds=seconds, intervals=self._meter.taken(), guest_bytes=guest))

    async def weigh(self) -> dict[str, Any]:
        """What the containers that stand ready take, with their shims, and the shim of one that runs."""
        if self._mode != "code-docker":
            return {}
        from callgate.bench.contestants.container_memory import standing  # what it needs weighs, too

        await still(self._runtime)  # containers that are about to go have no process any more
        try:
            return {"guest_bytes": await standing(self._runtime.backend)}
        except (OSError, CallgateError) as error:
            return {"note": f"the containers that stand ready are not in its memory: {error}"}

    async def version(self) -> dict[str, Any]:
        """Of callgate, and what confines its programs."""
        from callgate import __version__

        confined = "" if self._options["sandbox"] is None else self._runtime.backend.description
        return {"version": __version__, "sandbox": confined}

    async def aclose(self) -> dict[str, Any]:
        """End the runtime, and with it its guests."""
        await self._stack.aclose()
        return {}


def _told(function: Function) -> Function:
    """The tool; that it is busy is for whoever called, as a tool's author says it to callgate."""

    @functools.wraps(function)
    async def called(*args: Any, **kwargs: Any) -> Any:
        try:
            return await function(*args, **kwargs)
        except Busy as busy:
            raise ToolError(str(busy), retryable=True) from None

    return called


def _ran(answer: Answer) -> bool:
    return isinstance(answer.result, CodeResult)


def _must_be_graphs(answers: Sequence[Answer]) -> None:
    for answer in answers:
        result = answer.result
        if isinstance(result, CodeResult) and result.error is not None and result.error.kind == "NotAGraph":
            raise CannotDo(f"the program is no graph of calls: {result.error.message}")


if __name__ == "__main__":
    asyncio.run(serve(Modes(sys.argv[1])))
