"""What of this process an engine knows, and waiting for it to go. Other processes use the same engine meanwhile."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from callgate.sandbox.docker.engine import Engine
from callgate.sandbox.docker.sweep import LABEL, labels

__all__ = ["eventually", "none_left", "owned"]

SECONDS = 30.0
_POLL_SECONDS = 0.02


async def owned(engine: Engine, owner: str | None = None) -> dict[str, dict[str, Any]]:
    """The containers of `owner`, or of this process, by id, those that have ended included."""
    whose = f"{LABEL}={owner or labels()[LABEL]}"
    return {each["Id"]: each for each in await engine.call("containers", all=True, filters={"label": [whose]})}


async def eventually(condition: Callable[[], Awaitable[object]], seconds: float = SECONDS) -> None:
    """Wait for something outside this process that nobody tells of."""
    with anyio.fail_after(seconds):
        while not await condition():  # noqa: ASYNC110 (there is no event for it)
            await anyio.sleep(_POLL_SECONDS)


async def none_left(engine: Engine, owner: str | None = None, seconds: float = SECONDS) -> None:
    """Wait until the engine knows no container of `owner`, or of this process."""

    async def none() -> bool:
        return not await owned(engine, owner)

    await eventually(none, seconds)
