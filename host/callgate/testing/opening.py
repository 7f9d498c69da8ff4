"""How the tests get the backend that they are about."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import AbstractAsyncContextManager

import pytest

from callgate.sandbox.backend import Allowance, Backend, Guest

from .asking import ALLOWANCE, until

__all__ = ["Opening", "OpensBackend"]

Opening = Callable[[], AbstractAsyncContextManager[Backend]]
"""Makes a backend that was not entered yet."""


class OpensBackend:
    """The fixtures of the tests, and what differs between backends: override what is not so in yours.

    Attributes:
        allowance: of the guests.
        kept_open: descriptors that the backend may keep for later, beyond those after eight guests.
        reuses_places: whether guests may follow each other in one place, e.g. in one container.
        open_to: attempts of the self-test (`callgate.sandbox.self_test.ATTEMPTS`) that succeed here, since something
            else confines them, or nothing does.
    """

    pytestmark = pytest.mark.anyio
    allowance: Allowance = ALLOWANCE
    kept_open = 0
    reuses_places = False
    open_to: frozenset[str] = frozenset()

    @classmethod
    def make_backend(cls) -> Backend:
        """The backend, not yet entered."""
        raise NotImplementedError("make_backend returns the backend that the tests are about")

    def place_of(self, guest: Guest) -> Hashable:
        """What has to be gone after a guest: by default its process, if it has a ``pid``."""
        return getattr(guest, "pid", id(guest))

    async def gone(self, place: Hashable) -> None:
        """Wait until a place is gone. Fails if it stays."""
        await until(lambda: not os.path.exists(f"/proc/{place}"))

    @pytest.fixture(scope="class")
    @classmethod
    def anyio_backend(cls) -> str:
        """The event loop; override it, with ``params=["asyncio", "trio"]``, if the backend is to work on both."""
        return "asyncio"

    @pytest.fixture(scope="class")
    @classmethod
    def opening(cls) -> Opening:
        """Makes a backend that was not entered yet."""
        return cls.make_backend

    @pytest.fixture(scope="class")
    @classmethod
    async def backend(cls, opening: Opening, anyio_backend: str) -> AsyncIterator[Backend]:
        """The backend, entered, for all tests of the class."""
        async with opening() as entered:
            yield entered
