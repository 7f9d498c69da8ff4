"""Checks of the arguments of system calls, as pieces of a filter (see `seccomp`). Knows only calls that need a check.

A filter sees the six arguments as 64-bit numbers, never what a pointer leads to. Where the kernel takes an ``int``, it
reads the low half alone, and so does the check; where it takes a pointer, both halves are checked.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from typing import Final

LOAD, AND, JUMP, EQUAL, AT_LEAST, RETURN = 0x20, 0x54, 0x05, 0x15, 0x35, 0x06

Instruction = tuple[int, int, int, int]
"""A ``struct sock_filter``: code, how many to skip if true, how many if false, operand."""

ALLOW: Final[Instruction] = (RETURN, 0, 0, 0x7FFF0000)
_ERRNO = 0x00050000
REFUSE: Final[Instruction] = (RETURN, 0, 0, _ERRNO | 1)  # EPERM
_DONE: Final[Instruction] = (RETURN, 0, 0, _ERRNO)  # success, without asking the kernel
_AGAIN: Final[Instruction] = (RETURN, 0, 0, _ERRNO | 11)  # EAGAIN
_UNKNOWN: Final[Instruction] = (RETURN, 0, 0, _ERRNO | 38)  # ENOSYS
_UNSUPPORTED: Final[Instruction] = (RETURN, 0, 0, _ERRNO | 95)  # EOPNOTSUPP

ANY_PID: Final = 0xFFFFFFFF
"""Stands for the process id until that is known; no process has it."""

_WHOLE = 0xFFFFFFFF
# linux/sched.h: VM, FS, FILES, SIGHAND, THREAD. A descriptor table of its own would be one more RLIMIT_NOFILE
_CLONE_THREAD = 0x00010F00
# SYSVSEM, SETTLS, PARENT_SETTID, CHILD_CLEARTID, DETACHED, CHILD_SETTID: what C libraries start threads with
_CLONE_HARMLESS = 0x017C0000
# linux/prctl.h: PR_SET_NAME, PR_GET_NAME, PR_GET_SECCOMP, PR_GET_NO_NEW_PRIVS
_PRCTL: Final = (15, 16, 21, 39)
# asm-generic/ioctls.h: TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX
_IOCTL: Final = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
_FICLONE = 0x40049409  # linux/fs.h
# fcntl.h: descriptors, flags and locks; not the owner of signals, leases, notifications or pipe sizes
_FCNTL: Final = (0, 1, 2, 3, 5, 1030, 1032, 1034)
_F_SETFL, _F_SETLK, _F_SETLKW = 4, 6, 7
_O_LARGEFILE: Final = {"x86_64": 0o100000, "aarch64": 0o400000}  # 0 to C programs, but F_GETFL tells it
# what F_SETFL may change, and what F_GETFL tells and F_SETFL leaves as it is
_F_SETFL_PASSED: Final = (
    os.O_APPEND | os.O_NONBLOCK
    | os.O_ACCMODE | os.O_SYNC | os.O_DIRECTORY | os.O_NOFOLLOW | _O_LARGEFILE.get(platform.machine(), 0)
)  # fmt: skip
_CLOSE_RANGE_UNSHARE = 2
_FUTEX_PRIVATE = 0x80
# linux/futex.h: WAIT, WAKE, REQUEUE, CMP_REQUEUE, WAKE_OP, WAIT_BITSET, WAKE_BITSET; the PI ones look for a thread id
_FUTEX_WAITS, _FUTEX_WAKES, _FUTEX_OTHERS = (0, 9), (1, 10), (3, 4, 5)
_AF_UNIX = 1
_SOCK_STREAM = 1
_SOCK_FLAGS = os.O_CLOEXEC | os.O_NONBLOCK
_LAST_CLOCK = 15  # above it, and below zero, are the clocks of other processes
_MAP_HUGETLB = 0x40000
# asm-generic/mman-common.h: NORMAL, RANDOM, SEQUENTIAL, WILLNEED, DONTNEED, FREE, HUGEPAGE, NOHUGEPAGE, DONTDUMP,
# DODUMP, POPULATE_READ, POPULATE_WRITE, GUARD_INSTALL, GUARD_REMOVE; not MERGEABLE, nor what throws out shared pages
_MADVISE: Final = (0, 1, 2, 3, 4, 8, 14, 15, 16, 17, 22, 23, 102, 103)
# linux/membarrier.h: QUERY, and what concerns this process alone
_MEMBARRIER: Final = (0, 8, 16, 32, 64, 128, 256)
_RLIMIT_NPROC = 6  # asm-generic/resource.h
_SOL_SOCKET = 1
# asm-generic/socket.h: SO_TYPE, SO_ERROR, SO_SNDBUF, SO_RCVBUF, SO_ACCEPTCONN, SO_PROTOCOL, SO_DOMAIN
_SOCKET_OPTIONS: Final = (3, 4, 7, 8, 30, 38, 39)
# linux/socket.h: DONTWAIT, EOR, NOSIGNAL, MORE; PEEK, TRUNC, DONTWAIT, WAITALL. Not OOB, of which AF_UNIX has had bugs
_SEND_FLAGS, _RECEIVE_FLAGS = 0x40 | 0x80 | 0x4000 | 0x8000, 0x02 | 0x20 | 0x40 | 0x100


def _argument(index: int, *, high: bool = False) -> Instruction:
    return (LOAD, 0, 0, 16 + 8 * index + (4 if high else 0))


def equals(value: int) -> Instruction:
    """Go on if what was loaded is `value`, else skip one."""
    return (EQUAL, 0, 1, value)


def _one_of(index: int, values: Iterable[int], answer: Instruction = ALLOW) -> list[Instruction]:
    """Give `answer` if that argument is one of `values`; go on if not."""
    return [_argument(index), *(each for value in values for each in (equals(value), answer))]


def _only(index: int, values: Iterable[int]) -> list[Instruction]:
    return [*_one_of(index, values), REFUSE]


def _require(index: int, value: int, *, of: int = _WHOLE, high: bool = False) -> list[Instruction]:
    """Refuse unless the bits `of` that argument are `value`; go on if they are."""
    return [_argument(index, high=high), (AND, 0, 0, of), (EQUAL, 1, 0, value), REFUSE]


def _no_bits_but(index: int, passed: int) -> list[Instruction]:
    return _require(index, 0, of=_WHOLE & ~passed)


def _null(index: int) -> list[Instruction]:
    return [*_require(index, 0), *_require(index, 0, high=True)]


def opening(flags: int, *, own_files: bool) -> list[Instruction]:
    """The check of how files are opened: not past the page cache, because each read would then use the host's disk.

    Where files are not the guest's own, also refuse O_TRUNC with O_RDONLY, and with the fourth access mode, which is
    neither reading nor writing: before its third version, Landlock lets a file be cut that is not opened for writing.
    """
    cached = _require(flags, 0, of=os.O_DIRECT)
    if own_files:
        return [*cached, ALLOW]
    return [
        *cached,
        _argument(flags),
        (AND, 0, 0, 0o1003),
        (EQUAL, 2, 0, 0o1000),
        (AND, 0, 0, 3),
        (EQUAL, 0, 1, 3),
        REFUSE,
        ALLOW,
    ]


def _fcntl() -> list[Instruction]:
    """No locks, and no flags but O_NONBLOCK and O_APPEND.

    A lock of one's own never conflicts with another of one's own, so it is had without asking: other processes, which
    share the files, would see it. O_DIRECT on a pipe makes a packet of each write, which costs its reader a page.
    """
    change_flags = [*_no_bits_but(2, _F_SETFL_PASSED), ALLOW]
    return [
        *_one_of(1, (_F_SETLK, _F_SETLKW), _DONE),
        (EQUAL, 0, len(change_flags), _F_SETFL),
        *change_flags,
        *_only(1, _FCNTL),
    ]


def _futex() -> list[Instruction]:
    """Private futexes, without priority inheritance.

    A futex that is not private is found by its page, and every guest has the pages of the standard library. The kernel
    wakes one itself when a thread ends whose `clone` named it, as that of every C library does, so waking cannot be
    closed; waiting can. A waiter gets the answer that the value has changed, and looks again: threads that are joined
    have at most their last steps in the kernel before them.
    """
    ordinary = (*_FUTEX_WAITS, *_FUTEX_WAKES, *_FUTEX_OTHERS)
    operation: list[Instruction] = [_argument(1), (AND, 0, 0, 0x7F)]
    return [
        *operation,
        *((EQUAL, len(ordinary) - at, 0, each) for at, each in enumerate(ordinary)),
        _UNKNOWN,
        _argument(1),
        (AND, 0, 0, _FUTEX_PRIVATE),
        equals(_FUTEX_PRIVATE),
        ALLOW,
        *operation,
        *(each for wait in _FUTEX_WAITS for each in (equals(wait), _AGAIN)),
        *(each for wake in _FUTEX_WAKES for each in (equals(wake), _DONE)),  # nobody can wait: nobody is woken
        REFUSE,
    ]


def _prlimit(pid: int) -> list[Instruction]:
    """Limits of this process alone, to read. It may change one, which it can only lower: the number of its threads."""
    read_only = _null(2)
    return [_argument(1), (EQUAL, len(read_only), 0, _RLIMIT_NPROC), *read_only, *_only(0, (0, pid))]


def checked(pid: int) -> dict[str, list[Instruction]]:
    """The check of each call's arguments, by the call's name. `pid` is the process's own id."""
    own_clock: list[Instruction] = [_argument(0), (AT_LEAST, 0, 1, _LAST_CLOCK + 1), REFUSE, ALLOW]
    # writable files lie in memory; for a file of the host's, the disk would have to empty its cache
    nothing_to_sync = [_DONE]
    return {
        "kill": _only(0, (pid,)),
        "tgkill": _only(0, (pid,)),
        "clone": [*_require(0, _CLONE_THREAD, of=_WHOLE & ~_CLONE_HARMLESS), ALLOW],
        "clone3": [_UNKNOWN],  # its arguments are in memory; upon ENOSYS, C libraries use `clone`
        # what every tmpfs answers to a clone of a file: `pathlib.Path.copy` of Python 3.14 then copies it
        "ioctl": [*_one_of(1, (_FICLONE,), _UNSUPPORTED), *_only(1, _IOCTL)],
        "prctl": _only(0, _PRCTL),
        "fcntl": _fcntl(),
        "close_range": [*_require(2, 0, of=_CLOSE_RANGE_UNSHARE), ALLOW],
        "futex": _futex(),
        "prlimit64": _prlimit(pid),
        "pipe2": [*_no_bits_but(1, _SOCK_FLAGS), ALLOW],
        # a datagram socket could send to any socket whose name it knows
        "socketpair": [*_require(0, _AF_UNIX), *_require(1, _SOCK_STREAM, of=_WHOLE & ~_SOCK_FLAGS), ALLOW],
        "sendto": [*_null(4), *_no_bits_but(3, _SEND_FLAGS), ALLOW],
        "recvfrom": [*_no_bits_but(3, _RECEIVE_FLAGS), ALLOW],
        # others tell of the kernel's own counters, or give a descriptor of a process
        "getsockopt": [*_require(1, _SOL_SOCKET), *_only(2, _SOCKET_OPTIONS)],
        "clock_gettime": own_clock,
        "clock_getres": own_clock,
        "clock_nanosleep": own_clock,
        "sched_getaffinity": _only(0, (0, pid)),
        "mmap": [*_require(3, 0, of=_MAP_HUGETLB), ALLOW],  # huge pages are a store that all processes share
        "madvise": _only(2, _MADVISE),
        "membarrier": _only(0, _MEMBARRIER),
        "fsync": nothing_to_sync,
        "fdatasync": nothing_to_sync,
        "msync": nothing_to_sync,
    }
