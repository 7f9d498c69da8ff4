"""Processes that have imported everything: each forks the lives of runs, which saves half a second of processor time a
life.

1. A life is forked twice, so that it becomes a child of the process that asked for it. That one has to be a subreaper:
   see `lives.adopt_orphans`.
2. Lives of one parent have the same hash seed and the same addresses. There are `PARENTS`, which take turns: two lives
   in succession differ in both, as processes do that are started anew.
3. Nothing of callgate runs in a parent: each life opens its own store and starts its own sandbox. A life ends as Python
   ends.
4. A library that is loaded before libc is loaded by parents: see `power`.

As a program, ``python -m durable.kill.warm``, this file is such a parent: it reads a line of JSON for each life from
its standard input, and writes the number of the life's process.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import pkgutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Final

__all__ = ["PARENTS", "Life", "close", "pids", "start"]

PARENTS: Final = 3
"""Of each kind."""
_NEVER: Final = ("callgate.sandbox.docker", "callgate.runtime.telemetry", "callgate.runtime.trace")
"""Rooms whose packages no life has."""
_ALSO: Final = ("anyio._backends._asyncio", "anyio._backends._trio")
_PRELOAD: Final = "LD_PRELOAD"
_parents: Final[dict[tuple[str, str], list[subprocess.Popen[bytes]]]] = {}
"""By the interpreter, and the library that is loaded before libc. The next one to fork is the first."""


class Life:
    """A process that a parent has forked, a child of this process. Used like a `subprocess.Popen`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Exit code, or the negative number of the signal that ended it; None while it runs."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end, at most `timeout` seconds. Raises `subprocess.TimeoutExpired`."""
        end = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if end is not None and time.monotonic() > end:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
            time.sleep(0.002)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)


def start(python: str, folder: Path, program: str, environment: Mapping[str, str]) -> Life:
    """Start a life; its output and errors go to the files ``stdout`` and ``stderr`` of the folder, which exist.

    Args:
        python: the interpreter.
        folder: of the run.
        program: name of the program.
        environment: of the life.
    """
    parents = _parents.setdefault((python, environment.get(_PRELOAD, "")), [])
    if len(parents) < PARENTS:
        command = [python, "-m", "durable.kill.warm"]
        parents.insert(
            0, subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        )
    parent = parents.pop(0)
    parents.append(parent)
    assert parent.stdin is not None
    assert parent.stdout is not None
    asked = {"folder": str(folder), "program": program, "environment": dict(environment)}
    parent.stdin.write(json.dumps(asked).encode() + b"\n")
    return Life(int(parent.stdout.readline()))


def pids() -> set[int]:
    """Process ids of the parents."""
    return {parent.pid for parents in _parents.values() for parent in parents}


def close() -> None:
    """End the parents. The next life starts new ones."""
    for parents in _parents.values():
        for parent in parents:
            assert parent.stdin is not None
            parent.stdin.close()
        for parent in parents:
            with parent:
                pass
    _parents.clear()


def _imported() -> ModuleType:
    """Import what lives import, also late, as far as this Python has it. Returns `workload`."""
    names = [*_ALSO]
    for package in ("callgate.program", "callgate.runtime", "callgate.sandbox", "callgate.tools"):
        folders = importlib.import_module(package).__path__
        names += [module.name for module in pkgutil.walk_packages(folders, f"{package}.")]
    for name in names:
        if not name.startswith(_NEVER):
            with contextlib.suppress(ImportError):  # of an extra that is not installed
                importlib.import_module(name)
    return importlib.import_module("durable.kill.workload")


def _serve() -> None:
    """Fork a life for each line; returns, in the life, what it has to do, and in the parent at the end of the input."""
    workload = _imported()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a campaign that is interrupted closes the input
    gc.collect()
    gc.freeze()
    asked = None
    for line in sys.stdin.buffer:
        reading, writing = os.pipe()
        middle = os.fork()
        if not middle:
            life = os.fork()
            if life:
                os.write(writing, b"%d\n" % life)
                os._exit(0)
            asked = json.loads(line)
            break
        os.waitpid(middle, 0)  # from now on the life is a child of the campaign
        os.close(writing)
        sys.stdout.buffer.write(os.read(reading, 20))
        sys.stdout.buffer.flush()
        os.close(reading)
    if asked is None:
        return
    os.close(reading)
    os.close(writing)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    folder = Path(asked["folder"])
    _redirect(folder)
    os.environ.clear()
    os.environ.update(asked["environment"])
    tempfile.tempdir = None
    sys.exit(workload.carry_on(folder, asked["program"]))


def _redirect(folder: Path) -> None:
    for number, (name, flags) in enumerate(
        [(os.devnull, os.O_RDONLY), ("stdout", os.O_WRONLY), ("stderr", os.O_WRONLY | os.O_APPEND)]
    ):
        file = os.open(folder / name, flags)
        os.dup2(file, number)
        os.close(file)


if __name__ == "__main__":
    _serve()
