"""Files: a Landlock ruleset, so that a process opens only what it was given, whatever is mounted.

Landlock (``linux/landlock.h``) mediates opening, creating, renaming and removing, not stat, chmod, chown, utime or
xattr: seccomp has those. The ABI of the running kernel decides what can be handled; 1 is enough for files.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from collections.abc import Iterable

from .syscalls import libc, syscall

_EXECUTE, _WRITE, _READ, _READ_DIR = 1, 2, 4, 8
_TRUNCATE, _IOCTL = 1 << 14, 1 << 15
_FILE_RIGHTS = _EXECUTE | _WRITE | _READ | _TRUNCATE | _IOCTL
_HANDLED = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}


def abi() -> int:
    """The kernel's Landlock ABI; 0 if the kernel has none, or it is switched off."""
    try:
        return syscall("landlock_create_ruleset", 0, 0, 1)
    except OSError:
        return 0


class Ruleset:
    """The paths that may be opened. `fd` is the kernel's handle; close it after `restrict`."""

    def __init__(self, version: int) -> None:
        self._handled = max(rights for since, rights in _HANDLED.items() if since <= version)
        attributes = struct.pack("=Q", self._handled)
        if version >= 4:
            attributes += struct.pack("=Q", 3)  # bind and connect, TCP
        if version >= 6:
            attributes += struct.pack("=Q", 3)  # abstract sockets and signals of others
        self.fd = syscall("landlock_create_ruleset", ctypes.c_char_p(attributes), len(attributes), 0)

    def allow(self, paths: Iterable[str], *, write: bool = False, listing_only: bool = False) -> None:
        """Let everything beneath `paths` be read, and written where asked. A path that is not there is passed over."""
        for path in paths:
            try:
                fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
            except OSError:
                continue
            try:
                rights = _READ | _READ_DIR | (self._handled & ~_EXECUTE & ~_IOCTL if write else 0)
                if listing_only:
                    rights = _READ_DIR
                if not stat.S_ISDIR(os.fstat(fd).st_mode):
                    rights &= _FILE_RIGHTS
                rule = struct.pack("=Qi", rights, fd)  # struct landlock_path_beneath_attr, packed
                syscall("landlock_add_rule", self.fd, 1, ctypes.c_char_p(rule), 0)
            finally:
                os.close(fd)

    def restrict(self) -> None:
        """Bind this process to the ruleset, for good. Raises `OSError`."""
        libc("prctl", 38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS, which Landlock asks for
        syscall("landlock_restrict_self", self.fd, 0)
