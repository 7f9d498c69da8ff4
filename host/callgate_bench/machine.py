"""What a figure was measured on: kernel, processors, interpreter, versions, load; and how fast it is at the moment.

The yardstick is a small amount of work that is always the same. It knows nothing of callgate, and takes what callgate
takes: Python bytecode, JSON both ways, a process that is started, and two processes that wake each other over pipes.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import platform
import subprocess
import sys
import time
from importlib import metadata

__all__ = ["describe", "load", "note", "yardstick"]

_NUMBERS = 100_000
_DOCUMENTS = 8
_WAKES = 1_500
_ECHO = "import os\nwhile byte := os.read(0, 1):\n    os.write(1, byte)\n"
_DOCUMENT = [
    {"id": n, "name": f"item {n}", "price": n * 1.25, "tags": ["a", "b"], "on": n % 2 == 0} for n in range(300)
]


def describe() -> str:
    """One line: the kind of machine, and the versions of everything that was measured."""
    cores = os.cpu_count()
    if sys.platform == "linux":
        cores = len(os.sched_getaffinity(0))
    parts = [
        f"{platform.system()} {platform.release()} {platform.machine()}",
        f"{cores} cores",
        f"Python {platform.python_version()}",
        *(
            f"{name} {version}"
            for name in ("callgate", "anyio", "pydantic-monty", "langgraph", "dbos")
            if (version := _version(name))
        ),
        _output_of("bwrap", "--version"),
        _output_of("docker", "version", "--format", "Docker {{.Server.Version}}"),
    ]
    return ", ".join(part for part in parts if part)


def load() -> str:
    """The load average over one, five and fifteen minutes."""
    if sys.platform != "win32":
        with contextlib.suppress(OSError):
            return " ".join(f"{value:.2f}" for value in os.getloadavg())
    return "unknown"


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def _output_of(*command: str) -> str:
    """What a program says of itself; empty where it is not there, fails or hangs."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


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
        seen: dict[int, int] = {}
        for number in range(_NUMBERS):
            seen[number & 1023] = number * 3 % 7
        for _ in range(_DOCUMENTS):
            json.loads(json.dumps(_DOCUMENT))
        _processes()
        return time.perf_counter() - started
    finally:
        if collects:
            gc.enable()


def _processes() -> None:
    command = [sys.executable, "-I", "-S", "-c", _ECHO]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        for _ in range(_WAKES):
            other.stdin.write(b".")
            if not other.stdout.read(1):
                raise BrokenPipeError("the process that answers ended early")
