"""The tests that every sandbox of callgate passes, as a class for pytest."""

from __future__ import annotations

import pytest

from callgate.sandbox.backend import Backend
from callgate.sandbox.self_test import ATTEMPTS, prove

from .replaying import Replays
from .verbs import KeepsItsVerbs
from .with_files import HasFiles

__all__ = ["BackendConformance"]


class BackendConformance(KeepsItsVerbs, HasFiles, Replays):
    """Tests of a backend. Make a subclass whose name begins with ``Test``, with `make_backend`::

        class TestMine(BackendConformance):
            @classmethod
            def make_backend(cls) -> Backend:
                return MyBackend()

    They need pytest with anyio's plugin, which comes with anyio, and Linux.
    """

    async def test_a_program_is_confined(self, backend: Backend) -> None:
        if self.open_to >= ATTEMPTS.keys():
            pytest.skip("it confines nothing, as its test says with `open_to`")
        guest = await backend.open(self.allowance)
        await prove(guest, leave_out=self.open_to & ATTEMPTS.keys())
