"""How long the tools take: simulated waits, and a factor on all of them. Knows no tool."""

from __future__ import annotations

import asyncio
import zlib

__all__ = ["pace", "seconds_for", "wait"]


class _Pace:
    factor = 1.0


def pace(factor: float) -> None:
    """Make every simulated wait of this process so many times as long; 0 for none at all."""
    if not factor >= 0:
        raise ValueError(f"the factor of the waits must be at least 0, not {factor!r}")
    _Pace.factor = factor


async def wait(least: float, most: float, *arguments: object) -> None:
    """Wait as a service does: see `seconds_for`, times the factor."""
    if _Pace.factor:
        await asyncio.sleep(seconds_for(least, most, *arguments) * _Pace.factor)


def seconds_for(least: float, most: float, *arguments: object) -> float:
    """How long a service takes: between two durations in seconds, the same for the same arguments each time."""
    share = zlib.crc32(repr(arguments).encode()) / 0xFFFFFFFF
    return least + (most - least) * share
