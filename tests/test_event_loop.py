"""Signals reach an event loop that waits for something that never comes."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from callgate import event_loop

PATIENCE_SECONDS = 60


def interrupt(main: int, seconds: float, ended: threading.Event, waited: list[bool]) -> None:
    """In a worker's thread: a SIGINT that the kernel gives to this one, while the main thread sleeps in the loop."""
    status = Path(f"/proc/self/task/{main}/stat")
    while status.read_text().rpartition(")")[2].split()[0] != "S":
        ended.wait(0.01)
    ended.wait(0.1)  # asleep for good, not for a lock
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)
    waited.append(ended.wait(seconds))


def hears_ctrl_c(first: Callable[[], None]) -> bool:
    """Whether it ends a loop that has done this first, and now waits for a thread in which the signal arrives."""
    ended, waited = threading.Event(), list[bool]()

    async def wait() -> None:
        first()
        await anyio.to_thread.run_sync(
            interrupt, threading.get_native_id(), PATIENCE_SECONDS, ended, waited, abandon_on_cancel=True
        )

    with pytest.raises(KeyboardInterrupt):
        event_loop.run(wait)
    at_once = not waited
    ended.set()
    return at_once


def test_a_signal_that_another_thread_gets_wakes_the_loop() -> None:
    assert hears_ctrl_c(lambda: None)


def test_nothing_of_it_is_left_and_what_was_set_before_is_set_again() -> None:
    async def answer(number: int) -> int:
        assert signal.set_wakeup_fd(-1) > 0
        return number + 1

    files = len(list(Path("/proc/self/fd").iterdir()))
    before = signal.set_wakeup_fd(-1)
    try:
        assert event_loop.run(answer, 41) == 42
        assert signal.set_wakeup_fd(-1) == -1
    finally:
        signal.set_wakeup_fd(before)
    assert len(list(Path("/proc/self/fd").iterdir())) <= files  # what earlier tests dropped may be closed meanwhile


def test_in_a_thread_of_its_own_it_is_a_loop_like_any_other() -> None:
    found: list[int] = []

    async def answer() -> int:
        return 42

    thread = threading.Thread(target=lambda: found.append(event_loop.run(answer)))
    thread.start()
    thread.join(PATIENCE_SECONDS)
    assert found == [42]


UVLOOP = """
import os, signal, threading
import anyio, uvloop
from callgate import event_loop

uvloop.install()

async def wait():
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    await anyio.sleep(60)

try:
    event_loop.run(wait)
except KeyboardInterrupt:
    print("heard")
"""


def test_a_loop_that_hears_signals_by_itself_goes_on_doing_so() -> None:
    # what installs it is deprecated on newer Pythons, and what operators' tools do
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", UVLOOP], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout == "heard\n"


def test_a_handler_that_comes_and_goes_meanwhile_changes_nothing() -> None:
    def handle() -> None:
        with anyio.open_signal_receiver(signal.SIGUSR2):
            pass

    assert hears_ctrl_c(handle)
