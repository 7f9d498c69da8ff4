"""Tools for the tests' plans, and a log of what they did. A fresh set for every test."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import anyio

from callgate import Retry, Runtime, Tool, ToolError, tool


class World:
    """What a test's tools share."""

    def __init__(self) -> None:
        self.log: list[str] = []
        """What happened, in order."""
        self.failures: dict[str, int] = {}
        """How many more times a name fails."""
        self.gates: dict[str, anyio.Event] = {}
        self.running = 0
        self.most = 0

    def gate(self, name: str) -> anyio.Event:
        """What calls of `wait` with this name wait for."""
        return self.gates.setdefault(name, anyio.Event())

    def tools(self) -> list[Tool]:
        """One of each kind."""

        @tool(read_only=True)
        async def get(key: str, value: Any = None) -> Any:
            """Give the value, or the key."""
            self.log.append(f"get {key}")
            return key if value is None else value

        @tool
        async def put(key: str, value: Any = None) -> dict[str, Any]:
            """Has side effects."""
            self.log.append(f"put {key}")
            return {"key": key, "value": value}

        @tool
        async def fail(why: str = "no luck") -> None:
            """Fail, and say that trying again may help."""
            self.log.append(f"fail {why}")
            raise ToolError(why, retryable=True)

        @tool(read_only=True, retry=Retry(attempts=3, backoff_seconds=0))
        async def flaky(key: str) -> str:
            """Fail as often as the world says."""
            self.log.append(f"flaky {key}")
            if self.failures.get(key, 0) > 0:
                self.failures[key] -= 1
                raise ToolError(f"{key} is not ready", retryable=True)
            return key

        @tool(read_only=True)
        async def wait(key: str) -> str:
            """Wait for the test."""
            self.running += 1
            self.most = max(self.most, self.running)
            self.log.append(f"wait {key}")
            try:
                await self.gate(key).wait()
            finally:
                self.running -= 1
                self.log.append(f"end {key}")
            return key

        @tool
        async def hang(key: str = "") -> None:
            """Has side effects, and never comes back."""
            self.log.append(f"hang {key}")
            try:
                await anyio.sleep_forever()
            finally:
                self.log.append(f"gone {key}")

        @tool(read_only=True)
        async def guess(value: Any, confidence: float) -> dict[str, Any]:
            """A result that says how sure it is."""
            self.log.append(f"guess {confidence:g}")
            return {"value": value, "confidence": confidence}

        @tool(read_only=True, name="think")
        async def think(value: Any, confidence: float) -> dict[str, Any]:
            """Surer than `guess` by half."""
            self.log.append("think")
            if value == "too hard":
                raise ToolError("it is too hard")
            return {"value": f"thought {value}", "confidence": 0.1 if value == "vague" else 0.9}

        @tool
        async def mutate(value: Any) -> Any:
            """Change what it was given."""
            value["changed"] = True
            return value

        @tool(requires_approval=True)
        async def erase(key: str) -> str:
            """Ask first."""
            self.log.append(f"erase {key}")
            return key

        @tool(allowed_callers=["direct"])
        async def private() -> str:
            """Not for plans."""
            return "secret"

        return [get, put, fail, flaky, wait, hang, guess, think, mutate, erase, private]


@contextlib.asynccontextmanager
async def world(**options: Any) -> AsyncIterator[tuple[Runtime, World]]:
    """A runtime without a sandbox, and the world of its tools."""
    made = World()
    async with Runtime(made.tools(), sandbox=None, **options) as runtime:
        yield runtime, made
