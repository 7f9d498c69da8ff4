"""A session: one guest whose state lives on between programs. Knows when it is over, and says so."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from callgate.errors import ConfigurationError, SandboxError
from callgate.limits import Limits
from callgate.sandbox.backend import Guest
from callgate_guest.wire import LineBuffer

from .code_runs import CodeRun, check_failure
from .gate.events import Event
from .result import CodeResult, RunError

if TYPE_CHECKING:
    from .core import Core

__all__ = ["Session"]


class Session:
    """One open guest; made by `Runtime.session`. Programs run one after the other and see each other's variables.

    `cpu_seconds`, `memory_bytes`, `max_processes` and `max_file_bytes` hold for the session as a whole, since the
    kernel counts them for its guest; the other limits hold for each program. A program that fails leaves the session
    usable. One that reaches a limit, or is cancelled, ends it: its guest is killed.
    """

    def __init__(self, core: Core, guest: Guest, limits: Limits, *, sandbox: str) -> None:
        self._core = core
        self._guest = guest
        self._sandbox = sandbox
        self._limits = limits
        self._count = 0
        self._bound: set[str] = set()
        self._buffer = LineBuffer(limits.max_message_bytes)
        self._turn = anyio.Lock()
        self._over: str | None = None
        self._closed = False

    @property
    def alive(self) -> bool:
        """Whether another program can run in it, now or when the one that is running is done."""
        return self._over is None

    async def execute_code(
        self,
        code: str,
        *,
        inputs: Mapping[str, Any] | None = None,
        tools: Collection[str] | None = None,
        on_event: Callable[[Event], None] | None = None,
        check: bool = True,
    ) -> CodeResult:
        """Run a program in this session: see `Runtime.execute_code`. A second one at the same time waits for the first.

        Raises:
            SandboxError: the session is over; the message says why.
        """
        async with self._turn:
            if self._over is not None:
                raise SandboxError(f"this session is over: {self._over}; open a new one with runtime.session()")
            run = self._core.prepare(code, self._limits, inputs=inputs, tools=tools, on_event=on_event)
            run.keeps = True
            if check:
                earlier = self._bound if self._count else None
                await self._core.look(code, partial(run.check, self._core.language, earlier=earlier, session=True))
                stopped = check_failure(run.findings, self._sandbox)
                if stopped is not None:
                    return stopped
            self._count += 1
            from callgate.program import bound_names

            self._bound |= await self._core.look(code, partial(bound_names, code))
            run.number = self._count
            run.buffer = self._buffer
            result = await self._ran(run)
            if self._closed and result.error is not None and result.error.kind == "GuestDied":
                result = replace(result, error=RunError("SandboxCrashed", "the session was closed while this ran"))
            elif not self.alive and result.error is not None:
                self._over = result.error.message
            return result

    def _close(self) -> None:
        """Its guest is about to be ended."""
        self._closed = True
        self._over = self._over or "its block was left"

    async def _ran(self, run: CodeRun) -> CodeResult:
        try:
            ran = await run.on(self._guest)
        except ConfigurationError:  # nothing was sent
            raise
        except BaseException:
            self._over = self._over or "a program in it was cancelled"
            with anyio.CancelScope(shield=True):
                await self._guest.aclose()
            raise
        if ran.sound:
            return ran.result(self._sandbox)
        self._over = self._over or "a program in it was cancelled"
        return ran.result(self._sandbox, await self._guest.aclose())
