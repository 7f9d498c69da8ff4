"""Appends lines to an audit log's file: one write for each line, whole or told as torn.

Several processes append to one file: with ``O_APPEND`` the kernel puts each write at the end, whole, and the position
afterwards says where the line ended. `AppendFile.look` sees whether the file was moved or removed; then lines go to a
new file. Nothing waits for the disk but `AppendFile.end`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import queue
import stat
import threading
from pathlib import Path
from typing import Any, Final

from callgate.errors import ConfigurationError
from callgate.portable import BINARY, NOCTTY, NONBLOCK

from .chain import MAX_LINE_BYTES, Chain, Keys, pieces_of, read_line

__all__ = ["AppendFile"]

_TELL: Final = 1000
"""Lost lines are counted up to this number."""


class AppendFile:
    """One writer of an audit log.

    Args:
        path: of the file; made if need be, with the mode 0600.
        keys: of the log.

    Raises:
        ConfigurationError: the file cannot be written.
    """

    def __init__(self, path: Path, keys: Keys) -> None:
        self._path = os.fspath(path)
        self._keys = keys
        self._head = ""
        self._inode: tuple[int, int] | None = None
        self._ended = False
        self._begin_process()
        try:
            self._open()
        except OSError as error:
            self._disk.end()
            raise ConfigurationError(f"the audit log {self._path!r} cannot be written: {error.strerror}") from None

    def _begin_process(self) -> None:
        """Begin in a process: a forked one has neither its parent's chain nor its thread, and its lock may be held."""
        self._lock = threading.Lock()
        self._disk = _Disk()
        self._fd = -1
        """-1 while there is no file; each line is lost then, and none goes to another file that got the number."""
        self._why_not = OSError(errno.ENOENT, "its file or its folder is gone")
        self._lost = 0
        self._torn: list[list[int]] = []
        self._pid = os.getpid()

    def _leave_parent(self) -> bool:
        """Whether this process was forked: then it has no file until it looks for one."""
        if os.getpid() == self._pid:
            return False
        if self._fd >= 0:
            os.close(self._fd)
        self._head = ""
        self._begin_process()
        return True

    def look(self) -> None:
        """Go on in a new file if the open one was moved away, as by logrotate, or removed. Where that cannot be opened,
        no line can be written until a later look can open it."""
        self._leave_parent()
        if self._stands():
            return
        with self._lock:
            if self._ended or self._stands():  # another thread was quicker
                return
            self._leave()
            try:
                self._open()
            except OSError as error:
                self._why_not = error

    def write(self, kind: str, fields: dict[str, Any]) -> None:
        """Append a line. Raises `OSError`; then the line is lost, and a later one tells how many were."""
        if self._leave_parent():
            self.look()
        with self._lock:
            try:
                if self._fd < 0:
                    raise OSError(self._why_not.errno, self._why_not.strerror)
                self._append(kind, fields)
            except Exception:
                self._lost = min(self._lost + 1, _TELL)
                raise

    def sync(self) -> None:
        """Have a thread write the file to the disk; all that wait meanwhile are one."""
        with self._lock:
            if self._fd >= 0:
                self._disk.sync(self._fd)

    def end(self) -> None:
        """End the chain, and wait until the file is on the disk. Later lines are lost, and their calls refused."""
        self._leave_parent()
        with self._lock:
            self._ended, self._why_not = True, OSError(errno.EBADF, "it is closed")
            self._leave()
        self._disk.end()

    def _stands(self) -> bool:
        """Whether the open file has its path."""
        try:
            status = os.stat(self._path)
        except OSError:
            return False
        return self._fd >= 0 and (status.st_dev, status.st_ino) == self._inode

    def _open(self) -> None:
        """Open the file, and begin a chain in it."""
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | BINARY | NOCTTY | NONBLOCK
        try:
            fd = os.open(self._path, flags, 0o600)
        except FileNotFoundError as error:
            raise OSError(error.errno, "its file or its folder is gone") from None
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            os.close(fd)
            raise OSError(errno.EINVAL, "it is not a file")
        if (inode := (status.st_dev, status.st_ino)) != self._inode:
            self._torn = []  # that was in another file
        self._fd, self._inode = fd, inode
        self._chain = Chain.new(self._keys)
        try:
            self._append("opened", {"follows": self._last(status.st_size), "head": self._head, "pid": self._pid})
        except BaseException:  # no chain begins with another line
            self._close()
            raise

    def _last(self, size: int) -> dict[str, Any] | None:
        """The last line in the file that is one of this log, and where it ends."""
        start = max(size - 2 * MAX_LINE_BYTES, 0)
        os.lseek(self._fd, start, os.SEEK_SET)
        data = os.read(self._fd, size - start)
        while data:
            row = data[data.rfind(b"\n", 0, -1) + 1 :]
            data = data[: -len(row)]
            for begins, piece in reversed(list(pieces_of(row))):
                if (line := read_line(piece, self._keys)) is not None:
                    return {"mac": line.mac, "ends": start + len(data) + begins + len(piece)}
        return None

    def _append(self, kind: str, fields: dict[str, Any]) -> None:
        if self._lost:
            fields = {**fields, "lost": self._lost, **({"torn": self._torn} if self._torn else {})}
        data, mac = self._chain.line(kind, fields)
        if len(data) > MAX_LINE_BYTES:
            data, mac = self._chain.line(kind, {**_short(fields), "cut": True})
        count = os.write(self._fd, data)
        ends = os.lseek(self._fd, 0, os.SEEK_CUR)
        if count < len(data) - 1:  # a line without its newline is whole
            self._torn = [*self._torn, [ends - count, count]][-20:]
            raise OSError(errno.ENOSPC, "there is no room for the whole line")
        self._chain.written(mac, ends - (count == len(data)))
        self._lost, self._torn = 0, []

    def _leave(self) -> None:
        """End the chain and leave the file, if there is one."""
        if self._fd < 0:
            return
        self._head = self._chain.after
        with contextlib.suppress(OSError):
            self._append("closed", {})
            self._head = self._chain.after
        self._close()

    def _close(self) -> None:
        self._disk.close(self._fd)
        self._fd = -1


class _Disk:
    """Writes files to the disk and closes them, in a thread: an event loop must not wait for a disk."""

    def __init__(self) -> None:
        self._wanted: queue.SimpleQueue[tuple[int, bool] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="callgate audit log", daemon=True)
        self._thread.start()

    def sync(self, fd: int) -> None:
        self._wanted.put((fd, False))

    def close(self, fd: int) -> None:
        """Write it to the disk for the last time. From now on the descriptor belongs to the thread."""
        self._wanted.put((fd, True))

    def end(self) -> None:
        """Wait until all is done, up to 10 s."""
        self._wanted.put(None)
        self._thread.join(10)

    def _work(self) -> None:
        while True:
            wanted = [self._wanted.get()]
            while not self._wanted.empty():
                wanted.append(self._wanted.get())
            files = [each for each in wanted if each is not None]
            for fd in {fd for fd, _ in files}:
                with contextlib.suppress(OSError):  # the next write fails, too, and is told
                    os.fsync(fd)
            for fd, closed in files:
                if closed:
                    os.close(fd)
            if None in wanted:
                return


def _short(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of a line that would be too long, without its long texts."""
    return {name: value for name, value in fields.items() if not isinstance(value, (str, dict, list)) or
            len(str(value)) <= 1000}  # fmt: skip
