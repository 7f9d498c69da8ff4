"""`Session`: a guest whose variables stay between programs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from callgate.artifacts import Shelf
from callgate.errors import SandboxError
from callgate.limits import Limits
from callgate.sandbox.backend import Guest
from callgate_guest.wire import LineBuffer

from .gate.events import Event
from .gate.watches import watched
from .guest_run import GuestRun
from .products import Products
from .repair import completed
from .result import CodeResult, RunError
from .run import CodeRun

if TYPE_CHECKING:
    from .runtime import Runtime

__all__ = ["Session"]


class Session:
    """One open guest; made by `Runtime.session`. Programs run one after the other and see each other's variables.

    `cpu_seconds`, `memory_bytes`, `max_processes` and `max_file_bytes` hold for the session as a whole, since the
    kernel counts them for its guest; the other limits hold for each program. A failed program leaves the session
    usable. A program that reaches a limit or is cancelled ends the session: its guest is killed.
    """

    def __init__(self, runtime: Runtime, guest: Guest, limits: Limits, shelf: Shelf) -> None:
        self._runtime = runtime
        self._guest = guest
        self._sandbox = runtime.backend.description
        self._limits = limits
        self._shelf = shelf
        self._count = 0
        self._bound: set[str] = set()
        self._buffer = LineBuffer(limits.max_message_bytes)
        self._turn = anyio.Lock()
        self._over: str | None = None
        self._closed = False

    @property
    def alive(self) -> bool:
        """Whether another program can run, now or after the running one."""
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
        """Run a program in this session: see `Runtime.execute_code`. Programs run one after another.

        Raises:
            SandboxError: the session is over; the message says why.
        """
        async with self._turn:
            if self._over is not None:
                raise SandboxError(f"this session is over: {self._over}; open a new one with runtime.session()")
            run = CodeRun.of(
                self._runtime.gate, code, self._limits, inputs=inputs, tools=tools, on_event=on_event, shelf=self._shelf
            )
            result = await watched(run.gate, self._executed(run, check), "code", code, run.inputs)
            return completed(run, result, self._runtime.redactor)

    async def _executed(self, run: CodeRun, check: bool) -> CodeResult:
        code = run.code
        if check:
            earlier = self._bound if self._count else None
            looking = partial(run.check, self._runtime._language, earlier, session=True)
            run.findings = await self._runtime._looks.look(code, looking)
            if (stopped := run.check_failure(self._sandbox)) is not None:
                return stopped
        from callgate.program import bound_names

        self._bound |= await self._runtime._looks.look(code, partial(bound_names, code))
        self._count += 1
        run.number, run.buffer, run.keeps = self._count, self._buffer, True
        result = await self._ran(GuestRun(run, self._guest), run.products)
        if self._closed and result.error is not None and result.error.kind == "GuestDied":
            result = replace(result, error=RunError("SandboxCrashed", "the session was closed while this ran"))
        elif not self.alive and result.error is not None:
            self._over = result.error.message
        return result

    async def _ran(self, run: GuestRun, products: Products) -> CodeResult:
        exit, whole = None, False
        try:
            with self._runtime._pool.holding():
                await run.run()
            await products.collect(self._guest)
            whole = True
        finally:
            if not (whole and run.sound):
                self._over = self._over or "a program in it was cancelled"
                with anyio.CancelScope(shield=True):
                    exit = await self._guest.aclose()
        return run.result(self._sandbox, exit)

    def _close(self) -> None:
        """Close the session before its guest is ended."""
        self._closed = True
        self._over = self._over or "its block was left"
