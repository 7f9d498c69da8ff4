"""One child process for each guest, started by any command: what a sandbox of your own, made of a command, begins with.

Confines nothing by itself. Memory and processor time of a child are limited, nothing else is.
"""

from __future__ import annotations

import contextlib
import copy
import math
import os
import resource
import subprocess
import sys
import tempfile
from typing import Self

import anyio

from callgate.errors import SandboxCrashed, SandboxUnavailable

from .backend import Allowance, GuestExit, Usage, guest_command, inherited_environment, python_here
from .pipes import Pipes, ProcessGuest, make_pipes

__all__ = ["ChildGuest", "ProcessBackend"]

_GONE_SECONDS = 10.0


class ChildGuest(ProcessGuest):
    """A child process that reads the wire on its stdin."""

    def __init__(
        self, process: subprocess.Popen[bytes], pipes: Pipes, scratch: tempfile.TemporaryDirectory[str]
    ) -> None:
        super().__init__(pipes)
        self._process = process
        self._scratch = scratch
        self._closing = anyio.Lock()
        self.began(process.pid, os.pidfd_open(process.pid))

    def kill(self) -> None:
        if self._exit is None:  # afterwards the number may belong to another process
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, 9)  # it leads a session of its own
        self._pipes.close()

    async def aclose(self) -> GuestExit:
        with anyio.CancelScope(shield=True):
            async with self._closing:  # the run and the backend may both end it
                await self._end()
        assert self._exit is not None
        return self._exit

    async def _end(self) -> None:
        if self._exit is None:
            self.kill()
            with anyio.move_on_after(_GONE_SECONDS):
                await anyio.wait_readable(self._pidfd)
            # `Popen.poll` would throw away what the kernel says of its usage
            pid, status, spent = os.wait4(self.pid, os.WNOHANG)  # noqa: ASYNC222 (does not wait)
            if not pid:
                raise SandboxCrashed(f"process {self.pid} was killed and is still there after {_GONE_SECONDS:g} s")
            self._process.returncode = os.waitstatus_to_exitcode(status)
            usage = Usage(spent.ru_utime + spent.ru_stime, spent.ru_maxrss * 1024)
            self.exited(GuestExit(self._process.returncode, usage))
            self._scratch.cleanup()


class ProcessBackend:
    """Child processes. Override `name`, `description` and `command`."""

    name = "process"
    description = "a bare child process: override `command` with one that confines it"
    no_files = "a plain child process has no files: use sandbox='jail' or 'docker'"
    python = python_here()

    def __init__(self) -> None:
        self._guests: list[ChildGuest] = []
        self._replays = False

    def command(self, code: str) -> list[str]:
        """The command of a guest: one that ends up as this Python, which runs `code`, in the same process or in the
        same session, with the same stdin, stdout and stderr."""
        return guest_command(code, executable=sys.executable)

    def replaying(self) -> Self:
        """See `Backend`."""
        other = copy.copy(self)
        other._guests, other._replays = [], True
        return other

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        with anyio.CancelScope(shield=True):
            for guest in self._guests:
                await guest.aclose()

    async def open(self, allowance: Allowance) -> ChildGuest:
        def limit() -> None:
            cpu = math.ceil(allowance.cpu_seconds)
            resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 1))
            resource.setrlimit(resource.RLIMIT_AS, (allowance.memory_bytes + (64 << 20),) * 2)
            resource.setrlimit(resource.RLIMIT_FSIZE, (allowance.max_file_bytes,) * 2)

        command = self.command("import runpy; runpy.run_module('callgate_guest', run_name='__main__')")
        scratch = tempfile.TemporaryDirectory(prefix=f"callgate-{self.name}-")
        pipes, (stdin, stdout, stderr) = make_pipes()
        try:
            process = subprocess.Popen(  # noqa: ASYNC220 (a fork and an exec)
                command, stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=True, cwd=scratch.name,
                preexec_fn=limit, env=inherited_environment(self._replays),
            )  # fmt: skip
        except BaseException as error:
            pipes.close()
            scratch.cleanup()
            if isinstance(error, FileNotFoundError):
                raise SandboxUnavailable(f"sandbox {self.name!r} needs {command[0]!r}, which is not here") from error
            raise
        finally:
            for fd in (stdin, stdout, stderr):
                os.close(fd)
        guest = ChildGuest(process, pipes, scratch)
        self._guests = [each for each in self._guests if each._exit is None] + [guest]
        return guest
