"""The recorder, opened once for the tests of a module; on asyncio, as guests do not know the host's event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from replays.recording import Recorder, open_recorder


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def recorder(anyio_backend: str) -> AsyncIterator[Recorder]:
    async with open_recorder() as opened:
        yield opened
