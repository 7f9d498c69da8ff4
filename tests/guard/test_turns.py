"""Between two long steps of the host's work, a task whose time has come goes on."""

from __future__ import annotations

import time

import anyio
import pytest

from callgate.runtime.gate.arguments import in_turns
from callgate.tools.turns import Work

pytestmark = pytest.mark.anyio

STEPS = 5


async def test_a_task_that_slept_goes_on_after_each_long_step() -> None:
    steps = 0
    seen: list[int] = []

    def work() -> Work[None]:
        nonlocal steps
        while steps < STEPS:
            steps += 1
            time.sleep(0.01)
            yield

    async def other() -> None:
        while True:
            await anyio.sleep(0.001)
            seen.append(steps)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(other)
        await anyio.sleep(0.005)
        seen.clear()
        await in_turns(work())
        tasks.cancel_scope.cancel()
    assert {*range(1, STEPS + 1)} <= {*seen}
