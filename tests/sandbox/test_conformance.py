"""Every backend passes the suite that `callgate.testing` gives to others, on both event loops."""

from __future__ import annotations

from collections.abc import Hashable

import pytest

from callgate.sandbox.backend import Guest
from callgate.sandbox.self_test import ATTEMPTS
from callgate.sandbox.srt.backend import OPEN_TO
from callgate.testing import BackendConformance
from callgate.testing.opening import Opening
from sandbox.asking import gone, place_of
from sandbox.conftest import running

pytestmark = pytest.mark.slow


class TestEveryBackend(BackendConformance):
    @pytest.fixture(scope="class", params=["asyncio", "trio"])
    @classmethod
    def anyio_backend(cls, request: pytest.FixtureRequest) -> str:
        loop: str = request.param
        return loop

    @pytest.fixture(scope="class")
    @classmethod
    def opening(cls, backend_name: str) -> Opening:
        docker = backend_name.startswith("docker")
        cls.kept_open = 8 if docker else 0  # connections to the engine
        cls.reuses_places = backend_name == "docker per tenant"
        cls.open_to = {"unsafe": frozenset(ATTEMPTS), "srt alone": OPEN_TO}.get(backend_name, frozenset())
        return lambda: running(backend_name)

    def place_of(self, guest: Guest) -> Hashable:
        return place_of(guest)

    async def gone(self, place: Hashable) -> None:
        assert isinstance(place, int | str)
        assert await gone(place)
