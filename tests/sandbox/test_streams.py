"""Writing to a side that takes everything: others have their turn all the same."""

from __future__ import annotations

import time

import anyio
import pytest

from callgate.sandbox.streams import Writer

pytestmark = pytest.mark.anyio


class Taking(Writer):
    """Takes whatever is written, at once."""

    def __init__(self) -> None:
        super().__init__()
        self.taken = 0

    async def writable(self) -> None:
        raise AssertionError("nobody has to wait")

    def write(self, data: memoryview) -> int:
        self.taken += len(data)
        return len(data)


@pytest.mark.parametrize("message", [b"x", b"x" * 100_000])
async def test_whoever_sends_without_waiting_can_be_cancelled(message: bytes) -> None:
    writer = Taking()
    end = time.monotonic() + 20
    with anyio.move_on_after(0.1) as scope:
        while time.monotonic() < end:
            await writer.send(message)
    assert scope.cancelled_caught
    assert writer.taken % len(message) == 0, "each was written whole"


async def test_others_have_their_turn_while_one_sends_without_waiting() -> None:
    writer = Taking()
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(other)
        for _ in range(10_000):
            await writer.send(b"x" * 100)
        tasks.cancel_scope.cancel()
    assert turns > 10
