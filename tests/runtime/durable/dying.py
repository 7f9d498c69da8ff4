"""A process that starts a durable run and is killed at a chosen moment: `python dying.py FILE LOG KIND POINT`.

The points: ``before started``, ``after started``, ``in the tool``, ``before done``, ``after done``, all of the call of
``send`` or ``put``. The log gets a line for each call that a tool carries out.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, NoReturn

import anyio

from callgate import Runtime, Tool, tool
from callgate.durable.sqlite import SqliteStore
from callgate.durable.store import Change, Held, StoredCall
from callgate.runtime.gate.journal import current_call

__all__ = ["GIVEN", "KEY", "tools"]

KEY = "the only one"
GIVEN: dict[str, Any] = {
    "program": 'a = await get(name="a")\nb = await {tool}(to=a)\n[a, b]',
    "plan": {
        "steps": [
            {"id": "a", "tool": "get", "arguments": {"name": "a"}},
            {"id": "b", "tool": "{tool}", "arguments": {"to": "$ref:a"}},
        ],
        "output_steps": ["a", "b"],
    },
}


def die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def tools(log: Path, dies: bool = False) -> list[Tool]:
    def done(name: str) -> None:
        with log.open("a") as file:
            file.write(f"{name} {current_call().idempotency_key}\n")
        if dies and name != "get":
            die()

    @tool(read_only=True)
    async def get(name: str) -> str:
        done("get")
        return name

    @tool
    async def send(to: str) -> str:
        done("send")
        return f"sent to {to}"

    @tool(idempotent=True)
    async def put(to: str) -> str:
        done("put")
        return f"put to {to}"

    return [get, send, put]


class Dying(SqliteStore):
    point: str

    def write(self, held: Held, *changes: Change) -> Awaitable[None]:
        statuses = {c.status for c in changes if isinstance(c, StoredCall) and c.tool != "get"}
        when, _, status = self.point.partition(" ")
        if status not in statuses:
            return super().write(held, *changes)
        if when == "before":
            die()

        async def then_die() -> None:
            await written
            die()

        written = super().write(held, *changes)
        return then_die()


async def main(file: str, log: str, kind: str, point: str, name: str) -> None:
    store = Dying(file)
    store.point = point
    given = GIVEN[kind]
    if kind == "plan":
        given["steps"][1]["tool"] = name
    else:
        given = given.format(tool=name)
    async with Runtime(tools(Path(log), point == "in the tool"), sandbox=None, durable=store) as runtime:
        await (await runtime.start(given, key=KEY)).wait()


if __name__ == "__main__":
    file, log, kind, point, name = sys.argv[1:]
    anyio.run(main, file, log, kind, point, name)
