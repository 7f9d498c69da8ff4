"""Descriptors as streams, on both event loops: order, backpressure, and what cancellation leaves behind."""

from __future__ import annotations

import contextlib
import os
import select
from collections.abc import Iterator

import anyio
import anyio.lowlevel
import pytest

from callgate.errors import SandboxCrashed
from callgate.sandbox.pipes import Pipes, open_pipes

pytestmark = pytest.mark.anyio


class Other:
    """The guest's ends."""

    def __init__(self) -> None:
        wire, output, incoming = os.pipe(), os.pipe(), os.pipe()
        self.theirs = [wire[1], output[1], incoming[0]]
        self.ours = [wire[0], output[0], incoming[1]]
        self.wire, self.output, self.incoming = self.theirs
        for fd in (*self.ours, *self.theirs):
            os.set_blocking(fd, False)

    def open(self) -> Pipes:
        return open_pipes(*self.ours)

    def read_all(self) -> bytes:
        parts = []
        try:
            while data := os.read(self.incoming, 1 << 16):
                parts.append(data)
        except BlockingIOError:
            pass
        return b"".join(parts)

    def shut(self, fd: int) -> None:
        self.theirs.remove(fd)
        os.close(fd)


@pytest.fixture
def other() -> Iterator[Other]:
    ends = Other()
    yield ends
    for fd in ends.theirs:
        os.close(fd)


async def test_bytes_come_in_order_and_then_the_end(other: Other) -> None:
    pipes = other.open()
    os.write(other.wire, b"one")
    assert await pipes.receive() == ("wire", b"one")
    os.write(other.output, b"two")
    assert await pipes.receive() == ("output", b"two")
    other.shut(other.wire)
    assert await pipes.receive() == ("wire", b"")
    assert await pipes.receive() == ("wire", b"")
    pipes.close()
    pipes.close()


async def test_the_end_of_the_output_is_not_the_end(other: Other) -> None:
    pipes = other.open()
    other.shut(other.output)
    os.write(other.wire, b"one")
    assert await pipes.receive() == ("wire", b"one")
    assert pipes.unread_output() == b""
    pipes.close()


async def test_unread_output_is_given_once(other: Other) -> None:
    pipes = other.open()
    os.write(other.wire, b"x")
    assert await pipes.receive() == ("wire", b"x")
    os.write(other.output, b"left")
    assert pipes.unread_output() == b"left"
    assert pipes.unread_output() == b""
    os.write(other.wire, b"y")
    assert await pipes.receive() == ("wire", b"y")
    pipes.close()
    assert pipes.unread_output() == b""


async def test_no_more_than_a_little_is_read_ahead(other: Other) -> None:
    pipes = other.open()
    sent = 0
    with anyio.move_on_after(0.3):
        while True:
            try:
                sent += os.write(other.wire, b"x" * 65536)
            except BlockingIOError:
                if sent == 0:
                    raise
                await anyio.sleep(0.001)
            if sent == 65536:
                await pipes.receive()
    assert sent < 4 << 20
    got = 65536
    while got < sent:
        got += len((await pipes.receive())[1])
    assert got == sent
    pipes.close()


async def test_messages_of_many_senders_stay_whole(other: Other) -> None:
    pipes = other.open()
    got = b""
    async with anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(pipes.send, bytes([65 + number]) * 50_000 + b"\n")
        with anyio.fail_after(20):
            while got.count(b"\n") < 20:
                await anyio.lowlevel.checkpoint()
                got += other.read_all()
    assert [line == line[:1] * 50_000 for line in got.split(b"\n")[:-1]] == [True] * 20
    pipes.close()


async def test_a_send_that_is_cancelled_halfway_does_not_tear_the_stream(other: Other) -> None:
    pipes = other.open()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pipes.send, b"a" * 300_000 + b"\n")
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(pipes.send, b"b" * 300_000 + b"\n")
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    got = b""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pipes.send, b"c\n")
        with anyio.fail_after(20):
            while not got.endswith(b"c\n"):
                await anyio.lowlevel.checkpoint()
                got += other.read_all()
    assert got == b"a" * 300_000 + b"\nc\n", "what has begun is finished, what has not is not sent"
    pipes.close()


async def test_a_reader_that_goes_away_is_told_to_senders(other: Other) -> None:
    pipes = other.open()
    other.shut(other.incoming)
    with pytest.raises(SandboxCrashed, match=r"^the guest is gone$"):
        await pipes.send(b"x")
    pipes.close()


async def test_closing_wakes_senders_and_receivers(other: Other) -> None:
    pipes = other.open()
    woken: list[str] = []

    async def send() -> None:
        with pytest.raises(SandboxCrashed, match=r"^the guest is gone$"):
            await pipes.send(b"x" * 1_000_000)
        woken.append("sender")

    async def receive() -> None:
        assert await pipes.receive() == ("wire", b"")
        woken.append("receiver")

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(send)
            tasks.start_soon(receive)
            await anyio.wait_all_tasks_blocked()
            pipes.close()
    assert sorted(woken) == ["receiver", "sender", "sender", "sender"]


async def fill(pipes: Pipes, fds: list[int]) -> int:
    """Write to each of `fds` in turn until nothing is read ahead any more: how much went in."""
    os.write(fds[0], b"x")
    await pipes.receive()  # which starts the reading
    written = quiet = 0
    while quiet < 20:  # turns of the loop in which no pipe had room
        before = written
        for fd in fds:
            with contextlib.suppress(BlockingIOError):
                written += os.write(fd, b"x" * 65536)
        quiet = quiet + 1 if written == before else 0
        await anyio.lowlevel.checkpoint()
    assert written > 1 << 20
    return written


async def test_reading_goes_on_when_output_that_filled_the_buffer_was_taken(other: Other) -> None:
    pipes = other.open()
    written = await fill(pipes, [other.output])
    assert len(pipes.unread_output()) == written
    os.write(other.wire, b"reply")
    with anyio.fail_after(20):
        assert await pipes.receive() == ("wire", b"reply")
    pipes.close()


async def test_both_streams_go_on_when_both_have_filled_the_buffer(other: Other) -> None:
    pipes = other.open()
    left = await fill(pipes, [other.wire, other.output])
    with anyio.fail_after(20):
        while left:
            left -= len((await pipes.receive())[1])
        for fd, stream in ((other.wire, "wire"), (other.output, "output")):
            os.write(fd, b"more")
            assert await pipes.receive() == (stream, b"more")
    pipes.close()


async def test_a_listener_takes_the_wire_first_and_leaves_to_receive_what_it_does_not_take(other: Other) -> None:
    pipes = other.open()
    heard: list[bytes] = []

    def listener(data: bytes) -> bool:
        heard.append(data)
        return data != b"two"

    pipes.listen(listener)
    with anyio.fail_after(20):
        os.write(other.wire, b"one")
        while not heard:
            await anyio.lowlevel.checkpoint()
        os.write(other.wire, b"two")
        assert await pipes.receive() == ("wire", b"two")
        os.write(other.output, b"printed")
        assert await pipes.receive() == ("output", b"printed")
        pipes.listen(None)
        os.write(other.wire, b"three")
        assert await pipes.receive() == ("wire", b"three")
        pipes.listen(listener)
        other.shut(other.wire)
        assert await pipes.receive() == ("wire", b"")
    assert heard == [b"one", b"two"]
    pipes.close()


async def test_a_listener_hears_nothing_before_receive_has_returned_what_came_earlier(other: Other) -> None:
    pipes = other.open()
    heard: list[bytes] = []

    def listener(data: bytes) -> bool:
        heard.append(data)
        return False

    pipes.listen(listener)
    with anyio.fail_after(20):
        for data in (b"one", b"two"):
            os.write(other.wire, data)
            while select.select([other.ours[0]], [], [], 0)[0]:  # until the host has read it
                await anyio.lowlevel.checkpoint()
        assert await pipes.receive() == ("wire", b"one")
        assert await pipes.receive() == ("wire", b"two")
    assert heard == [b"one"]
    pipes.close()


async def test_what_does_not_fit_at_once_is_written_before_the_next_message(other: Other) -> None:
    pipes = other.open()
    assert pipes.send_at_once(b"small\n")
    assert other.read_all() == b"small\n"
    large = b"x" * (1 << 20)
    assert not pipes.send_at_once(large)
    received = b""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pipes.send, b"next")
        with anyio.fail_after(20):
            while len(received) < len(large) + 4:
                received += other.read_all()
                await anyio.lowlevel.checkpoint()
    assert received == large + b"next"
    other.shut(other.incoming)
    with pytest.raises(SandboxCrashed):
        pipes.send_at_once(b"gone")
    pipes.close()


async def test_the_rest_of_a_message_whose_sender_left_comes_before_what_is_sent_at_once(other: Other) -> None:
    pipes = other.open()
    large = b"x" * (1 << 20)
    with anyio.move_on_after(0.01):
        await pipes.send(large)
    received = other.read_all()
    assert 0 < len(received) < len(large)
    assert not pipes.send_at_once(b"next")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pipes.send, b"")
        with anyio.fail_after(20):
            while len(received) < len(large) + 4:
                received += other.read_all()
                await anyio.lowlevel.checkpoint()
    assert received == large + b"next"
    pipes.close()
