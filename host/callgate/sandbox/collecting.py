"""Takes what a program has left in /output, from a descriptor of that folder. Knows no guest.

Whatever is there was put there by an adversary, who may still be at it:

1. A name is opened as one step below its folder: the kernel follows no link and leaves no file system (openat2(2)).
2. Opening never waits, and only what the kernel calls a regular file is read.
3. Of a file, as many bytes are read as it had when it was opened, and no more than there is room for.
4. Folders, entries, and words about what is left out are bounded.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from functools import cache
from itertools import islice
from typing import Any

from .backend import Collected

__all__ = ["Seen", "collected"]

Seen = dict[str, tuple[int, int, int, int]]
"""The files that were there the last time: inode, size, and times of the last change of content and of anything."""

_OPENAT2 = 437  # of every architecture
# linux/openat2.h: NO_XDEV, NO_MAGICLINKS, NO_SYMLINKS, BENEATH
_RESOLVE = 0x01 | 0x02 | 0x04 | 0x08
_MOST_ENTRIES = 5000
"""Entries of all folders that are looked at, besides those of inputs; the tmpfs of a guest has fewer."""
_DEEPEST = 16
_NAME_CHARACTERS = 80
_SPECIAL = {
    stat.S_IFLNK: "symbolic links are not collected", stat.S_IFIFO: "FIFOs are not collected",
    stat.S_IFSOCK: "sockets are not collected",
}  # fmt: skip


@cache
def _syscall() -> Any:
    """The C library's ``syscall``, looked up at the first use: other systems can import this module."""
    function = ctypes.CDLL(None, use_errno=True).syscall
    function.restype = ctypes.c_long
    function.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t)
    return function


def collected(output: int, seen: Seen, inputs: frozenset[str], most: int, most_bytes: int) -> Collected:
    """The files that are new or have changed. Blocks: call it in a thread. Raises nothing.

    Args:
        output: an open directory.
        seen: what there was the last time; afterwards, what there is now.
        inputs: names that led to the program's own inputs.
        most: how many files.
        most_bytes: of all files.
    """
    search = _Search(seen, inputs, most, most_bytes)
    try:
        search.folder(output, "", 1)
    except OSError as error:  # of the folder itself
        search.leave("/output", f"the host could not read it: {error.strerror}")
    except MemoryError:
        search.leave("/output", "the host has no memory for its files")
    return Collected(tuple(search.files), tuple(search.left()))


class _Search:
    def __init__(self, seen: Seen, inputs: frozenset[str], most: int, most_bytes: int) -> None:
        self.files: list[tuple[str, bytes]] = []
        self._before = dict(seen)
        self._seen = seen
        seen.clear()
        self._inputs = inputs
        self._most = most
        self._room = most_bytes
        self._entries = _MOST_ENTRIES + len(inputs)
        self._left: dict[str, tuple[str, int]] = {}  # reason -> the first name, and how many

    def folder(self, fd: int, above: str, depth: int) -> None:
        """Collect what an open folder has. `above` is its path with a slash at the end."""
        with os.scandir(fd) as entries:
            names = sorted(entry.name for entry in islice(entries, self._entries + 1))
        for name in names:
            path = above + name
            if not self._entries:
                self.leave(path, f"only {_MOST_ENTRIES:,} files are looked at")
                return
            self._entries -= 1
            if not name.startswith("."):
                try:
                    self._entry(fd, name, path, depth)
                except OSError as error:
                    self.leave(path, f"the host could not read it: {error.strerror}")

    def _entry(self, above: int, name: str, path: str, depth: int) -> None:
        found = os.stat(name, dir_fd=above, follow_symlinks=False)
        kind = stat.S_IFMT(found.st_mode)
        if kind == stat.S_IFLNK and path in self._inputs:
            return
        if kind not in (stat.S_IFREG, stat.S_IFDIR):
            self.leave(path, _SPECIAL.get(kind, "devices are not collected"))
        elif not found.st_mode & stat.S_IRUSR:
            self.leave(path, "its mode lets nobody read it")
        elif kind == stat.S_IFDIR and depth == _DEEPEST:
            self.leave(path, f"folders are looked into {_DEEPEST} deep")
        else:
            fd = _opened(above, name)
            try:
                found = os.fstat(fd)
                if stat.S_ISDIR(found.st_mode):
                    self.folder(fd, f"{path}/", depth + 1)
                elif stat.S_ISREG(found.st_mode):
                    self._file(fd, path, found)
            finally:
                os.close(fd)

    def _file(self, fd: int, path: str, found: os.stat_result) -> None:
        state = found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
        self._seen[path] = state
        if self._before.get(path) == state:
            return
        if len(self.files) >= self._most:
            self.leave(path, "the run has as many artifacts as it may have (max_artifacts)")
        elif found.st_size > self._room:
            self.leave(
                f"{path} of {found.st_size:,} bytes", "the artifacts of the run leave no room (max_artifact_bytes)"
            )
        else:
            data = _read(fd, found.st_size)
            self._room -= len(data)
            self.files.append((path, data))

    def leave(self, path: str, reason: str) -> None:
        """Note that a file is left out, and why."""
        first, count = self._left.get(reason, (path, 0))
        self._left[reason] = first, count + 1

    def left(self) -> list[str]:
        """What was left out, one line for each reason."""
        lines = []
        for reason, (path, count) in self._left.items():
            shown = path.encode("utf-8", "replace").decode()
            shown = "".join(each if each.isprintable() else "?" for each in shown[:_NAME_CHARACTERS])
            others = f" and {count - 1:,} more were" if count > 1 else " was"
            lines.append(f"{shown}{others} not kept: {reason}")
        return lines


def _opened(folder: int, name: str) -> int:
    """Open a name in a folder, and nothing that is elsewhere. Raises `OSError`."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC
    how = struct.pack("=QQQ", flags, 0, _RESOLVE)  # struct open_how
    fd: int = _syscall()(_OPENAT2, folder, os.fsencode(name), how, len(how))
    if fd < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return fd


def _read(fd: int, size: int) -> bytes:
    """The first `size` bytes of a file, or all if it has become shorter."""
    data = os.read(fd, size)
    if len(data) == size:
        return data
    parts = [data]
    left = size - len(data)
    while left and (data := os.read(fd, left)):
        parts.append(data)
        left -= len(data)
    return b"".join(parts)
