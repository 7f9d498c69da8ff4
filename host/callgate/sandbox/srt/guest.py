"""A guest under srt: its end and its usage."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
from pathlib import Path

import anyio

from callgate.sandbox.backend import GuestExit, Usage
from callgate.sandbox.pipes import Pipes
from callgate.sandbox.process import Child, ChildGuest

__all__ = ["SrtGuest", "Words", "number_here"]

_LINUX = sys.platform == "linux"
_SAYS_SECONDS = 2.0
_GONE_SECONDS = 10.0
_MOST_WORDS = 1 << 16
_ENDED = r"ended (-?\d{1,3}) (\d{1,9}\.\d{6}) (\d{1,18})"


class Words:
    """What srt's processes and the guest's parent say, line by line.

    Args:
        fd: where they are read.
        life: the other end of their stdin, of which nothing is read: the guest ends when it is closed.
    """

    def __init__(self, fd: int, life: int) -> None:
        self._fd = fd
        self._life = life
        self.said = b""
        os.set_blocking(fd, False)

    async def line(self, pattern: str, seconds: float) -> tuple[str, ...] | None:
        """Groups of the line ``callgate-`` and `pattern`, as soon as it is there; ``None`` if it does not come.

        Keeps the last `_MOST_WORDS` bytes alone: modules that are imported ahead may say much.
        """
        line = re.compile(rb"^callgate-%s\n" % pattern.encode(), re.MULTILINE)
        with anyio.move_on_after(seconds):
            while not (found := line.search(self.said)):
                await anyio.wait_readable(self._fd)
                try:
                    data = os.read(self._fd, _MOST_WORDS)
                except BlockingIOError:
                    continue
                if not data:
                    return None
                self.said = (self.said + data)[-_MOST_WORDS:]
            return tuple(group.decode() for group in found.groups())
        return None

    def close(self) -> None:
        os.close(self._fd)
        os.close(self._life)


class SrtGuest(ChildGuest):
    """A Python below srt's own processes.

    Args:
        child: srt.
        pipes: the host's ends of the guest's named pipes.
        scratch: the folder with the guest's folder and settings.
        pid: the guest's number here; 0 if unknown.
        pidfd: its pidfd, which is closed at the end; -1 if it has none.
        words: what its parent says; closed at the end.
    """

    def __init__(
        self, child: Child, pipes: Pipes, scratch: tempfile.TemporaryDirectory[str], pid: int, pidfd: int, words: Words
    ) -> None:
        super().__init__(child, pipes, scratch)
        self._words = words
        self._last: Usage | None = None
        self._ended: GuestExit | None = None
        self.began(pid, pidfd)
        self.usage()

    def usage(self) -> Usage | None:
        if not self.killed:
            self._last = super().usage() or self._last
        return self._last

    def kill(self) -> None:
        """See `Guest`. srt's own processes and, on Linux, the whole pid namespace go with it."""
        self.usage()
        super().kill()
        if not _LINUX and self.pid > 0 and not self._child.has_ended():  # it may lead a group of its own by now
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, 9)

    async def end(self) -> None:
        """See `ChildGuest`. Where the guest has ended by itself, its parent says how."""
        if not self.killed and (self._pipes.hung_up or not self.alive):
            said = await self._words.line(_ENDED, _SAYS_SECONDS)
            if said is not None:  # it was seen to use so much at least
                last = self._last or Usage(0.0, 0)
                used = Usage(max(float(said[1]), last.cpu_seconds), max(int(said[2]), last.peak_memory_bytes))
                self._ended = GuestExit(int(said[0]), used)
        self.kill()
        if self._pidfd >= 0:
            with anyio.move_on_after(_GONE_SECONDS):
                await anyio.wait_readable(self._pidfd)
        await super().end()
        self._words.close()  # which ends what is left of srt's process group: see `backend.WATCHED`

    def told(self, exit: GuestExit) -> GuestExit:
        """How the guest ended: as its parent said, or else as srt did."""
        return self._ended or GuestExit(exit.status, self._last, exit.reason)


def number_here(pid: int, srt: int) -> int:
    """The number that a process below srt has in this process's pid namespace, on Linux. 0 if it is not found.

    Args:
        pid: its number in its own namespace: the innermost, where srt makes several.
        srt: the process that everything else is below.
    """
    found: list[tuple[int, int]] = []  # how many namespaces it is in, and its number here
    todo = [srt]
    while todo:
        above = todo.pop()
        with contextlib.suppress(OSError):
            todo += map(int, Path(f"/proc/{above}/task/{above}/children").read_text().split())
            numbers = re.search(r"^NSpid:(.*)", Path(f"/proc/{above}/status").read_text(), re.MULTILINE)
            if numbers and (inner := numbers[1].split())[-1:] == [str(pid)]:
                found.append((len(inner), above))
    return max(found, default=(0, 0))[1]
