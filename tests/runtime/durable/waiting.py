"""Waits for what a runtime does in the background, or another process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio

from callgate import Runtime
from callgate.runtime.durable.runs import PendingCall, Run

__all__ = ["asked", "becomes", "until"]

T = TypeVar("T")


async def until(condition: Callable[[], Awaitable[T]], seconds: float = 20.0) -> T:
    """The first true value of the condition."""
    with anyio.fail_after(seconds):
        while not (value := await condition()):  # noqa: ASYNC110 (there is no event for it)
            await anyio.sleep(0.005)
    return value


async def becomes(runtime: Runtime, run: Run[Any], status: str) -> Run[Any]:
    """The run, once it has this status."""

    async def has_it() -> Run[Any] | None:
        now = await runtime.runs.get(run.id)
        return now if now.status == status else None

    found = await until(has_it)
    assert found is not None
    return found


async def asked(runtime: Runtime, count: int = 1) -> list[PendingCall]:
    """The calls that wait for an approval, once there are so many."""

    async def are_there() -> list[PendingCall]:
        pending = list(await runtime.runs.pending())
        return pending if len(pending) >= count else []

    return await until(are_there)
