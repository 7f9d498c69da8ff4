"""Tools for the tests' programs: each does one thing."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import Any

import anyio

from callgate import ToolError, tool

TENANT = contextvars.ContextVar("TENANT", default="nobody")
CANCELLED: list[str] = []
"""What the tool `hang` leaves when its calls are given up."""


@tool(read_only=True)
async def get_weather(city: str, unit: str = "C") -> dict[str, Any]:
    """Current weather."""
    return {"city": city, "temp": len(city), "unit": unit}


@tool
async def echo(value: Any) -> Any:
    return value


@tool
async def refuse(why: str) -> None:
    raise ToolError(why, data={"why": why}, retryable=True)


@tool
async def crash(how: str) -> None:
    kinds = {"RuntimeError": RuntimeError, "SystemExit": SystemExit, "CancelledError": asyncio.CancelledError}
    raise kinds.get(how, BaseException)("a secret of the host")


@tool
async def hang() -> None:
    try:
        await anyio.sleep_forever()
    finally:
        CANCELLED.append("hang")


@tool(timeout_seconds=0.05)
async def late() -> None:
    await anyio.sleep_forever()


@tool
async def big(size: int) -> str:
    return "x" * size


@tool
def tenant() -> list[Any]:
    return [TENANT.get(), threading.current_thread() is threading.main_thread()]


@tool
async def async_tenant() -> str:
    return TENANT.get()


class Meeting:
    """Calls that come back only when so many of them are going on."""

    def __init__(self) -> None:
        self.waiting = 0
        self.most = 0
        self.all_there = anyio.Event()


MEETINGS: dict[str, Meeting] = {}


@tool
async def meet(name: str, n: int) -> int:
    meeting = MEETINGS.setdefault(name, Meeting())
    meeting.waiting += 1
    meeting.most = max(meeting.most, meeting.waiting)
    if meeting.waiting >= n:
        meeting.all_there.set()
    await meeting.all_there.wait()
    meeting.waiting -= 1
    return n


BARRIERS: dict[str, threading.Barrier] = {}


@tool
def meet_in_threads(name: str, n: int) -> int:
    return BARRIERS.setdefault(name, threading.Barrier(n)).wait(20) * 0 + n


@tool(requires_approval=True)
async def pay(amount: int) -> str:
    return f"paid {amount}"


TOOLS = [get_weather, echo, refuse, crash, hang, late, big, tenant, async_tenant, meet, meet_in_threads, pay]
