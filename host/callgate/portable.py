"""System calls that are not the same on all systems: flags of files, locks, descriptors. Everything else in callgate's
portable rooms calls what every system has; the sandbox's rooms call Linux.

Linux runs all of this. What stands here for Windows follows the documentation of Python and of Microsoft's C library,
and was never run there.
"""

from __future__ import annotations

import os
import sys
from typing import Final

__all__ = ["BINARY", "NOCTTY", "NOFOLLOW", "NONBLOCK", "duplicate", "lock", "most_files", "sync_folder"]

NONBLOCK: Final[int] = getattr(os, "O_NONBLOCK", 0)
"""Flag for `os.open`: do not wait for the other end of a FIFO. Windows has no FIFOs in its file system."""
NOFOLLOW: Final[int] = getattr(os, "O_NOFOLLOW", 0)
"""Flag for `os.open`: refuse a symbolic link. Windows follows it."""
NOCTTY: Final[int] = getattr(os, "O_NOCTTY", 0)
"""Flag for `os.open`: a terminal does not become the process's own. Windows has no such thing."""
BINARY: Final[int] = getattr(os, "O_BINARY", 0)
"""Flag for `os.open`: bytes are written as they are. Without it, Windows writes each newline as two bytes."""

_LOCKED_BYTE: Final = (1 << 31) - 1
"""Windows locks bytes, and nobody else can read a locked byte: this one is behind the end of every file of ours."""


def lock(descriptor: int) -> bool:
    """Lock a file until its descriptor is closed, without waiting. `flock`, and on Windows `msvcrt.locking`.

    Args:
        descriptor: of the file, opened for reading and writing.

    Returns:
        False if another descriptor holds the lock, in this process or in another.

    Raises:
        OSError: the file system has no locks.
    """
    if sys.platform == "win32":
        import msvcrt

        position = os.lseek(descriptor, 0, os.SEEK_CUR)
        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        finally:
            os.lseek(descriptor, position, os.SEEK_SET)
    else:
        import fcntl

        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def duplicate(descriptor: int) -> int:
    """Duplicate a descriptor. The new one is above 2, whichever of the standard ones are closed, and children do not
    inherit it.

    Raises:
        OSError: the descriptor is closed, or there are too many.
    """
    low = []
    try:
        while (own := os.dup(descriptor)) <= 2:
            low.append(own)
    finally:
        for each in low:
            os.close(each)
    os.set_inheritable(own, False)  # on Windows, copies of the standard ones are
    return own


def most_files() -> int | None:
    """The number of descriptors that this process may have open; ``None`` if nothing limits it, as on Windows."""
    if sys.platform == "win32":
        return None
    else:
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return None if soft == resource.RLIM_INFINITY else soft


def sync_folder(path: str) -> None:
    """Wait until the names in a folder are on the disk. Windows opens no folders: there, nothing waits.

    Raises:
        OSError: the folder is gone, or the disk failed.
    """
    if sys.platform != "win32":
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
