"""Guests for runs that can be replayed, beside the ordinary guests of a runtime.

They hash texts alike, so that a run can go on in another guest. Ordinary guests have random hashes, so most runtimes
never need these, and they are opened for the first run that does.
"""

from __future__ import annotations

import anyio

from callgate.errors import ConfigurationError
from callgate.runtime.context_task import LEFT, ContextTask
from callgate.sandbox.backend import Backend, replaying
from callgate.sandbox.pool import WarmPool

__all__ = ["ReplayGuests"]


class ReplayGuests:
    """Guests for runs that can be replayed.

    Args:
        backend: the runtime's own, entered before the first run asks.
        pool: the guests of that backend; these count among its `max_guests`.
    """

    def __init__(self, backend: Backend, pool: WarmPool) -> None:
        self._ordinary = backend, pool
        self._sandbox: tuple[Backend, WarmPool] | None = None
        self._contexts = ContextTask(lambda: self._sandbox or ())
        self._opening: anyio.Lock | None = None

    async def opened(self) -> tuple[Backend, WarmPool]:
        """The backend and its guests. The first caller opens them.

        Raises:
            ConfigurationError: the sandbox has no such guests, or `close` was called meanwhile.
            SandboxError: the sandbox does not work any more.
        """
        if self._opening is None:
            self._opening = anyio.Lock()
        async with (opening := self._opening):
            if opening is not self._opening:  # nobody would end what is opened now
                raise ConfigurationError(LEFT)
            if self._contexts.loop is None:
                backend, pool = self._ordinary
                other = replaying(backend)
                self._sandbox = other, pool.beside(other)
                await self._contexts.open()
        assert self._sandbox is not None
        return self._sandbox

    async def close(self) -> None:
        """End them all."""
        self._opening = None  # a lock belongs to the event loop that used it
        await self._contexts.close()
