"""One child process for each guest, started by any command: what a sandbox of your own, made of a command, begins with.

Confines nothing by itself. The processor time of a child is limited, and its memory, but for macOS; nothing else is.
"""

from __future__ import annotations

import contextlib
import copy
import glob
import logging
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Self

import anyio
import anyio.to_thread

from callgate.errors import SandboxCrashed, SandboxUnavailable

from .backend import Allowance, GuestExit, Usage, guest_command, inherited_environment, python_here
from .pipes import Pipes, ProcessGuest, make_pipes

__all__ = [
    "Child", "ChildGuest", "ProcessBackend", "close_all", "remove", "remove_abandoned", "remove_scratch",
    "scratch_folder", "started",
]  # fmt: skip

logger = logging.getLogger("callgate")

_GONE_SECONDS = 10.0
_LOOK_SECONDS = 0.004
"""How often a child that was killed is looked at, at most: macOS has no pidfds to wait for."""
_REMOVE_SECONDS = (0.0, 0.05, 0.2, 1.0)
_RM_SECONDS = 60.0
_PEAK_UNIT = 1 if sys.platform == "darwin" else 1024
"""Bytes in which getrusage(2) counts memory."""


def scratch_folder(name: str) -> tempfile.TemporaryDirectory[str]:
    """A new folder for a guest of the sandbox `name`; `remove` removes it. Blocks shortly."""
    folder = tempfile.TemporaryDirectory(prefix=f"callgate-{name}-{os.getpid()}-", ignore_cleanup_errors=True)
    os.chmod(folder.name, 0o700)  # whatever the umask
    return folder


def remove(folder: str) -> bool:
    """Remove a folder, whatever a program that has ended has put there. Returns whether it is gone.

    `tempfile.TemporaryDirectory.cleanup` is not for this: a tree that is deeper than Python's recursion stops it, and
    before Python 3.12.1 it follows symbolic links when it changes modes. Blocks: call it in a thread.
    """
    for pause in _REMOVE_SECONDS:
        with contextlib.suppress(OSError, RecursionError):
            shutil.rmtree(folder)
        if not os.path.lexists(folder):
            return True
        time.sleep(pause)  # the last processes of the guest may just be ending
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            for command in (["chmod", "-R", "u+rwx"], ["rm", "-rf"]):  # neither follows links, nor minds the depth
                subprocess.run(
                    [*command, "--", folder], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False,
                    timeout=_RM_SECONDS,
                )  # fmt: skip
    return not os.path.lexists(folder)


async def remove_scratch(scratch: tempfile.TemporaryDirectory[str]) -> None:
    """Remove a guest's folder without blocking the event loop, and tell its owner. Shielded from cancellation."""
    with anyio.CancelScope(shield=True):
        if await anyio.to_thread.run_sync(remove, scratch.name):
            scratch.cleanup()
        else:
            logger.warning("the folder %s of a guest could not be removed: the next start tries again", scratch.name)


def remove_abandoned(name: str) -> None:
    """Remove this user's folders of guests whose host has been killed."""
    prefix = f"callgate-{name}-"
    for folder in Path(tempfile.gettempdir()).glob(f"{glob.escape(prefix)}*-*"):
        host, _, rest = folder.name.removeprefix(prefix).partition("-")
        if not host.isdecimal() or "-" in rest:  # another sandbox's, whose name begins like this one's
            continue
        with contextlib.suppress(OSError):
            if folder.lstat().st_uid == os.geteuid() and not _is_there(int(host)):
                remove(str(folder))


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


class Child:
    """A child process that leads a session of its own: whether it has ended, how, and what it used.

    Attributes:
        pid: its number.
        exit: how it ended; ``None`` while it lives, or nobody has asked.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.pid = process.pid
        self.exit: GuestExit | None = None

    def lives(self) -> bool:
        """Ask the kernel. Never waits. On Linux a process that has ended keeps its number, so that `kill` still reaches
        what it has started; elsewhere it is as after `has_ended`."""
        if sys.platform == "linux" and self.exit is None:
            with contextlib.suppress(ChildProcessError):  # this process ignores SIGCHLD
                return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        return not self.has_ended()

    def has_ended(self) -> bool:
        """Ask the kernel, which forgets a process that has ended. Never waits."""
        if self.exit is None:
            try:
                # `Popen.poll` would throw away what the kernel says of its usage
                pid, status, spent = os.wait4(self.pid, os.WNOHANG)
            except ChildProcessError:  # this process ignores SIGCHLD
                self._process.returncode = 0  # or Popen would go on looking for the number
                self.exit = GuestExit(None, None, "nobody knows how it ended, since SIGCHLD is ignored")
                return True
            if pid:
                self._process.returncode = code = os.waitstatus_to_exitcode(status)
                self.exit = GuestExit(code, Usage(spent.ru_utime + spent.ru_stime, spent.ru_maxrss * _PEAK_UNIT))
        return self.exit is not None

    async def end(self, seconds: float) -> bool:
        """Wait for its end, so long at most. Returns whether it came."""
        pause = _LOOK_SECONDS / 16
        until = anyio.current_time() + seconds
        while not self.has_ended() and anyio.current_time() < until:
            await anyio.sleep(pause)
            pause = min(2 * pause, _LOOK_SECONDS)
        return self.exit is not None

    def kill(self) -> None:
        """Kill it with all of its process group, unless it has ended and `has_ended` was asked."""
        if self.exit is None:  # afterwards the number may belong to another process
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, 9)


def started(
    name: str, command: list[str], stdio: list[int], *, folder: str, env: Mapping[str, str],
    limit: Callable[[], None] | None = None,
) -> Child:  # fmt: skip
    """Start a command in a session of its own, and close `stdio`: its stdin, stdout and stderr.

    Args:
        name: of the sandbox that needs it.
        folder: its working directory.
        env: its environment.
        limit: called in the new process before the command.

    Raises:
        SandboxUnavailable: there is no such command.
        OSError: the process could not be made.
    """
    stdin, stdout, stderr = stdio
    try:
        process = subprocess.Popen(
            command, stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=True, cwd=folder, preexec_fn=limit,
            env=env,
        )  # fmt: skip
    except FileNotFoundError as error:
        raise SandboxUnavailable(f"sandbox {name!r} needs {command[0]!r}, which is not here") from error
    finally:
        for fd in {stdin, stdout, stderr}:
            os.close(fd)
    return Child(process)


class ChildGuest(ProcessGuest):
    """A guest that is a child process.

    Args:
        child: the process, or the first of several.
        pipes: the host's ends of its pipes.
        scratch: its folder, which is removed at its end.
    """

    def __init__(self, child: Child, pipes: Pipes, scratch: tempfile.TemporaryDirectory[str]) -> None:
        super().__init__(pipes)
        self._child = child
        self._scratch = scratch
        self._closing = anyio.Lock()

    @property
    def exit(self) -> GuestExit | None:
        """How it ended, once `aclose` has returned."""
        return self._exit

    @property
    def alive(self) -> bool:
        return super().alive if self._pidfd >= 0 else self._exit is None and self._child.lives()

    def kill(self) -> None:
        super().kill()
        self._child.kill()
        self._pipes.close()

    async def aclose(self) -> GuestExit:
        with anyio.CancelScope(shield=True):
            async with self._closing:  # the run and the backend may both end it
                if self._exit is None:
                    await self.end()
        assert self._exit is not None
        return self._exit

    async def end(self) -> None:
        """Kill it, wait for its end, and remove its folder. Raises `SandboxCrashed` if it stays."""
        self.kill()
        if not await self._child.end(_GONE_SECONDS) or self._child.exit is None:
            raise SandboxCrashed(f"process {self.pid} was killed and is still there after {_GONE_SECONDS:g} s")
        self.exited(self.told(self._child.exit))
        await remove_scratch(self._scratch)

    def told(self, exit: GuestExit) -> GuestExit:
        """How the guest ended, from how the child did."""
        return exit


async def close_all(guests: Iterable[ChildGuest]) -> None:
    """Close guests: all of them, even if one cannot be closed. Shielded from cancellation."""
    with anyio.CancelScope(shield=True):
        async with contextlib.AsyncExitStack() as closing:
            for guest in guests:
                closing.push_async_callback(guest.aclose)


class ProcessBackend:
    """Child processes, which read the wire on their stdin. Override `name`, `description` and `command`."""

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
        await anyio.to_thread.run_sync(remove_abandoned, self.name)
        return self

    async def __aexit__(self, *_: object) -> None:
        await close_all(self._guests)

    async def open(self, allowance: Allowance) -> ChildGuest:
        """See `Backend`."""
        import resource  # which Windows does not have

        def limit() -> None:
            cpu = math.ceil(allowance.cpu_seconds)
            resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 1))
            if sys.platform != "darwin":  # which refuses it: https://github.com/python/cpython/issues/78783
                resource.setrlimit(resource.RLIMIT_AS, (allowance.memory_bytes + (64 << 20),) * 2)
            resource.setrlimit(resource.RLIMIT_FSIZE, (allowance.max_file_bytes,) * 2)

        command = self.command("import runpy; runpy.run_module('callgate_guest', run_name='__main__')")
        scratch = scratch_folder(self.name)
        pipes, stdio = make_pipes()
        try:
            env = inherited_environment(self._replays)
            child = started(self.name, command, stdio, folder=scratch.name, env=env, limit=limit)
        except BaseException:
            pipes.close()
            await remove_scratch(scratch)
            raise
        guest = ChildGuest(child, pipes, scratch)
        guest.began(child.pid, -1)
        self._guests = [each for each in self._guests if each.exit is None] + [guest]
        return guest
