"""A small amount of work that is always the same: how long it takes tells how fast the machine is at the moment.

It knows nothing of callgate, and takes what callgate takes: Python bytecode, JSON both ways, a process that is started,
and two processes that wake each other over pipes. The standard library alone.
"""

from __future__ import annotations

import contextlib
import gc
import json
import subprocess
import sys
import time

__all__ = ["note", "yardstick"]

_NUMBERS = 100_000
_DOCUMENTS = 8
_WAKES = 1_500
_ECHO = "import os\nwhile byte := os.read(0, 1):\n    os.write(1, byte)\n"
_DOCUMENT = [
    {"id": n, "name": f"item {n}", "price": n * 1.25, "tags": ["a", "b"], "on": n % 2 == 0} for n in range(300)
]


def note(seconds: list[float]) -> None:
    """Do the work once and add what it took; where it cannot be done, nothing is added, and nothing else ends by it."""
    with contextlib.suppress(OSError):
        seconds.append(yardstick())


def yardstick() -> float:
    """Do the work once; returns how long it took, in seconds: some 50 to 100 ms on a machine with nothing else to do.

    Blocks the thread. The garbage collector waits meanwhile: what it would walk over is the caller's.

    Raises:
        OSError: the process that answers could not be started, or ended early.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        started = time.perf_counter()
        _bytecode()
        _documents()
        _processes()
        return time.perf_counter() - started
    finally:
        if collects:
            gc.enable()


def _bytecode() -> int:
    total, seen = 0, dict[int, int]()
    for number in range(_NUMBERS):
        total += number * 3 % 7
        seen[number & 1023] = total
    return total


def _documents() -> int:
    return sum(len(json.loads(json.dumps(_DOCUMENT))) for _ in range(_DOCUMENTS))


def _processes() -> None:
    command = [sys.executable, "-I", "-S", "-c", _ECHO]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        for _ in range(_WAKES):
            other.stdin.write(b".")
            if not other.stdout.read(1):
                raise BrokenPipeError("the process that answers ended early")
