"""A server's own descriptors, read and written by threads as on Windows. `test_stdio` has them in the event loop."""

from __future__ import annotations

import os
import threading

import anyio
import pytest

from callgate.mcp.server import descriptors

pytestmark = pytest.mark.anyio
SECONDS = 20.0


async def test_a_thread_reads_all_that_comes_and_then_the_end() -> None:
    reading, writing = os.pipe()
    with anyio.fail_after(SECONDS):
        async with descriptors._reading_in_thread(reading) as read:
            os.write(writing, b"one")
            assert await read() == b"one"
            os.write(writing, b"two")
            assert await read() == b"two"
            os.close(writing)
            assert await read() == b""
    os.close(reading)


async def test_a_wait_can_be_cancelled_though_the_thread_still_waits() -> None:
    reading, writing = os.pipe()
    with anyio.fail_after(SECONDS):
        async with descriptors._reading_in_thread(reading) as read:
            with anyio.move_on_after(0.05) as scope:
                await read()
            assert scope.cancelled_caught
    (left,) = [each for each in threading.enumerate() if each.name == "callgate reads stdin"]
    assert left.daemon, "the end of the process does not wait for it"
    os.close(writing)
    left.join(SECONDS)
    assert not left.is_alive()
    os.close(reading)


async def test_bytes_that_nobody_takes_do_not_hold_up_the_end() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"unread")
    with anyio.fail_after(SECONDS):
        async with descriptors._reading_in_thread(reading):
            await anyio.sleep(0.05)
    os.close(writing)
    os.close(reading)
