"""callgate's own modes: ``python -m callgate_bench.contestants.callgate_modes MODE``.

As an application would: a runtime with the workload's tools, its own definitions for the model, its own answers. What a
mode does not take part in is not there: direct calls and plans need no sandbox, and the fast path has none.
"""

from __future__ import annotations

import asyncio
import functools
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from callgate import CodeResult, Limits, Runtime, ToolError, tool
from callgate_bench.contestants.contestant import CannotDo, Contestant, Opened, Turn
from callgate_bench.guests import Pool
from callgate_bench.serving import serve
from callgate_bench.workloads.workload import Busy, Function

__all__ = ["MODES", "Mode", "words"]

MODES: Mapping[str, Mapping[str, Any]] = {
    "direct": {"sandbox": None},
    "direct-parallel": {"sandbox": None},
    "plan": {"sandbox": None},
    "code-jail": {"sandbox": "jail", "path": "sandbox"},
    "code-docker": {"sandbox": "docker", "path": "sandbox"},
    "code-fast": {"sandbox": None, "path": "plan"},
}
"""Options of the runtime, by the mode's name."""

_LIMITS = Limits(wall_seconds=600.0, cpu_seconds=600.0, max_tool_calls=1_000_000)


class Mode(Contestant):
    """One of `MODES`."""

    def __init__(self, mode: str) -> None:
        super().__init__()
        self._mode = mode
        self._meta = "" if mode.startswith("direct") else "execute_tool_plan" if mode == "plan" else "execute_code"
        self._sandboxed = MODES[mode]["sandbox"] is not None
        self._runtime: Runtime
        self._pool: Pool

    async def show(self) -> Opened:
        """A runtime with the tools of the workload, its pool full."""
        tools = [tool(read_only=True)(_retryable(each)) for each in self.tools]
        self._pool = Pool()
        self._runtime = await self._stack.enter_async_context(Runtime(tools, limits=_LIMITS, **MODES[self._mode]))
        await self.begin()
        definitions, system = words(self._runtime, self._meta)
        if not self._meta:
            return Opened(form=self._mode, tools=definitions)
        form, argument = ("plan", "plan") if self._mode == "plan" else ("program", "code")
        return Opened(form=form, tools=definitions, system=system, tool=self._meta, argument=argument)

    async def begin(self) -> dict[str, Any]:
        """A new conversation: the pool is full again."""
        if self._sandboxed:
            await self._pool.calm(self._runtime)
        return {}

    async def act(self, calls: Sequence[Mapping[str, Any]]) -> Turn:
        """Answer what the model calls, at the same time."""
        meta: Any = (self._meta,) if self._meta else ()
        answers = await asyncio.gather(
            *(self._runtime.answer(each["tool"], each["arguments"], meta=meta) for each in calls)
        )
        turn = Turn(texts=[each.text for each in answers])
        for result in (each.result for each in answers if isinstance(each.result, CodeResult)):
            if self.scripted and result.error is not None and result.error.kind == "NotAGraph":
                raise CannotDo(f"the program is not a graph of calls: {result.error.message}")
        return turn

    async def version(self) -> dict[str, Any]:
        """Of callgate, and what confines its programs."""
        from callgate import __version__

        return {"version": __version__, "sandbox": self._runtime.backend.description if self._sandboxed else ""}


def words(runtime: Runtime, meta: str) -> tuple[list[dict[str, Any]], str]:
    """What callgate tells a model: definitions (name, description, input_schema) and instructions.

    Args:
        runtime: with the tools.
        meta: ``execute_code`` or ``execute_tool_plan``; empty for definitions of the tools themselves.
    """
    if not meta:
        return runtime.tool_definitions("anthropic", meta=(), direct="all"), ""
    metas: Any = (meta,)
    return runtime.tool_definitions("anthropic", meta=metas), runtime.instructions(meta=metas)


def _retryable(function: Function) -> Function:
    """The tool; that it is busy is for the caller, as a tool's author says it to callgate."""

    @functools.wraps(function)
    async def called(*args: Any, **kwargs: Any) -> Any:
        try:
            return await function(*args, **kwargs)
        except Busy as busy:
            raise ToolError(str(busy), retryable=True) from None

    return called


if __name__ == "__main__":
    asyncio.run(serve(Mode(sys.argv[1])))
