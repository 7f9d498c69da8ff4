"""The gate of one run over a few tools, for the tests of the gate."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from callgate.errors import ToolError
from callgate.limits import Limits
from callgate.runtime.gate import Gate, RunGate
from callgate.tools import Caller, Registry, Retry, Tool, tool
from callgate.tools.statistics import ToolStats

__all__ = [
    "AT_ONCE",
    "Clock",
    "Flaky",
    "echo",
    "failure_of",
    "flaky",
    "forever",
    "opened",
    "run_of",
    "spare",
    "stats_of",
]

AT_ONCE = Retry(attempts=3, backoff_seconds=0)


@tool
async def echo(text: str) -> str:
    return text


@tool
async def spare(n: int = 0) -> str:
    return f"spare {n}"


async def forever() -> None:
    await anyio.sleep_forever()


class Flaky:
    """A tool that fails a few times, then works."""

    def __init__(self, *failures: BaseException) -> None:
        self.failures = list(failures)
        self.calls = 0

    async def __call__(self, n: int = 0) -> int:
        self.calls += 1
        if self.failures:
            raise self.failures.pop(0)
        return self.calls


def flaky(*failures: BaseException, **options: Any) -> Tool:
    return Tool.from_function(Flaky(*failures), name="flaky", **options)


class Clock:
    """Stands still unless a tool moves it."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def opened(gate: Gate, caller: Caller = "code", **limits: Any) -> RunGate:
    return gate.open(caller=caller, limits=Limits(**limits))


def run_of(*tools: Tool, caller: Caller = "code", approve: Any = None, **limits: Any) -> RunGate:
    return opened(Gate(Registry(tools), approve=approve), caller, **limits)


async def failure_of(run: RunGate, name: str, arguments: Any = None, **own: Any) -> ToolError:
    """What a call that fails raises."""
    with pytest.raises(ToolError) as caught:
        await run.call(name, {} if arguments is None else arguments, **own)
    return caught.value


def stats_of(run: RunGate, name: str) -> ToolStats:
    stats = run.offer.registry.statistics.of(name)
    assert stats is not None
    return stats
