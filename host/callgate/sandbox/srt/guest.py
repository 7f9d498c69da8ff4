"""A guest under srt: its end and its usage."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import tempfile
from pathlib import Path

import anyio

from callgate.sandbox.backend import GuestExit, Usage, guest_command
from callgate.sandbox.pipes import Pipes
from callgate.sandbox.process import Child, ChildGuest

__all__ = ["SrtGuest", "Words"]

_LINUX = sys.platform == "linux"
_SAYS_SECONDS = 2.0
_GONE_SECONDS = 10.0
_MOST_WORDS = 1 << 16


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

    async def line(self, word: str, seconds: float) -> str | None:
        """The rest of the line that begins with `word`, as soon as it is there; ``None`` if it does not come."""
        with anyio.move_on_after(seconds):
            while not (found := re.search(rb"^%s (.*)\n" % word.encode(), self.said, re.MULTILINE)):
                await anyio.wait_readable(self._fd)
                data = os.read(self._fd, _MOST_WORDS)
                if not data or len(self.said) > _MOST_WORDS:
                    return None
                self.said += data
            return found[1].decode()
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
        pid: the guest's number, as its parent says it.
        words: what its parent says; closed at the end.
    """

    def __init__(
        self, child: Child, pipes: Pipes, scratch: tempfile.TemporaryDirectory[str], pid: int, words: Words
    ) -> None:
        super().__init__(child, pipes, scratch)
        self._words = words
        self._last: Usage | None = None
        self._ended: GuestExit | None = None
        if _LINUX:  # there it counts in a pid namespace of its own
            pid = _python_below(child.pid)
        self.began(pid, os.pidfd_open(pid) if _LINUX and pid else -1)
        self.usage()

    def usage(self) -> Usage | None:
        if not self.killed:
            self._last = super().usage() or self._last
        return self._last

    def kill(self) -> None:
        """See `Guest`. srt's own processes and, on Linux, the whole pid namespace go with it."""
        self.usage()
        super().kill()
        if not _LINUX and not self._child.has_ended():  # it may lead a group of its own by now
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, 9)

    async def end(self) -> None:
        """See `ChildGuest`. Where the guest has ended by itself, its parent says how."""
        if not self.killed and (self._pipes.hung_up or not self.alive):
            said = await self._words.line("ended", _SAYS_SECONDS)
            if said is not None:
                told = json.loads(said)
                self._ended = GuestExit(told["status"], Usage(told["cpu"], told["peak"]))
        self.kill()
        if self._pidfd >= 0:
            with anyio.move_on_after(_GONE_SECONDS):
                await anyio.wait_readable(self._pidfd)
        await super().end()
        self._words.close()

    def told(self, exit: GuestExit) -> GuestExit:
        """How the guest ended: as its parent said, or else as srt did."""
        return self._ended or GuestExit(exit.status, self._last)


def _python_below(pid: int) -> int:
    """The guest among the processes below srt: the one that runs this Python and has nothing below itself. 0 if there
    is none."""
    python = guest_command("")[0].encode()
    todo = [pid]
    while todo:
        above = todo.pop()
        with contextlib.suppress(OSError):
            below = Path(f"/proc/{above}/task/{above}/children").read_text().split()
            todo += map(int, below)
            if not below and Path(f"/proc/{above}/cmdline").read_bytes().partition(b"\0")[0] == python:
                return above
    return 0
