"""Appends lines to an audit log's file: one write for each line, whole or told as torn.

Several processes append to one file: with ``O_APPEND`` the kernel puts each write at the end, whole, and the position
afterwards says where the line ended.
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

from .chain import MAX_LINE_BYTES, Chain, Keys, read_line

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
        self._path = path
        self._keys = keys
        self._lock = threading.Lock()
        self._fd = -1
        """-1 while there is no file; each write fails then, and none goes to another file that got the number."""
        self._inode: tuple[int, int] | None = None
        self._head = ""
        self._lost = 0
        self._torn: list[list[int]] = []
        try:
            self._open()
        except OSError as error:
            raise ConfigurationError(f"the audit log {str(path)!r} cannot be written: {error.strerror}") from None

    def _open(self) -> None:
        """Open the file, and begin a chain in it."""
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
        self._fd, before, self._inode, self._pid = -1, self._inode, None, os.getpid()
        fd = os.open(self._path, flags, 0o600)
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            os.close(fd)
            raise OSError(errno.EINVAL, "it is not a file")
        self._fd, self._inode = fd, (status.st_dev, status.st_ino)
        if self._inode != before:
            self._torn = []  # that was in another file
        self._chain = Chain.new(self._keys)
        self._to_sync: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._syncing = threading.Thread(target=self._sync_all, args=(self._fd, self._to_sync), daemon=True)
        self._syncing.start()
        try:
            self._write("opened", {"follows": self._last(status.st_size), "head": self._head, "pid": self._pid})
        except OSError:  # no chain begins with another line
            self._close()
            raise

    def _last(self, size: int) -> dict[str, Any] | None:
        """The last line in the file that is one of this log, and where it ends."""
        start = max(size - 2 * MAX_LINE_BYTES, 0)
        data = os.pread(self._fd, size - start, start)
        end = len(data)
        while (end := data.rfind(b"\n", 0, end) + 1) > 0:
            begin = data.rfind(b"\n", 0, end - 1) + 1
            if (line := read_line(data[begin:end], self._keys)) is not None:
                return {"mac": line.mac, "ends": start + end}
            end = begin
        return None

    def write(self, kind: str, fields: dict[str, Any]) -> None:
        """Append a line. Raises `OSError`; then the line is lost, and a later one tells how many were."""
        with self._lock:
            if self._leave_parent():
                self._open()
            self._write(kind, fields)

    def _leave_parent(self) -> bool:
        """Whether this process was forked: then the parent's chain is not its own, and it begins another."""
        if os.getpid() == self._pid:
            return False
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._inode, self._pid, self._head = -1, None, os.getpid(), ""
        self._lost, self._torn = 0, []
        return True

    def _write(self, kind: str, fields: dict[str, Any]) -> None:
        if self._lost:
            fields = {**fields, "lost": self._lost, **({"torn": self._torn} if self._torn else {})}
        data, mac = self._chain.line(kind, fields)
        if len(data) > MAX_LINE_BYTES:
            data, mac = self._chain.line(kind, {**_short(fields), "cut": True})
        begun = b"\n" if self._torn else b""
        try:
            if self._fd < 0:
                raise OSError(errno.ENOENT, "its file or its folder is gone")
            count = os.write(self._fd, begun + data)
            ends = os.lseek(self._fd, 0, os.SEEK_CUR)
        except OSError:
            self._lost = min(self._lost + 1, _TELL)
            raise
        if count < len(begun) + len(data):
            self._lost = min(self._lost + 1, _TELL)
            written = count - (len(begun) if count else 0)
            self._torn = [*self._torn, [ends - written, written]][-20:]
            raise OSError(errno.ENOSPC, "there is no room for the whole line")
        self._chain.written(mac, ends)
        self._lost, self._torn = 0, []

    def renewed(self) -> None:
        """Go on in a new file if the old one was moved away, as by logrotate. Raises `OSError`: until a later run can
        open the file, no line can be written."""
        if self._stands():
            return
        with self._lock:
            if self._stands():  # another thread was quicker
                return
            if not self._leave_parent() and self._fd >= 0:
                self._head = self._chain.after
                self.end()
            self._open()

    def _stands(self) -> bool:
        """Whether the open file has its path."""
        try:
            status = os.stat(self._path)
        except OSError:
            return False
        return self._fd >= 0 and (status.st_dev, status.st_ino) == self._inode

    def sync(self) -> None:
        """Have a thread write the file to the disk; all that wait meanwhile are one."""
        self._to_sync.put(True)

    @staticmethod
    def _sync_all(fd: int, wanted: queue.SimpleQueue[bool]) -> None:
        while True:
            go_on = wanted.get()
            while not wanted.empty():
                go_on = wanted.get() and go_on
            with contextlib.suppress(OSError):  # the next write fails, too, and is told
                os.fsync(fd)
            if not go_on:
                return

    def end(self) -> None:
        """End the chain, and write the file to the disk."""
        if self._leave_parent() or self._fd < 0:
            return
        with contextlib.suppress(OSError):
            self._write("closed", {})
        self._close()

    def _close(self) -> None:
        self._to_sync.put(False)
        self._syncing.join(10)
        os.close(self._fd)
        self._fd = -1


def _short(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of a line that would be too long, without its long texts."""
    return {name: value for name, value in fields.items() if not isinstance(value, (str, dict, list)) or
            len(str(value)) <= 1000}  # fmt: skip
