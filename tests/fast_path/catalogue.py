"""The tools that generated programs call. Each run has a world of its own, so that both paths find the same one.

Pure tools differ in what makes a fast path go wrong: delay, odd results, failure, changed arguments, threads, a cache,
approval. The others leave something behind that later reads return, so that a call out of its order is seen.
"""

from __future__ import annotations

import contextvars
from dataclasses import dataclass, field, replace
from typing import Any

import anyio

from callgate import Allow, ApprovalRequest, Deny, Tool, ToolError, tool

__all__ = ["ODD", "TOOLS", "WORLD", "WRITERS", "World", "approve"]


@dataclass
class World:
    """What the tools with side effects change."""

    notes: list[Any] = field(default_factory=list)
    total: int = 0
    stored: dict[str, Any] = field(default_factory=dict)


WORLD: contextvars.ContextVar[World] = contextvars.ContextVar("WORLD")


async def _pause(number: int) -> None:
    """0 to 3 ms, so that calls do not end in the order in which they began."""
    await anyio.sleep((number * 7 % 4) / 1000)


# Reads


@tool(read_only=True)
async def get_number(n: int) -> int:
    await _pause(n)
    return 3 * n + 1


@tool(read_only=True)
async def get_weather(city: str, unit: str = "C") -> dict[str, Any]:
    await _pause(len(city))
    return {
        "city": city,
        "temp": len(city) * 3 - 5,
        "unit": unit,
        "tags": ["wet", "cold"][: len(city) % 3],
        "wind": {"speed": len(city) / 4, "gusts": [3, len(city), 1]},
        "note": None,
    }


@tool(read_only=True)
async def list_cities(count: int = 3) -> list[str]:
    await _pause(count)
    return ["Oslo", "Paris", "Rome", "São Paulo", "東京", "Łódź"][: max(count, 0)]


@tool(read_only=True)
def get_rows(count: int = 2) -> list[dict[str, Any]]:
    """In a thread."""
    names = ["fig", "Apple", "pear", "fig", "é"]
    return [
        {"id": n, "name": names[n % 5], "value": (n * 5) % 7 - 2, "price": n / 2, "items": [n, n + 1], "keys": {"a": n}}
        for n in range(count)
    ]


ODD: list[Any] = [
    None, 2**70, -(2**63), 1e22, -0.0, 0.1, 1e-7, True, "", [], {}, [[]], [None, [None]], {"a b": {"": 1}},
    {"items": [1, 2], "keys": 3, "get": None, "1": "one"}, "naïve 😀\u2028\x00\"'\\\n", "x" * 5000,
    ["10", 9, 8.5, None], {"$ref": "x"}, "${item}",
    {"b": 1, "a": 2, "c": {"b": [], "a": {}}}, [1, 1.0, True, "1"], 100.0, "007", '{"a": [1, 2.0]}', [[1, 2], [3, 4]],
    {"__class__": 1, "temp": -0.0, "π": 3.14159}, [0.1, 0.2, 0.3, 1e16, 1.0, -1e16],
]  # fmt: skip
"""What `odd` returns."""


@tool(read_only=True)
async def odd(which: int) -> Any:
    await _pause(which)
    return ODD[which % len(ODD)]


@tool(read_only=True)
async def same(value: Any) -> Any:
    return value


@tool(read_only=True)
def same_in_thread(value: Any, more: Any = None) -> Any:
    return value if more is None else [value, more]


@tool(read_only=True, cache_seconds=60)
async def get_rate(currency: str) -> float:
    await _pause(len(currency))
    return len(currency) / 8 + 1


@tool(read_only=True)
async def put_in_order(values: list[Any]) -> list[Any]:
    """Changes its argument, and returns it."""
    values.sort(key=str)
    values.append(len(values))
    return values


@tool(read_only=True)
async def strip_record(record: dict[str, Any]) -> dict[str, Any]:
    """Changes its argument, nested ones included."""
    for value in record.values():
        if isinstance(value, list | dict):
            value.clear()
    record.pop("note", None)
    return record


# Reads that fail


@tool(read_only=True)
async def fail_at_threes(n: int) -> int:
    if n % 3 == 0:
        raise ToolError(f"{n} is a three", data={"n": n}, retryable=True)
    await anyio.sleep(0.002)
    return n


@tool(read_only=True)
async def fail_later(why: str) -> None:
    await anyio.sleep(0.03)
    raise ToolError(why)


@tool(read_only=True)
async def crash() -> int:
    raise RuntimeError("a secret of the host")


@tool(read_only=True)
async def break_contract(n: int) -> str:
    return n  # type: ignore[return-value]


@tool(read_only=True, timeout_seconds=0.02)
async def come_late() -> int:
    await anyio.sleep_forever()
    return 1


@tool(read_only=True, fallback="same")
async def fall_back(value: Any) -> Any:
    raise ToolError("never works")


@tool(read_only=True, requires_approval=True)
async def get_secret(number: int) -> str:
    return f"secret {number}"


# What leaves something behind: no wait before it is done, so that the order of the calls is the order of the deeds


@tool
async def note(text: Any) -> int:
    notes = WORLD.get().notes
    notes.append(text)
    return len(notes)


@tool
async def note_slowly(text: Any) -> list[Any]:
    notes = WORLD.get().notes
    notes.append(text)
    await anyio.sleep(0.002)
    return [text]


@tool
async def add_to_total(step: int = 1) -> int:
    world = WORLD.get()
    world.total += step
    return world.total


@tool(idempotent=True)
async def store(key: str, value: Any = None) -> None:
    WORLD.get().stored[key] = value


@tool
async def note_or_fail(n: int) -> int:
    WORLD.get().notes.append(n)
    if n % 3 == 0:
        raise ToolError(f"noted {n}, and failed")
    return n


@tool
async def sort_and_note(values: list[Any]) -> list[Any]:
    """Changes its argument, and returns it."""
    values.sort(key=str)
    WORLD.get().notes.append(list(values))
    return values


@tool(requires_approval=True)
async def pay(amount: int) -> str:
    WORLD.get().total -= amount
    return f"paid {amount}"


# Reads of what was left


@tool(read_only=True)
async def read_notes() -> list[Any]:
    return list(WORLD.get().notes)


@tool(read_only=True)
async def read_total() -> int:
    return WORLD.get().total


@tool(read_only=True)
async def load(key: str) -> Any:
    stored = WORLD.get().stored
    if key not in stored:
        raise ToolError(f"nothing is stored as {key!r}")
    return stored[key]


_SERVERS = {
    "get_number": ("maths", "get-number"), "add_to_total": ("maths", "add"), "get_weather": ("sky", "weather"),
    "same": ("data", "same"), "note": ("data", "print"), "odd": ("json", "odd"), "read_notes": ("note", "all"),
}  # fmt: skip
"""Where some of the tools are imported from, and their names there. Some servers are called like variables, modules and
tools."""


def _served(each: Tool) -> Tool:
    server, name = _SERVERS.get(each.name, (None, None))
    return replace(each, server=server, server_tool=name)


TOOLS = [
    get_number, get_weather, list_cities, get_rows, odd, same, same_in_thread, get_rate, put_in_order, strip_record,
    fail_at_threes, fail_later, crash, break_contract, come_late, fall_back, get_secret,
    note, note_slowly, add_to_total, store, note_or_fail, sort_and_note, pay, read_notes, read_total, load,
]  # fmt: skip
TOOLS = [_served(each) for each in TOOLS]
WRITERS = frozenset(each.name for each in TOOLS if not each.read_only)


async def approve(request: ApprovalRequest) -> Allow | Deny:
    """Small amounts pass, large ones do not, those between are made smaller."""
    ((name, amount),) = request.arguments.items()
    return Allow() if amount < 10 else Deny("too much") if amount > 100 else Allow(arguments={name: 9})
