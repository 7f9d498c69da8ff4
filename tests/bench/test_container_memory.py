"""What a contestant's containers take while they stand ready is in its memory."""

from __future__ import annotations

import sys

import anyio
import pytest

from callgate import DockerBackend, Runtime
from callgate.bench.contestants.callgate_modes import Modes
from callgate.bench.contestants.container_memory import standing
from callgate.bench.singles.context import calm
from sandbox.docker.images import have_engine_and_image

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform != "linux", reason="shims are looked at in /proc")]


@pytest.fixture
def anyio_backend() -> str:
    """The contestants run on asyncio."""
    return "asyncio"


@pytest.fixture(scope="module")
def engine() -> None:
    anyio.run(have_engine_and_image)


@pytest.mark.slow
@pytest.mark.usefixtures("engine")
async def test_every_container_of_the_pool_counts_with_its_shim_and_one_shim_more() -> None:
    taken = {}
    for size in (1, 3):
        backend = DockerBackend()
        async with Runtime([], sandbox=backend, pool_size=size) as runtime:
            await calm(runtime)
            assert len(backend.containers) == size
            taken[size] = await standing(backend)
    assert taken[1] > 2_000_000
    assert taken[3] > 1.5 * taken[1]


@pytest.mark.slow
@pytest.mark.usefixtures("engine")
async def test_the_mode_says_what_its_pool_of_four_takes() -> None:
    modes = Modes("code-docker")
    await modes.open("monitoring", 0.0)
    try:
        told = await modes.weigh()
    finally:
        await modes.aclose()
    assert told["guest_bytes"] > 8_000_000


async def test_modes_without_containers_say_nothing() -> None:
    modes = Modes("code-fast")
    await modes.open("monitoring", 0.0)
    assert await modes.weigh() == {}
    await modes.aclose()
