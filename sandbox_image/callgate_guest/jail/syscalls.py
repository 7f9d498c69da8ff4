"""System calls by name: their numbers, and one way to make one. Knows nothing of why.

The numbers are those of Linux's own headers (``asm/unistd_64.h`` for x86-64, ``asm-generic/unistd.h`` for AArch64).
"""

from __future__ import annotations

import ctypes
import os
import platform
from typing import Final

_COLUMN: Final = {"x86_64": 0, "aarch64": 1}.get(platform.machine())


def _table(text: str) -> dict[str, tuple[int | None, int | None]]:
    """``name x86-64 AArch64``, with ``-`` where an architecture has no such call."""
    rows = (row.split() for row in text.split("|"))
    return {name: (None if x86 == "-" else int(x86), None if arm == "-" else int(arm)) for name, x86, arm in rows}


_JAIL: Final = _table("""
capset 126 91 | fsconfig 431 431 | fsmount 432 432 | fsopen 430 430 | landlock_add_rule 445 445 |
landlock_create_ruleset 444 444 | landlock_restrict_self 446 446 | mount_setattr 442 442 | move_mount 429 429 |
pivot_root 155 41 | seccomp 317 277
""")

ALLOWED: Final = _table("""
access 21 - | alarm 37 - | brk 12 214 | chdir 80 49 | close 3 57 | copy_file_range 326 285 | creat 85 - | dup 32 23 |
dup2 33 - | dup3 292 24 | epoll_create1 291 20 | epoll_ctl 233 21 | epoll_pwait 281 22 | epoll_pwait2 441 441 |
epoll_wait 232 - | eventfd2 290 19 | exit 60 93 | exit_group 231 94 | faccessat 269 48 | faccessat2 439 439 |
fallocate 285 47 | fchdir 81 50 | fstat 5 80 | ftruncate 77 46 | getcpu 309 168 | getcwd 79 17 | getdents64 217 61 |
getegid 108 177 | geteuid 107 175 | getgid 104 176 | getgroups 115 158 | getitimer 36 102 | getpeername 52 205 |
getpgrp 111 - | getpid 39 172 | getppid 110 173 | getrandom 318 278 | getresgid 120 150 | getresuid 118 148 |
getrlimit 97 163 | getrusage 98 165 | getsockname 51 204 | gettid 186 178 | gettimeofday 96 169 | getuid 102 174 |
link 86 - | linkat 265 37 | lseek 8 62 | lstat 6 - | mkdir 83 - | mkdirat 258 34 | mprotect 10 226 | mremap 25 216 |
munmap 11 215 | nanosleep 35 101 | newfstatat 262 79 | pause 34 - | pipe 22 - | poll 7 - |
ppoll 271 73 | pread64 17 67 | preadv 295 69 | pselect6 270 72 | pwrite64 18 68 | pwritev 296 70 | read 0 63 |
readv 19 65 | rename 82 - | renameat 264 38 | renameat2 316 276 | restart_syscall 219 128 | rmdir 84 - |
rseq 334 293 | rt_sigaction 13 134 | rt_sigpending 127 136 | rt_sigprocmask 14 135 | rt_sigreturn 15 139 |
rt_sigsuspend 130 133 | rt_sigtimedwait 128 137 | sched_yield 24 124 | select 23 - | sendfile 40 71 |
setitimer 38 103 | shutdown 48 210 | sigaltstack 131 132 | stat 4 - | statx 332 291 | symlink 88 - |
symlinkat 266 36 | time 201 - | times 100 153 | umask 95 166 | uname 63 160 | unlink 87 - | unlinkat 263 35 |
write 1 64 | writev 20 66
""")
"""Calls that a program may make with any arguments."""

ALLOWED_ON_OWN_FILES: Final = _table("""
chmod 90 - | fchmod 91 52 | fchmodat 268 53 | readlink 89 - | readlinkat 267 78 | truncate 76 45 | utimensat 280 88
""")
"""Further calls if all reachable files are the program's own: modes, times, sizes, and targets of links."""

ALLOWED_ON_OWN_DISKS: Final = _table("fstatfs 138 44 | statfs 137 43")
"""Further calls if the file systems of these files are its own as well: how full they are."""

_CHECKED: Final = _table("""
clock_getres 229 114 | clock_gettime 228 113 | clock_nanosleep 230 115 | clone 56 220 | clone3 435 435 |
close_range 436 436 | fcntl 72 25 | fdatasync 75 83 | fsync 74 82 | futex 202 98 | getsockopt 55 209 | ioctl 16 29 |
kill 62 129 | madvise 28 233 | membarrier 324 283 | mmap 9 222 | msync 26 227 | open 2 - | openat 257 56 |
pipe2 293 59 | prctl 157 167 | prlimit64 302 261 | recvfrom 45 207 | sched_getaffinity 204 123 | sendto 44 206 |
socketpair 53 199 | tgkill 234 131
""")

_NUMBERS: Final = {**_JAIL, **ALLOWED, **ALLOWED_ON_OWN_FILES, **ALLOWED_ON_OWN_DISKS, **_CHECKED}

_libc = ctypes.CDLL(None, use_errno=True)
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long
for _name in ("mount", "prctl", "unshare"):
    getattr(_libc, _name)  # looked up here, or each child would do it

prctl = _libc["prctl"]
"""prctl(2) as it is, for many calls in a row: returns -1 on error."""
prctl.argtypes = (ctypes.c_int, *[ctypes.c_ulong] * 4)


def supported() -> bool:
    """Whether the numbers for this processor are known."""
    return _COLUMN is not None


def number(name: str) -> int | None:
    """The call's number here; ``None`` where this architecture does not have it."""
    return None if _COLUMN is None else _NUMBERS[name][_COLUMN]


def check(result: int, what: str) -> int:
    """`result` of a C function; raises `OSError` with `what` when it is -1."""
    if result == -1:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result


def syscall(name: str, *arguments: object) -> int:
    """Make the call; raises `OSError` when it fails or does not exist here."""
    found = number(name)
    if found is None:
        raise OSError(38, f"{name}: not known on {platform.machine()}")
    passed = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    return check(_syscall(ctypes.c_long(found), *passed), name)


def libc(name: str, *arguments: object) -> int:
    """Call a function of the C library that returns -1 on error; raises `OSError`."""
    passed = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    return check(getattr(_libc, name)(*passed), name)
