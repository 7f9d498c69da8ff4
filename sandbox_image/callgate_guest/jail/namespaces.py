"""Separation: user, mount, pid, net, ipc, uts and cgroup namespaces, and who one is inside them."""

from __future__ import annotations

import os
import socket

from .capabilities import NOBODY, become
from .syscalls import libc

MOUNT = 0x00020000
USER = 0x10000000
_CGROUP, _UTS, _IPC, _PID, _NET = 0x02000000, 0x04000000, 0x08000000, 0x20000000, 0x40000000
EVERYTHING = MOUNT | USER | _CGROUP | _UTS | _IPC | _PID | _NET


def unshare(flags: int) -> None:
    """Move this process (its future children, for pids) into new namespaces. Raises `OSError`."""
    libc("unshare", flags)


def leave_host(proc: int) -> None:
    """Move into namespaces of one's own, as their root, which outside them is an unprivileged user. Raises `OSError`.

    Root becomes `NOBODY` first. `proc` is an open directory, the host's procfs.
    """
    if os.geteuid() == 0:
        become(NOBODY)
    user, group = os.geteuid(), os.getegid()
    unshare(EVERYTHING)
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
        fd = os.open(f"self/{name}", os.O_WRONLY | os.O_CLOEXEC, dir_fd=proc)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)
    socket.sethostname("sandbox")
