"""Privileges: no capability in any set, no supplementary group, no way to gain one, no core dump."""

from __future__ import annotations

import ctypes
import errno
import os
import struct

from .syscalls import libc, prctl, syscall

NOBODY = 65534
_SET_DUMPABLE, _CAPBSET_DROP, _NO_NEW_PRIVS, _AMBIENT = 4, 24, 38, 47
_LAST = 63


def drop_bounding_set() -> None:
    """Empty it, while there is CAP_SETPCAP: without it, there is nothing left to bound."""
    for capability in range(_LAST + 1):
        if prctl(_CAPBSET_DROP, capability, 0, 0, 0) == -1:  # past the last one the kernel knows, or not permitted
            break


def drop_all() -> None:
    """Empty every capability set."""
    drop_bounding_set()
    try:
        libc("prctl", _AMBIENT, 4, 0, 0, 0)  # PR_CAP_AMBIENT_CLEAR_ALL
    except OSError as error:
        if error.errno != errno.EINVAL:  # gVisor has no such set
            raise
    header = struct.pack("=Ii", 0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3, this process
    syscall("capset", ctypes.c_char_p(header), ctypes.c_char_p(bytes(24)))
    libc("prctl", _NO_NEW_PRIVS, 1, 0, 0, 0)
    libc("prctl", _SET_DUMPABLE, 0, 0, 0, 0)  # no core dump (RLIMIT_CORE spares helpers)


def become(user: int) -> None:
    """Change from root to `user`, whose group has the same number. Stays dumpable, or its uid_map could not be
    written."""
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    libc("prctl", _SET_DUMPABLE, 1, 0, 0, 0)


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent dies; exits at once if that has happened already."""
    libc("prctl", 1, 9, 0, 0, 0)  # PR_SET_PDEATHSIG, SIGKILL
    if os.getppid() != parent:
        os._exit(0)
