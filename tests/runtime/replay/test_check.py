"""A program runs twice, and the second run calls nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from callgate import Printed, Runtime, tool
from callgate.runtime.replay.check import replay_check
from runtime.conftest import opened

pytestmark = pytest.mark.anyio
MADE: list[Any] = []


@tool
async def deed(value: Any) -> int:
    """Change something; returns how often."""
    MADE.append(value)
    return len(MADE)


@pytest.fixture(autouse=True)
def _nothing_made() -> None:
    MADE.clear()


@pytest.fixture(scope="module")
async def runtime(anyio_backend: str) -> AsyncIterator[Runtime]:
    async with opened(deed, pool_size=2) as entered:
        yield entered


async def test_a_program_that_does_the_same_again_is_told_with_its_counts(runtime: Runtime) -> None:
    code = "import asyncio\nprint(await asyncio.gather(deed('a'), deed('b'), asyncio.sleep(0.001)))\nawait deed('c')"
    check = await replay_check(runtime, code)
    assert check.difference is None
    assert check.result.value == 3
    assert check.again is not None
    assert check.again.startswith("3 calls with arguments, 4 events, 13 characters printed (SHA-256 ")
    assert check.environment["Python"].startswith("CPython 3.")
    assert sorted(MADE) == ["a", "b", "c"]


async def test_a_call_that_the_program_left_is_not_made_by_the_second_run(runtime: Runtime) -> None:
    check = await replay_check(runtime, "left = deed('a')\nawait deed('b')\nraise ValueError('no')")
    assert check.result.error is not None
    assert check.difference is None
    assert check.again is not None
    assert check.again.endswith("and the error, ValueError")
    assert MADE == ["a", "b"]


async def test_cancelled_calls_are_compared_and_made_once(runtime: Runtime) -> None:
    code = """
import asyncio
tasks = [asyncio.create_task(deed(i)) for i in range(3)]
await asyncio.sleep(0)
tasks[1].cancel()
print(await asyncio.gather(*tasks, return_exceptions=True))
"""
    check = await replay_check(runtime, code)
    assert (check.difference, MADE) == (None, [0, 2])


async def test_another_argument_is_told_with_its_line(runtime: Runtime) -> None:
    check = await replay_check(runtime, "x = 1\nawait deed(open('/dev/urandom', 'rb').read(9).hex())")
    assert check.difference is not None
    assert check.difference.line == 2
    assert check.difference.expected.startswith('the answer to call 1, deed({"value":')
    assert check.difference.got.startswith('call 1, deed({"value":')
    assert len(MADE) == 1


async def test_a_second_run_that_goes_on_where_the_first_one_ended_is_told(runtime: Runtime) -> None:
    code = "path = '/dev/urandom'\nwhile open(path, 'rb').read(1)[0] % 8:\n    await deed(1)"
    found = {str(check.difference) for check in [await replay_check(runtime, code) for _ in range(20)]}
    assert any("a program that waits for one more event" in each or "the end of the program" in each for each in found)


async def test_prints_of_the_second_run_are_not_heard(runtime: Runtime) -> None:
    heard: list[str] = []
    await replay_check(
        runtime, "print(await deed(1))", on_event=lambda e: heard.append(e.text) if isinstance(e, Printed) else None
    )
    assert heard == ["1\n"]


async def test_a_program_that_starts_threads_does_not_run(runtime: Runtime) -> None:
    check = await replay_check(runtime, "import threading\nthreading.Thread(target=print).start()")
    assert check.again is None
    assert [finding.code for finding in check.result.findings] == ["not-replayable"]
