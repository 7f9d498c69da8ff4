"""Every backend, on both event loops; a missing one is skipped with its reason, and fails in CI."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import AsyncIterator

import pytest

from callgate.errors import SandboxUnavailable
from callgate.sandbox.backend import Backend
from callgate.sandbox.docker.backend import DockerBackend
from callgate.sandbox.jail import JailBackend
from callgate.sandbox.srt.backend import SrtBackend
from callgate.sandbox.unsafe import UnsafeBackend, UnsandboxedWarning
from sandbox.docker.images import have_engine_and_image

BACKENDS = ["jail tier 1", "jail tier 2", "docker", "docker per tenant", "srt", "srt alone", "unsafe"]


async def make(name: str) -> Backend:
    if name == "unsafe":
        return UnsafeBackend()
    if name.startswith("srt"):
        return SrtBackend(confine=name == "srt")
    if name.startswith("docker"):
        await have_engine_and_image()
        return DockerBackend(per="tenant" if "tenant" in name else "run")
    return JailBackend(tier=int(name[-1]))


@contextlib.asynccontextmanager
async def running(name: str) -> AsyncIterator[Backend]:
    """A backend, entered."""
    backend = await make(name)
    async with contextlib.AsyncExitStack() as stack:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UnsandboxedWarning)
                await stack.enter_async_context(backend)
        except SandboxUnavailable as reason:
            if os.environ.get("CI") == "true":
                pytest.fail(f"{name} has to work in CI: {reason}")
            pytest.skip(str(reason))
        yield backend


@pytest.fixture(scope="module", params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    loop: str = request.param
    return loop


@pytest.fixture(scope="module", params=BACKENDS)
def backend_name(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
async def backend(anyio_backend: str, backend_name: str) -> AsyncIterator[Backend]:
    async with running(backend_name) as entered:
        yield entered
