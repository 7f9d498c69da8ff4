"""A runtime for the programs of a module, on both event loops. A sandbox that is missing is a skip, in CI a failure."""

from __future__ import annotations

import contextlib
import importlib.util
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from callgate import Registry, Runtime, SandboxUnavailable
from runtime.offered import TOOLS


@contextlib.asynccontextmanager
async def opened(*tools: Any, **options: Any) -> AsyncIterator[Runtime]:
    """A runtime with these tools, or with all of `TOOLS`; or with those of one registry."""
    offered = tools[0] if len(tools) == 1 and isinstance(tools[0], Registry) else tools or TOOLS
    async with contextlib.AsyncExitStack() as stack:
        try:
            runtime = await stack.enter_async_context(Runtime(offered, **options))
        except SandboxUnavailable as reason:
            if os.environ.get("CI") == "true":
                pytest.fail(f"the sandbox has to work in CI: {reason}")
            pytest.skip(str(reason))
        yield runtime


@pytest.fixture(scope="module", params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    loop: str = request.param
    return loop


@pytest.fixture(scope="module")
async def runtime(anyio_backend: str) -> AsyncIterator[Runtime]:
    async with opened(pool_size=2) as entered:
        yield entered


@pytest.fixture(scope="session")
def site_packages() -> str:
    """A folder of third-party packages for programs: this Python's own, with numpy and pandas, and often matplotlib."""
    spec = importlib.util.find_spec("numpy")
    if spec is None or spec.origin is None:
        pytest.skip("numpy is not installed")
    return str(Path(spec.origin).parent.parent)
