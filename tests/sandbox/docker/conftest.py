"""What the tests of Docker share: an engine. Without one they are skipped with the reason; in CI they fail."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from callgate.sandbox.docker.engine import Engine
from callgate.sandbox.docker.image import ImageFacts
from sandbox.docker.images import ensure_image, reach


@pytest.fixture(scope="module", params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    loop: str = request.param
    return loop


@pytest.fixture(scope="module")
async def engine(anyio_backend: str) -> AsyncIterator[Engine]:
    """The engine of this machine."""
    found = await reach()
    yield found
    await found.close()


@pytest.fixture(scope="module")
async def default_image(engine: Engine) -> ImageFacts:
    """The image that is used where none is named, up to date."""
    return await ensure_image(engine)
