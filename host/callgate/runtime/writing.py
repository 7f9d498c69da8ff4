"""A program that a model still writes: its reads begin meanwhile, and the finished program runs like any other.

The early calls are the fast path's: see `EarlyReads`. Here are the ends: what begins with the first piece, what happens
with the finished text, and that nothing goes on when the block is left.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

import anyio

from callgate.errors import ConfigurationError
from callgate.limits import Limits

from .gate.watches import Ended, watching
from .result import CodeResult
from .run import CodeRun
from .streaming import each_chunk, own_tasks

if TYPE_CHECKING:
    from .fast_path.early import EarlyReads
    from .run import Looks

__all__ = ["Writing", "writing", "written"]

Finish = Callable[["EarlyReads | None"], Awaitable[CodeResult]]
"""Runs the finished program, whose text is in the run."""


class Writing:
    """A program that is being written; made by `writing`.

    Args:
        run: the program, without its text.
        early: makes its calls early; None if nothing may begin before the program does.
        finish: runs it.
        ended: receives the result or the error.
    """

    def __init__(self, run: CodeRun, early: EarlyReads | None, finish: Finish, ended: Ended) -> None:
        self.run = run
        self._early = early
        self._finish = finish
        self._ended = ended

    def receive(self, text: str) -> None:
        """Take the next piece of the text. Does not wait."""
        if self._early is not None:
            self._early.receive(text)

    def restart(self) -> None:
        """The text is written from its beginning again."""
        if self._early is not None:
            self._early.restart()

    async def finish(self, code: str, limits: Limits | None = None) -> CodeResult:
        """Run the finished program, once. Its text decides; it need not be the text that was received.

        Args:
            code: the text.
            limits: their `wall_seconds` replaces that of the run.

        Raises:
            ConfigurationError: the program was run already, or the code is not text.
            SandboxError: no guest can be had.
        """
        if not isinstance(code, str):
            raise ConfigurationError(f"code is Python source text, not {type(code).__name__}")
        finish, early = self._finish, self._early
        self._finish, self._early = _finished, None
        self.run.code = code
        if limits is not None:
            self.run.limits = self.run.limits.replace(wall_seconds=limits.wall_seconds)
        try:
            try:
                result = await finish(early)
            finally:
                if early is not None:
                    with anyio.CancelScope(shield=True):
                        await early.close()
        except BaseException as error:
            self._ended(None, error)
            raise
        self._ended(result)
        return result


async def _finished(_: EarlyReads | None) -> CodeResult:
    raise ConfigurationError("this program was run already: begin another one")


@contextlib.asynccontextmanager
async def writing(
    run: CodeRun, looks: Looks, finish: Finish, under_way: set[EarlyReads] | None
) -> AsyncIterator[Writing]:
    """Begin a program that is not written yet. Leaving the block ends all that it has begun.

    Args:
        run: the program, without its text.
        looks: where programs take turns to be looked at.
        finish: runs the finished program.
        under_way: receives what makes its calls early, for as long as the block lasts. None: nothing begins early.
    """
    with watching(run.gate, "code", None, run.inputs) as ended:
        async with own_tasks() as tasks:
            if under_way is None:
                yield Writing(run, None, finish, ended)
                return
            from .fast_path.early import EarlyReads

            reads = EarlyReads(tasks, run, looks)
            under_way.add(reads)
            try:
                yield Writing(run, reads, finish, ended)
            finally:
                under_way.discard(reads)


async def written(begun: Writing, chunks: AsyncIterable[str] | Iterable[str]) -> CodeResult:
    """Write a program from its pieces, and run it. A text that is longer than a program may be is read no further, and
    refused as any too long program is."""
    text: list[str] = []
    size = 0
    async with contextlib.aclosing(each_chunk(chunks, "program")) as pieces:
        async for chunk in pieces:
            text.append(chunk)
            size += len(chunk)
            if size > begun.run.limits.max_source_bytes:
                break
            begun.receive(chunk)
    return await begun.finish("".join(text))
