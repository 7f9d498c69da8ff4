"""No sandbox at all: a bare child process, for debugging. Only by its name, and with a warning."""

from __future__ import annotations

import contextlib
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import anyio

import callgate_guest.wire
from callgate.errors import SandboxCrashed

from .backend import Allowance, GuestExit, Stream, Usage, python_here
from .pipes import Pipes, open_pipes

__all__ = ["UnsafeBackend", "UnsandboxedWarning"]

_GUEST_ROOT = str(Path(callgate_guest.wire.__file__).parent.parent)
_GONE_SECONDS = 10.0


class UnsandboxedWarning(UserWarning):
    """A program runs with everything this user may do."""


class UnsafeGuest:
    """A plain child process that reads the wire on its stdin."""

    def __init__(
        self, process: subprocess.Popen[bytes], pipes: Pipes, scratch: tempfile.TemporaryDirectory[str]
    ) -> None:
        self._process = process
        self._pipes = pipes
        self._scratch = scratch
        self._exit: GuestExit | None = None
        self._spent: Usage | None = None
        self.pid = process.pid

    async def send(self, data: bytes) -> None:
        await self._pipes.send(data)

    async def receive(self) -> tuple[Stream, bytes]:
        return await self._pipes.receive()

    @property
    def alive(self) -> bool:
        return self._poll() is None

    async def healthy(self) -> bool:
        return self.alive

    def unread_output(self) -> bytes:
        return self._pipes.unread_output()

    def _poll(self) -> int | None:
        """The exit status, once it has one. `Popen.poll` would throw away what the kernel says of its usage."""
        if self._process.returncode is None:
            pid, status, spent = os.wait4(self.pid, os.WNOHANG)
            if pid:
                self._process.returncode = os.waitstatus_to_exitcode(status)
                self._spent = Usage(spent.ru_utime + spent.ru_stime, spent.ru_maxrss * 1024)
        return self._process.returncode

    def usage(self) -> Usage | None:
        if self._spent is not None:
            return self._spent
        try:
            cpu = time.clock_gettime(~self.pid << 3 | 2)
            with open(f"/proc/{self.pid}/status") as status:
                peak = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:"))
            return Usage(cpu, peak)
        except (OSError, StopIteration):
            return None

    def kill(self) -> None:
        if self._process.returncode is None:  # afterwards its number may be somebody else's
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, 9)  # it leads a session of its own
        self._pipes.close()

    async def aclose(self) -> GuestExit:
        if self._exit is None:
            self.kill()
            with anyio.CancelScope(shield=True), anyio.move_on_after(_GONE_SECONDS):
                while self._poll() is None:  # noqa: ASYNC110 (nothing tells of the end but asking)
                    await anyio.sleep(0.001)
            if self._process.returncode is None:
                raise SandboxCrashed(f"process {self.pid} was killed and is still there after {_GONE_SECONDS:g} s")
            self._exit = GuestExit(self._process.returncode, self._spent)
            self._scratch.cleanup()
        return self._exit


class UnsafeBackend:
    """Child processes that nothing confines. Their memory and processor time are limited, nothing else is."""

    name = "unsafe"
    python = python_here()
    description = "NOTHING confines the program: it may do whatever this user may do"

    def __init__(self) -> None:
        self._guests: list[UnsafeGuest] = []

    async def __aenter__(self) -> UnsafeBackend:
        warnings.warn("sandbox='unsafe': programs run with all of this user's rights", UnsandboxedWarning, stacklevel=3)
        return self

    async def __aexit__(self, *_: object) -> None:
        with anyio.CancelScope(shield=True):
            for guest in self._guests:
                await guest.aclose()

    async def open(self, allowance: Allowance) -> UnsafeGuest:
        def limit() -> None:
            cpu = math.ceil(allowance.cpu_seconds)
            resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 1))
            resource.setrlimit(resource.RLIMIT_AS, (allowance.memory_bytes + (64 << 20),) * 2)
            resource.setrlimit(resource.RLIMIT_FSIZE, (allowance.max_file_bytes,) * 2)

        start = "import runpy; runpy.run_module('callgate_guest', run_name='__main__')"
        code = f"import sys; sys.path.append({_GUEST_ROOT!r}); {start}"
        scratch = tempfile.TemporaryDirectory(prefix="callgate-unsafe-")
        process = subprocess.Popen(  # noqa: ASYNC220 (a fork and an exec)
            [sys.executable, "-I", "-X", "utf8", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, start_new_session=True, cwd=scratch.name, preexec_fn=limit,
        )  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        fds = [os.dup(stream.fileno()) for stream in (process.stdout, process.stderr, process.stdin)]
        for stream in (process.stdout, process.stderr, process.stdin):
            stream.close()
        for fd in fds:
            os.set_blocking(fd, False)
        guest = UnsafeGuest(process, open_pipes(*fds), scratch)
        self._guests = [each for each in self._guests if each._exit is None] + [guest]
        return guest
