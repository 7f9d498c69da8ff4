"""callgate's own modes: ``python -m callgate_bench.contestants.callgate_modes MODE``.

As an application would: a runtime with the workload's tools, its own definitions for the model, its own answers. What a
mode does not take part in is not there: direct calls and plans need no sandbox, and the fast path has none. Where a
program may run on the fast path and ends the task, its reads begin while the model writes it, as in callgate's agent.
"""

from __future__ import annotations

import asyncio
import functools
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

from callgate import Answer, CodeResult, Conversation, Limits, Runtime, ToolError, tool
from callgate.agent.loop.early_programs import EarlyPrograms, early_programs
from callgate.agent.loop.final_answers import given_answer, text_of, why_again
from callgate.agent.models.model import Delta
from callgate.runtime.final_answer import AnswerType
from callgate.runtime.result import MODEL_CHARACTERS
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
    "plan-answers": {"sandbox": None},
    "code-jail-answers": {"sandbox": "jail", "path": "sandbox"},
    "code-fast-answers": {"sandbox": None, "path": "plan"},
}
"""Options of the runtime, by the mode's name."""

_LIMITS = Limits(wall_seconds=600.0, cpu_seconds=600.0, max_tool_calls=1_000_000)


class Mode(Contestant):
    """One of `MODES`."""

    def __init__(self, mode: str) -> None:
        super().__init__()
        self._mode = mode
        plan = mode.startswith("plan")
        self._meta = "" if mode.startswith("direct") else "execute_tool_plan" if plan else "execute_code"
        self._answer = AnswerType(str) if mode.endswith("-answers") else None
        self._sandboxed = MODES[mode]["sandbox"] is not None
        self._streams = mode in ("plan-answers", "code-fast-answers")
        self._runtime: Runtime
        self._conversation: Conversation
        self._written = AsyncExitStack()
        self._early: EarlyPrograms | None = None
        self._pool: Pool

    async def show(self) -> Opened:
        """A runtime with the tools of the workload, its pool full."""
        tools = [tool(read_only=True)(_retryable(each)) for each in self.tools]
        self._pool = Pool()
        self._runtime = await self._stack.enter_async_context(Runtime(tools, limits=_LIMITS, **MODES[self._mode]))
        await self.begin()
        if self._meta:
            self._conversation = shown(self._runtime, self._meta, self._answer)
        definitions, system = words(self._runtime, self._meta, self._answer)
        if not self._meta:
            return Opened(form=self._mode, tools=definitions)
        form, argument = ("plan", "plan") if self._meta == "execute_tool_plan" else ("program", "code")
        answers = self._answer is not None
        return Opened(
            form=form, tools=definitions, system=system, tool=self._meta, argument=argument, answers=answers,
            streams=self._streams, dialect="final" if answers else "callgate",
        )  # fmt: skip

    async def begin(self) -> dict[str, Any]:
        """A new conversation: the pool is full again."""
        if self._sandboxed:
            await self._pool.calm(self._runtime)
        return {}

    async def act(self, calls: Sequence[Mapping[str, Any]]) -> Turn:
        """Answer what the model calls, at the same time."""
        answers = await asyncio.gather(*(self._answered(position, **each) for position, each in enumerate(calls)))
        await self._leave()
        turn = Turn(texts=[each.text for each in answers])
        if (given := given_answer(answers[0])) and not why_again(answers[0], MODEL_CHARACTERS, alone=len(answers) == 1):
            turn.final = text_of(given)
        for result in (each.result for each in answers if isinstance(each.result, CodeResult)):
            if self.scripted and result.error is not None and result.error.kind == "NotAGraph":
                raise CannotDo(f"the program is not a graph of calls: {result.error.message}")
        return turn

    async def hear(self, piece: str) -> dict[str, Any]:
        """The reads of a program begin as soon as they stand there."""
        if self._early is None:
            programs = early_programs(self._conversation, 0, (self._meta,))
            self._early = await self._written.enter_async_context(programs)
            assert self._early is not None
            self._early.take(Delta(call=0, name=self._meta))
        self._early.take(Delta(call=0, arguments=piece))
        return {}

    async def _answered(self, position: int, tool: str, arguments: dict[str, Any]) -> Answer:
        if not self._meta:
            return await self._runtime.answer(tool, arguments, meta=())
        early = self._early.of(position) if self._early is not None else None
        if early is None:
            return await self._conversation.answer(tool, arguments)
        async with early.made(lambda _: None) as written:
            return await self._conversation._answer(tool, arguments, {}, written)

    async def _leave(self) -> None:
        """What began while the model wrote ends with its turn."""
        self._early = None
        await self._written.aclose()

    async def aclose(self) -> dict[str, Any]:
        """Leave the workload that is open."""
        await self._leave()
        return await super().aclose()

    async def version(self) -> dict[str, Any]:
        """Of callgate, and what confines its programs."""
        from callgate import __version__

        return {"version": __version__, "sandbox": self._runtime.backend.description if self._sandboxed else ""}


def words(runtime: Runtime, meta: str, answer: AnswerType | None = None) -> tuple[list[dict[str, Any]], str]:
    """What callgate tells a model: definitions (name, description, input_schema) and instructions.

    Args:
        runtime: with the tools.
        meta: ``execute_code`` or ``execute_tool_plan``; empty for definitions of the tools themselves.
        answer: what a program or a plan may end the task with.
    """
    if not meta:
        return runtime.tool_definitions("anthropic", meta=(), direct="all"), ""
    conversation = shown(runtime, meta, answer)
    return conversation.tool_definitions("anthropic"), conversation.instructions()


def shown(runtime: Runtime, meta: str, answer: AnswerType | None = None) -> Conversation:
    """The conversation of a model that has the meta-tool `meta` alone; see `words`."""
    metas: Any = (meta,)
    return runtime.conversation(meta=metas, grows=False, final_answer=answer)


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
