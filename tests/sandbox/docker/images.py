"""The image that tests run guests in, built from this machine's Python when it is missing or holds another guest."""

from __future__ import annotations

import fcntl
import os
import tempfile
from pathlib import Path
from typing import NoReturn

import anyio.to_thread
import pytest

from callgate.sandbox.docker import image
from callgate.sandbox.docker.engine import Engine, EngineUnreachable

__all__ = ["ensure_image", "have_engine_and_image", "reach", "without"]

_LOCK = Path(tempfile.gettempdir(), f"callgate-test-image-{os.getuid()}.lock")


async def ensure_image(engine: Engine) -> image.ImageFacts:
    """What is known of `callgate-sandbox`, which is there afterwards and up to date. Takes 8 s once, then 10 ms."""
    with _LOCK.open("w") as lock:  # noqa: ASYNC230 (the tests' workers come here all at once)
        await anyio.to_thread.run_sync(fcntl.flock, lock, fcntl.LOCK_EX)
        found = await image.find(engine)
        if found is None or found.outdated:
            found = await image.build(engine, base=image.HOST)
        return found


async def reach() -> Engine:
    """The engine of this machine. Skips where there is none; in CI, fails, unless this user may not use it."""
    try:
        return await Engine.connect()
    except EngineUnreachable as reason:
        without(str(reason))


def without(reason: str) -> NoReturn:
    """Skip for this reason; in CI, fail, unless the tests run as a user who may not use the engine."""
    if os.environ.get("CI") == "true" and os.geteuid() == 0:
        pytest.fail(f"an engine has to work in CI: {reason}")
    pytest.skip(reason)


async def have_engine_and_image() -> None:
    """`reach`, and see that the image is there."""
    engine = await reach()
    try:
        await ensure_image(engine)
    finally:
        await engine.close()
