"""Whoever waits to send to a guest sees its end, whoever receives meanwhile, and reads no more than it may."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from callgate.errors import SandboxCrashed
from callgate.sandbox.docker import guest as guest_module
from callgate_guest import frames
from callgate_guest.container import DEAF
from callgate_guest.frames import Frame, frame
from sandbox.docker.taken import Taken

pytestmark = pytest.mark.anyio

SECONDS = 20.0
MUCH = b"x" * 1_000_000  # more than the socket holds, for a container that does not read
EXITED = frame(frames.EXITED, json.dumps({"status": 0, "cpu": 0.5, "peak": 1 << 20}).encode())
NO_USAGE = frames.USAGE.pack(0.0, 0)

ENDS: dict[str, Callable[[Taken], None]] = {
    "the guest has ended": lambda taken: taken.say(EXITED),
    "the guest hears no more": lambda taken: taken.say(frame(frames.HUNG_UP, DEAF)),
    "the supervisor has failed": lambda taken: taken.say(frame(frames.FAILED, b"{}")),
    "garbage": lambda taken: taken.theirs.sendall(b"HTTP/1.1 500 Internal Server Error\r\n\r\n"),
    "the container has ended": lambda taken: taken.theirs.shutdown(socket.SHUT_WR),
}


@pytest.fixture
async def taken() -> AsyncIterator[Taken]:
    made = Taken(send_bytes=1 << 14)
    yield made
    made.close()


async def refused(taken: Taken, failed: list[str]) -> None:
    """Send, which fails."""
    with pytest.raises(SandboxCrashed) as told:
        await taken.guest.send(MUCH)
    failed.append(str(told.value))


async def never(_: Taken) -> None:
    """Nobody receives."""


async def always(taken: Taken) -> None:
    """Receive until the end."""
    while (await taken.guest.receive()) != ("wire", b""):
        pass


async def once(taken: Taken) -> None:
    """Receive one item, and do something else."""
    await taken.guest.receive()


async def given_up(taken: Taken) -> None:
    """Wait for an item, and give up."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(taken.guest.receive)
        await anyio.lowlevel.checkpoint()
        await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("listener", [never, always, once, given_up])
@pytest.mark.parametrize("receiver_first", [False, True])
@pytest.mark.parametrize("end", ENDS)
async def test_the_end_wakes_whoever_waits_to_send(
    taken: Taken, end: str, receiver_first: bool, listener: Callable[[Taken], Coroutine[Any, Any, None]]
) -> None:
    failed: list[str] = []
    with anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as receiving:
            async with anyio.create_task_group() as sending:
                if receiver_first:
                    receiving.start_soon(listener, taken)
                    await anyio.wait_all_tasks_blocked()
                for _ in range(2):
                    sending.start_soon(refused, taken, failed)
                await anyio.wait_all_tasks_blocked()
                if not receiver_first:
                    receiving.start_soon(listener, taken)
                    await anyio.wait_all_tasks_blocked()
                taken.say(frame(frames.OUTPUT, b"last words"))
                ENDS[end](taken)
            receiving.cancel_scope.cancel()
    assert len(failed) == 2
    with pytest.raises(SandboxCrashed):
        await taken.guest.send(b"x")
    assert not taken.guest.alive


@pytest.mark.parametrize("end", ["the guest has ended", "the container has ended"])
async def test_the_end_is_seen_behind_many_frames_that_nobody_receives(taken: Taken, end: str) -> None:
    failed: list[str] = []
    with anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(refused, taken, failed)
            await anyio.wait_all_tasks_blocked()
            for _ in range(5):
                taken.say(*[frame(frames.OUTPUT, b"x")] * 1000)
            ENDS[end](taken)
    assert failed
    assert taken.guest.unread_output() == b"x" * 5000


@pytest.mark.parametrize("end", ["the guest has ended", "the container has ended"])
async def test_the_end_is_seen_behind_as_much_as_a_guest_can_leave_on_its_way(taken: Taken, end: str) -> None:
    failed: list[str] = []
    said = [bytes([number]) * (1 << 16) for number in range(48)]

    def say() -> None:
        for each in said:
            taken.say(frame(frames.OUTPUT, each))
        ENDS[end](taken)

    with anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(refused, taken, failed)
            await anyio.wait_all_tasks_blocked()
            await anyio.to_thread.run_sync(say, abandon_on_cancel=True)
    assert failed
    assert [(await taken.guest.receive())[1] for _ in said] == said


async def test_whoever_sends_to_a_guest_that_ended_is_told_though_all_is_taken(taken: Taken) -> None:
    """The supervisor reads what is sent to a guest that is no more."""

    def serve() -> None:
        for _ in range(48):
            taken.say(frame(frames.OUTPUT, bytes(1 << 16)))
        taken.say(EXITED)
        while taken.theirs.recv(1 << 16):
            pass

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    with anyio.fail_after(SECONDS), pytest.raises(SandboxCrashed):  # noqa: PT012
        while True:
            await taken.guest.send(b"x" * 1000)
    taken.link.hang_up()
    await anyio.to_thread.run_sync(thread.join, SECONDS)


async def test_what_a_sender_reads_ahead_is_bounded(taken: Taken) -> None:
    unit = frame(frames.OUTPUT, b"o" * 10_000)
    got: list[Frame] = []

    def hear() -> None:
        while not got:
            got.extend(taken.read())

    sent = 0
    with anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(taken.guest.send, MUCH)
            await anyio.wait_all_tasks_blocked()
            quiet = 0
            while quiet < 20:  # turns of the loop in which the sender has read nothing
                await anyio.lowlevel.checkpoint()
                more = taken.flood(unit)
                quiet, sent = quiet + 1 if more == sent else 0, more
                assert sent < 8 << 20
            assert sent > 1 << 20
            received = 0
            while received < sent // (len(unit) + 8):  # it goes on where it was left
                stream, data = await taken.guest.receive()
                assert (stream, data) == ("output", b"o" * 10_000)
                received += 1
            await anyio.to_thread.run_sync(hear, abandon_on_cancel=True)
    assert got == [(frames.WIRE, MUCH)]


@pytest.mark.parametrize("receiver_first", [False, True])
async def test_whoever_receives_gets_each_frame_while_another_waits_to_send(taken: Taken, receiver_first: bool) -> None:
    given, heard = anyio.create_memory_object_stream[bytes](100)

    async def receive() -> None:
        while True:
            given.send_nowait((await taken.guest.receive())[1])

    with anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as receiving:
            if receiver_first:
                receiving.start_soon(receive)
                await anyio.wait_all_tasks_blocked()
            async with anyio.create_task_group() as sending:
                sending.start_soon(taken.guest.send, MUCH)
                await anyio.wait_all_tasks_blocked()
                if not receiver_first:
                    receiving.start_soon(receive)
                    await anyio.wait_all_tasks_blocked()
                for number in range(10):
                    taken.say(frame(frames.WIRE, NO_USAGE + b"%d" % number))
                    assert await heard.receive() == b"%d" % number
                sending.cancel_scope.cancel()
            taken.say(frame(frames.WIRE, NO_USAGE + b"after"))
            assert await heard.receive() == b"after"
            receiving.cancel_scope.cancel()
    given.close()
    heard.close()


async def test_a_kill_wakes_whoever_sends_and_whoever_receives(taken: Taken) -> None:
    failed: list[str] = []
    with anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(refused, taken, failed)
            tasks.start_soon(always, taken)
            tasks.start_soon(refused, taken, failed)
            await anyio.wait_all_tasks_blocked()
            taken.guest.kill()
    assert len(failed) == 2
    with anyio.fail_after(SECONDS):
        assert (await taken.guest.aclose()).status is None
    assert taken.given_back == [False]


async def test_closing_wakes_whoever_sends_and_whoever_receives(taken: Taken) -> None:
    failed: list[str] = []
    with anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(always, taken)
            tasks.start_soon(refused, taken, failed)
            await anyio.wait_all_tasks_blocked()
            await taken.guest.aclose()
    assert len(failed) == 1


async def test_closing_hears_the_end_while_another_task_is_leaving_receive(taken: Taken) -> None:
    with anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(always, taken)
            await anyio.wait_all_tasks_blocked()
            taken.guest.kill()
            taken.say(EXITED)
            ended = await taken.guest.aclose()
    assert ended.status == 0
    assert taken.given_back == [True]


async def test_whoever_asks_for_a_guests_health_hears_of_its_end(taken: Taken, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guest_module, "_FRESH_SECONDS", 0.0)
    monkeypatch.setattr(guest_module, "_PONG_SECONDS", 3600.0)
    told: list[bool] = []

    async def ask() -> None:
        told.append(await taken.guest.healthy())

    with anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(taken.guest.send, MUCH)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)  # its ping waits for the rest of that message
            await anyio.wait_all_tasks_blocked()
            taken.say(EXITED)
    assert told == [False]
