"""A blocking call that has an end."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

from callgate.sandbox.docker.engine import within


def test_it_gives_what_the_call_gives() -> None:
    assert within(10, lambda a, b: a + b, 1, 2) == 3


def test_it_raises_what_the_call_raises() -> None:
    with pytest.raises(ZeroDivisionError):
        within(10, lambda: 1 / 0)
    with pytest.raises(SystemExit):
        within(10, sys.exit, 3)


def test_it_is_given_up_when_its_time_is_over() -> None:
    over = threading.Event()
    started = time.monotonic()
    with pytest.raises(TimeoutError):
        within(0.05, over.wait)
    assert time.monotonic() - started < 10
    over.set()


def test_what_was_given_up_does_not_keep_the_process_from_ending() -> None:
    code = """
import anyio, threading
from anyio.to_thread import run_sync
from callgate.sandbox.docker.engine import within
async def stuck():
    await run_sync(threading.Event().wait)
try:
    within(0.1, anyio.run, stuck)
except TimeoutError:
    print("given up")
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (0, "given up\n", "")
