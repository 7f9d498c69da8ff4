"""The tools of generated programs, beside those of `fast_path.catalogue`: each call has another result.

A counter tells where a program was continued in a wrong order: two calls with the same arguments have different
results, and so has the same call when it is made a second time.
"""

from __future__ import annotations

import random
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import anyio

from callgate import ToolError, tool
from fast_path import catalogue

__all__ = ["TOOLS", "WORLD", "World", "approve"]

approve = catalogue.approve


@dataclass
class World:
    """What the tools of one run share."""

    chance: random.Random
    serial: int = 0
    blocked: list[anyio.Event] = field(default_factory=list)
    """Calls that are answered when somebody sets their event."""
    blocks: bool = True
    """Whether calls wait for that at all."""

    def release(self) -> None:
        """Let all calls end, and all that come."""
        self.blocks = False
        for each in self.blocked:
            each.set()

    async def turn(self) -> int:
        """The next number; now and then when the run's conductor wants it."""
        self.serial += 1
        number = self.serial
        if self.chance.random() < 0.4 and self.blocks:
            mine = anyio.Event()
            self.blocked.append(mine)
            try:
                await mine.wait()
            finally:
                if mine in self.blocked:
                    self.blocked.remove(mine)
        return number


WORLD: ContextVar[World] = ContextVar("WORLD")


@tool
async def count(name: str) -> int:
    return await WORLD.get().turn()


@tool(read_only=True)
async def read(key: int) -> dict[str, Any]:
    return {"key": key, "serial": await WORLD.get().turn()}


@tool(read_only=True)
async def flaky(n: int) -> int:
    serial = await WORLD.get().turn()
    if (serial + n) % 3 == 0:
        raise ToolError(f"failed at {serial}", data={"serial": serial}, retryable=True)
    return serial


@tool(idempotent=True)
async def put(key: str, value: Any = None) -> list[Any]:
    return [key, value, await WORLD.get().turn()]


TOOLS = [*catalogue.TOOLS, count, read, flaky, put]
