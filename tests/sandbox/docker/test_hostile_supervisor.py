"""A supervisor that was taken over says what it likes: it is bounded, and believed no further than its form."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator

import anyio
import pytest

from callgate.sandbox.backend import Usage
from callgate_guest import frames
from callgate_guest.frames import frame
from sandbox.docker.taken import Taken

pytestmark = pytest.mark.anyio


@pytest.fixture
async def taken() -> AsyncIterator[Taken]:
    made = Taken()
    yield made
    made.close()


@pytest.mark.parametrize("unit", [frame(frames.HUNG_UP), frame(frames.PING), frame(frames.WIRE, bytes(16))])
async def test_a_flood_of_frames_neither_fills_memory_nor_stops_the_loop(taken: Taken, unit: bytes) -> None:
    chunk = unit * 10_000

    def flood() -> None:
        try:
            while True:
                taken.say(chunk)
        except OSError:  # it was hung up on
            pass

    thread = threading.Thread(target=flood, daemon=True)
    thread.start()
    with anyio.move_on_after(0.3) as scope:
        while True:
            assert taken.guest.alive or unit[:1] != frames.PING
            if (await taken.guest.receive()) == ("wire", b""):
                await anyio.lowlevel.checkpoint()
    assert scope.cancelled_caught, "the deadline had its turn"
    assert taken.guest._inbox.held < 25_000 * 128
    taken.link.hang_up()
    taken.theirs.close()
    await anyio.to_thread.run_sync(thread.join, 10)


@pytest.mark.parametrize(
    "told",
    [
        {"status": "0"}, {"status": 10**6}, {"status": True}, [], None, {"status": 0, "cpu": 10**400, "peak": 1},
        {"status": 0, "cpu": -1, "peak": 1}, {"status": 0, "cpu": 1, "peak": -1}, {"status": 0, "cpu": "1", "peak": 1},
    ],
)  # fmt: skip
async def test_figures_that_cannot_be_are_not_told(taken: Taken, told: object) -> None:
    taken.say(frame(frames.EXITED, json.dumps(told).encode()))
    ended = await taken.guest.aclose()
    assert ended.usage is None
    assert taken.given_back == [False]


@pytest.mark.parametrize("figures", [(float("nan"), 1), (float("inf"), 1), (-1.0, 1), (1.0, 1 << 63)])
async def test_usage_that_cannot_be_is_not_taken(taken: Taken, figures: tuple[float, int]) -> None:
    taken.say(frame(frames.SPAWNED, frames.USAGE.pack(0.5, 1 << 20)))
    taken.say(frame(frames.WIRE, frames.USAGE.pack(*figures) + b"data"))
    assert await taken.guest.receive() == ("wire", b"data")
    assert taken.guest.usage() == Usage(0.5, 1 << 20)


async def test_a_reason_is_cut(taken: Taken) -> None:
    taken.say(frame(frames.FAILED, json.dumps({"reason": "x" * 100_000}).encode()))
    assert await taken.guest.receive() == ("wire", b"")
    assert len((await taken.guest.aclose()).reason) < 2_000


async def test_a_frame_of_no_kind_ends_the_guest(taken: Taken) -> None:
    taken.say(frame(b"?", b"what"))
    assert await taken.guest.receive() == ("wire", b"")
    ended = await taken.guest.aclose()
    assert ended.status is None
    assert "a frame of kind b'?'" in ended.reason


async def test_a_supervisor_that_does_not_say_how_its_guest_ended_is_not_waited_for(taken: Taken) -> None:
    with anyio.fail_after(10):
        ended = await taken.guest.aclose()
    assert ended.status is None
    assert taken.given_back == [False]


async def test_words_about_files_are_printable_lines(taken: Taken) -> None:
    taken.guest.container.collects = True
    taken.say(frame(frames.TOUCHED), frame(frames.SPAWNED, frames.USAGE.pack(0, 0)))
    await taken.guest.opened()
    told = {"left": ["one\ntwo", "\x1b[2J", "sur\ud800", 5, "x" * 10_000]}
    async with anyio.create_task_group() as tasks:

        async def answer() -> None:
            await anyio.to_thread.run_sync(taken.read)
            taken.say(frame(frames.COLLECTED, json.dumps(told).encode()))

        tasks.start_soon(answer)
        assert taken.guest.collect is not None
        collected = await taken.guest.collect(9, 9)
    assert collected.left == ("one?two", "?[2J", "sur?", "x" * 400)
