"""A container's link over a socket: frames arrive, garbage ends the link, no task waits for ever."""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from callgate.errors import SandboxCrashed
from callgate.sandbox.docker.link import Link
from callgate_guest.frames import Frame, FrameBuffer, frame, frames
from sandbox.docker.certificates import Certificates
from sandbox.docker.taken import piece

SECONDS = 20.0

pytestmark = pytest.mark.anyio


class Peer:
    """The engine's end, which reads and writes without waiting."""

    def __init__(self, end: socket.socket) -> None:
        self.end = end
        self.frames = FrameBuffer()

    def write(self, data: bytes) -> None:
        self.end.sendall(data)

    def frame(self, kind: bytes, payload: bytes = b"") -> None:
        self.end.sendall(piece(frame(kind, payload)))

    async def read(self) -> list[Frame]:
        """What has come; waits for some."""
        with anyio.fail_after(SECONDS):
            while True:
                try:
                    data = self.end.recv(1 << 20)
                except (BlockingIOError, ssl.SSLWantReadError):
                    await anyio.wait_readable(self.end)
                    continue
                return self.frames.feed(data)


class Hearing(Link):
    """A link whose frames are received one by one."""

    def __init__(self, attached: socket.socket) -> None:
        super().__init__(attached)
        self.heard: list[Frame] = []
        self.hear = self.keep

    def keep(self, found: Frame) -> None:
        self.heard.append(found)
        self.inbox.put("output", found[1])

    def take(self) -> Frame | None:
        self.inbox.take()
        self.go_on()
        return self.heard.pop(0) if self.heard else None

    async def receive(self) -> Frame | None:
        """The next frame; ``None`` at the end."""
        while not self.heard and not self.over:
            await self.changed()
        return self.take()


@pytest.fixture
async def pair() -> AsyncIterator[tuple[Hearing, Peer]]:
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setblocking(False)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 14)
    link = Hearing(ours)
    yield link, Peer(theirs)
    link.hang_up()
    theirs.close()


async def test_frames_that_came_at_once_are_taken_one_by_one(pair: tuple[Hearing, Peer]) -> None:
    link, peer = pair
    peer.write(piece(frame(b"D", b"one") + frame(b"D", b"two")))
    with anyio.fail_after(SECONDS):
        assert await link.receive() == (b"D", b"one")
        assert await link.receive() == (b"D", b"two")
    assert link.take() is None


async def test_the_end_of_the_stream_is_told_after_what_came_before(pair: tuple[Hearing, Peer]) -> None:
    link, peer = pair
    peer.frame(b"D", b"last words")
    peer.end.close()
    with anyio.fail_after(SECONDS):
        assert await link.receive() == (b"D", b"last words")
        assert await link.receive() is None
    assert link.hung_up()
    with pytest.raises(SandboxCrashed):
        await link.send(frame(b"D", b"too late"))


async def test_garbage_ends_the_link_and_says_why(pair: tuple[Hearing, Peer]) -> None:
    link, peer = pair
    peer.write(b"HTTP/1.1 500 Internal Server Error\r\n\r\n")
    with anyio.fail_after(SECONDS):
        assert await link.receive() is None
    assert link.why.startswith("what came from the container is not the protocol: a piece of stream 72")


async def test_what_a_container_may_send_unread_is_bounded(pair: tuple[Hearing, Peer]) -> None:
    link, peer = pair
    sent = 0
    block = piece(frame(b"O", bytes(1 << 16)))

    def fill() -> int:
        filled = 0
        try:
            while True:
                filled += peer.end.send(block[(sent + filled) % len(block) :])
        except BlockingIOError:
            return filled

    while more := fill():
        sent += more
        link.pump()
        assert sent < 8 << 20
    assert sent > 1 << 20
    got = 0
    while (found := link.take()) is not None:  # it goes on where it was left
        got += len(found[1])
        link.pump()
    assert got > sent - 2 * len(block)


async def test_a_container_that_does_not_read_makes_the_sender_wait(pair: tuple[Hearing, Peer]) -> None:
    link, peer = pair
    data = bytes(range(256)) * 8192
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(link.send, frames(b"D", data))
        got: list[Frame] = []
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        while sum(len(payload) for _, payload in got) < len(data):
            got += await peer.read()
    assert b"".join(payload for _, payload in got) == data


async def test_senders_do_not_mix_their_frames(pair: tuple[Hearing, Peer]) -> None:
    link, peer = pair
    sent = [(b"D", bytes([number]) * (50_000 + number)) for number in range(20)]
    got: list[Frame] = []
    async with anyio.create_task_group() as tasks:
        for each in sent:
            tasks.start_soon(link.send, frame(*each))
        while len(got) < len(sent):
            got += await peer.read()
    assert sorted(got) == sorted(sent)


async def cancel_in_the_middle(link: Link, data: bytes) -> None:
    """Begin to send, and give up once the other side's buffers are full."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(link.send, data)
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()


async def test_a_send_cancelled_in_the_middle_of_a_frame_does_not_harm_the_next(pair: tuple[Hearing, Peer]) -> None:
    link, peer = pair
    first, second, third = frame(b"D", b"a" * 500_000), frame(b"D", b"b" * 500_000), frame(b"K")
    await cancel_in_the_middle(link, first)
    assert not link.send_now(frame(b"K"))  # it would be in the middle of that frame
    await cancel_in_the_middle(link, second)  # not begun: nothing of it comes
    got: list[Frame] = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(link.send, third)
        while len(got) < 2:
            got += await peer.read()
    assert got == [(b"D", b"a" * 500_000), (b"K", b"")]


async def test_hanging_up_wakes_whoever_waits_to_read(pair: tuple[Hearing, Peer]) -> None:
    link, _ = pair
    got: list[Frame | None] = []

    async def read() -> None:
        got.append(await link.receive())

    with anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await anyio.wait_all_tasks_blocked()
            link.hang_up()
    assert got == [None]


async def test_hanging_up_wakes_whoever_waits_to_write(pair: tuple[Hearing, Peer]) -> None:
    link, _ = pair
    failed: list[str] = []

    async def write(letter: bytes) -> None:
        try:
            await link.send(frame(b"D", letter * 500_000))
        except SandboxCrashed as error:
            failed.append(str(error))

    with anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(write, b"a")
            tasks.start_soon(write, b"b")
            await anyio.wait_all_tasks_blocked()
            link.hang_up()
    assert failed == ["the container is gone"] * 2
    link.hang_up()
    assert link.hung_up()


async def ends_with_a_sender(link: Hearing, peer: Peer) -> None:
    """Have the peer say no more, and neither read nor close, while somebody waits to write."""
    with anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as tasks:

            async def write() -> None:
                with pytest.raises(SandboxCrashed):
                    await link.send(frame(b"D", b"x" * 1_000_000))

            tasks.start_soon(write)
            await anyio.wait_all_tasks_blocked()
            peer.frame(b"O", b"last words")
            peer.end.shutdown(socket.SHUT_WR)
    assert link.take() == (b"O", b"last words")


async def test_the_end_of_the_stream_is_seen_by_whoever_waits_to_write(pair: tuple[Hearing, Peer]) -> None:
    await ends_with_a_sender(*pair)


async def both_say_much(link: Hearing, peer: Peer) -> None:
    """Each side sends while the other does; both read."""
    there = [(b"D", bytes([number]) * 100_000) for number in range(20)]
    back = [(b"O", bytes([number]) * 50_000) for number in range(40)]
    heard: list[Frame] = []
    got: list[Frame | None] = []

    async def answer() -> None:
        data = b"".join(piece(frame(*each)) for each in back)
        while data:
            try:
                data = data[peer.end.send(data) :]
            except (BlockingIOError, ssl.SSLWantWriteError):
                await anyio.wait_writable(peer.end)

    async def receive() -> None:
        while len(got) < len(back):
            got.append(await link.receive())

    with anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as tasks:
            for each in there:
                tasks.start_soon(link.send, frame(*each))
            tasks.start_soon(answer)
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(receive)
            while len(heard) < len(there):
                heard += await peer.read()
    assert got == back
    assert sorted(heard) == there


async def test_whoever_sends_and_whoever_receives_do_not_hinder_each_other(pair: tuple[Hearing, Peer]) -> None:
    await both_say_much(*pair)


# TLS


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(Path(tmp_path_factory.mktemp("tls")))


@pytest.fixture
async def tls(certificates: Certificates) -> AsyncIterator[tuple[Hearing, Peer]]:
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 14)
    client, server = certificates.contexts()
    wrapped: list[ssl.SSLSocket] = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(anyio.to_thread.run_sync, lambda: wrapped.append(server.wrap_socket(theirs, server_side=True)))
        end = await anyio.to_thread.run_sync(lambda: client.wrap_socket(ours, server_hostname="localhost"))
    end.setblocking(False)
    wrapped[0].setblocking(False)
    link = Hearing(end)
    yield link, Peer(wrapped[0])
    link.hang_up()
    wrapped[0].close()


async def test_over_tls_a_send_cancelled_before_its_first_byte_does_not_harm_the_next(
    tls: tuple[Hearing, Peer],
) -> None:
    link, peer = tls
    first, second, third = frame(b"D", b"a" * 500_000), frame(b"D", b"b" * 500_000), frame(b"D", b"c" * 500_000)
    for given_up in (first, second):
        await cancel_in_the_middle(link, given_up)
    got: list[Frame] = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(link.send, third)
        while (b"D", b"c" * 500_000) not in got:
            got += await peer.read()
    assert (b"D", b"a" * 500_000) in got


async def test_over_tls_nothing_of_a_flood_is_lost_or_stuck(tls: tuple[Hearing, Peer]) -> None:
    link, peer = tls
    sent = [(b"D", bytes([number]) * (number * 1000)) for number in range(200)]

    async def flood() -> None:
        data = b"".join(piece(frame(*each)) for each in sent)
        while data:
            try:
                data = data[peer.end.send(data) :]
            except ssl.SSLWantWriteError:
                await anyio.wait_writable(peer.end)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(flood)
        with anyio.fail_after(SECONDS):
            got = [await link.receive() for _ in sent]
    assert got == sent


async def test_over_tls_the_end_of_the_stream_is_seen_by_whoever_waits_to_write(tls: tuple[Hearing, Peer]) -> None:
    await ends_with_a_sender(*tls)


async def test_over_tls_whoever_sends_and_whoever_receives_do_not_hinder_each_other(tls: tuple[Hearing, Peer]) -> None:
    await both_say_much(*tls)
