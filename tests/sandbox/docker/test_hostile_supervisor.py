"""A supervisor that was taken over says what it likes: it is bounded, and believed no further than its form."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import AsyncIterator

import anyio
import pytest

from callgate.sandbox.backend import Collected, Usage
from callgate.sandbox.docker.files import Collecting
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


# what it hands over of /output


def file(name: object) -> bytes:
    return frame(frames.FILE, json.dumps({"name": name}).encode())


ALL = frame(frames.COLLECTED, b'{"left": ["x was not kept: why"]}')
BAD = {
    "more files": file("a") * 9 + ALL,
    "more bytes": file("a") + frame(frames.PART, bytes(600_000)) * 2 + ALL,
    "bytes of no file": frame(frames.PART, b"x") + ALL,
    "a name that is none": file(7) + ALL,
    "a name that is empty": file("") + ALL,
    "a name without end": file("x" * 5000) + ALL,
    "no JSON": frame(frames.FILE, b"\xff{") + ALL,
    "another frame": file("a") + frame(b"?"),
    "nothing more": file("a") + frame(frames.PART, b"half"),
}


async def test_what_a_supervisor_hands_over_comes_whole(taken: Taken) -> None:
    taken.guest.container.collects = True
    taken.guest._touched = True
    taken.guest._heard = 0.0
    async with anyio.create_task_group() as tasks:

        async def answer() -> None:
            assert await anyio.to_thread.run_sync(taken.read) == [
                (frames.COLLECT, b'{"most": 8, "most_bytes": 1000000}')
            ]
            parts = frame(frames.PART, b"one ") + frame(frames.PART, b"two")
            taken.say(file("a/b"), parts, file("empty"), frame(frames.PART), ALL)

        tasks.start_soon(answer)
        collect = taken.guest.collect
        assert collect is not None
        found = await collect(8, 1_000_000)
    assert found == Collected((("a/b", b"one two"), ("empty", b"")), ("x was not kept: why",))
    assert not taken.link.closed


@pytest.mark.parametrize("bad", BAD)
async def test_what_a_supervisor_may_not_hand_over_ends_its_container(
    taken: Taken, bad: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("callgate.sandbox.docker.guest._COLLECT_SECONDS", 0.3)
    taken.guest.container.collects = True
    taken.guest._touched = True
    async with anyio.create_task_group() as tasks:

        async def answer() -> None:
            await anyio.to_thread.run_sync(taken.read)
            with contextlib.suppress(OSError):  # it was hung up on
                await anyio.to_thread.run_sync(taken.say, BAD[bad])

        tasks.start_soon(answer)
        collect = taken.guest.collect
        assert collect is not None
        with anyio.fail_after(5):
            found = await collect(8, 1_000_000)
    assert sum(len(data) for _, data in found.files) <= 1_000_000
    assert len(found.files) <= 8
    assert found.left[-1].startswith(("the container handed over", "the files in /output are lost"))
    assert taken.link.closed
    assert await taken.guest.receive() == ("wire", b"")


async def test_files_that_nobody_asked_for_end_the_guest(taken: Taken) -> None:
    taken.say(file("a"))
    assert await taken.guest.receive() == ("wire", b"")
    assert "a frame of kind b'N'" in (await taken.guest.aclose()).reason


async def test_a_supervisor_that_ends_while_it_hands_over_is_told(taken: Taken) -> None:
    taken.guest.container.collects = True
    taken.guest._touched = True
    async with anyio.create_task_group() as tasks:

        async def answer() -> None:
            await anyio.to_thread.run_sync(taken.read)
            taken.say(file("a"), frame(frames.PART, b"half"))
            taken.theirs.close()

        tasks.start_soon(answer)
        collect = taken.guest.collect
        assert collect is not None
        with anyio.fail_after(5):
            found = await collect(8, 1_000_000)
    assert found.files == ()
    assert found.left == ("the files in /output are lost: the container has ended, or did not answer in time",)


async def test_a_killed_guest_whose_container_does_not_answer_is_not_waited_for_long(taken: Taken) -> None:
    taken.guest.container.collects = True
    for touched, left in ((False, ()), (True, ("the files in /output are lost",))):
        taken.guest._touched, taken.guest._heard = touched, 0.0
        taken.guest.kill()
        collect = taken.guest.collect
        assert collect is not None
        with anyio.fail_after(5):
            found = await collect(8, 1_000_000)
        assert tuple(line.partition(":")[0] for line in found.left) == left


async def test_words_of_a_supervisor_are_bounded_and_plain(taken: Taken) -> None:
    words = ["\x1b[2J" + "x" * 10_000, 7, "fine"] + ["more"] * 1000
    collecting = Collecting(8, 100)
    collecting.hear((frames.COLLECTED, json.dumps({"left": words}).encode()))
    left = collecting.collected.left
    assert left[0].startswith("?[2Jx")
    assert left[1] == "fine"
    assert max(map(len, left)) <= 400
    assert len(left) < 40


async def test_a_guest_that_touched_nothing_is_not_asked(taken: Taken) -> None:
    taken.guest.container.collects = True
    taken.say(frame(frames.PING))
    with anyio.fail_after(5):
        while not taken.guest._pongs:
            await taken.link.changed()
    collect = taken.guest.collect
    assert collect is not None
    assert await collect(8, 1_000_000) == Collected()
    taken.theirs.setblocking(False)
    with pytest.raises(BlockingIOError):
        taken.theirs.recv(1)
