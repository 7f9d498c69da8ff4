"""The session in which a conversation's programs run: opened by the first one, and anew where it has ended."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

import anyio

from callgate.limits import Limits
from callgate.runtime.core import Core
from callgate.runtime.session import Session

__all__ = ["KeptSession"]


class KeptSession:
    """One conversation's session.

    Args:
        core: where it is opened.
        limits: what its programs may spend.
    """

    def __init__(self, core: Core, limits: Limits) -> None:
        self._core = core
        self._limits = limits
        self._session: Session | None = None
        self._context: AbstractAsyncContextManager[Session] | None = None
        self._opening = anyio.Lock()

    async def open(self) -> tuple[Session, str]:
        """The session, and a line for the model where the one before has ended. Raises `SandboxError`."""
        async with self._opening:
            note = ""
            if self._session is not None and not self._session.alive:
                await self.close()
                note = "Note: the variables of earlier programs are gone: the process that held them has ended."
            if self._session is None:
                context = self._core.session(self._limits)
                self._session = await context.__aenter__()
                self._context = context
            return self._session, note

    async def close(self) -> None:
        """End it, if there is one."""
        context, self._context, self._session = self._context, None, None
        if context is not None:
            await context.__aexit__(None, None, None)
