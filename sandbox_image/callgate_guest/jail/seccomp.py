"""System calls: a default-deny seccomp filter with checked arguments, made for one process.

Theory of operation. The filter is a classic BPF program over ``struct seccomp_data`` (``linux/seccomp.h``). Calls of
another architecture, and x32 calls, kill the process. The calls in `ALLOWED` pass. Those below pass for certain
arguments only. All else fails with EPERM; `clone3`, whose arguments a filter cannot see, fails with ENOSYS, upon
which C libraries use `clone`. The call's range is found by halving, since the kernel emulates a filter for every call
number when it is put in place. A process may signal itself and start threads; there is no call left by which it could
name another process, open a socket, execute a file or mount anything.
"""

from __future__ import annotations

import ctypes
import functools
import platform
import struct
from collections.abc import Iterable
from typing import Final

from .syscalls import ALLOWED, ALLOWED_ON_OWN_DISKS, ALLOWED_ON_OWN_FILES, libc, number, syscall

_LOAD, _AND, _JUMP, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x54, 0x05, 0x15, 0x35, 0x06
_ALLOW: Final = 0x7FFF0000
_KILL: Final = 0x80000000
_EPERM: Final = 0x00050000 | 1
_DONE: Final = 0x00050000
_ENOSYS: Final = 0x00050000 | 38
_ARCH: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32: Final = 0x40000000

_CLONE_THREAD = 0x00010600  # THREAD, FILES and FS: a descriptor table of its own would be one more RLIMIT_NOFILE
_CLONE_NAMESPACES = 0x7E020080
# linux/prctl.h: PR_SET_NAME, PR_GET_NAME, PR_GET_SECCOMP, PR_GET_NO_NEW_PRIVS
_PRCTL: Final = (15, 16, 21, 39)
# asm-generic/ioctls.h: TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX
_IOCTL: Final = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
# fcntl.h: descriptors, flags and locks; not the owner of signals, leases, notifications or pipe sizes
_FCNTL: Final = (0, 1, 2, 3, 4, 5, 1030, 1032, 1034)
_F_SETLK, _F_SETLKW = 6, 7
_CLOSE_RANGE_UNSHARE = 2
_FUTEX_PRIVATE = 0x80
_AF_UNIX = 1
_SOCK_STREAM = 1
_ANY_PID: Final = 0xFFFFFFFF  # stands for the process id until that is known; no process has it
_LAST_CLOCK = 15  # above it, and below zero, are the clocks of other processes

Instruction = tuple[int, int, int, int]


def _argument(index: int, high: bool = False) -> Instruction:
    return (_LOAD, 0, 0, 16 + 8 * index + (4 if high else 0))


def _is(value: int) -> Instruction:
    return (_EQUAL, 0, 1, value)


def _one_of(index: int, values: Iterable[int]) -> list[Instruction]:
    code: list[Instruction] = [_argument(index)]
    for value in values:
        code += [_is(value), (_RETURN, 0, 0, _ALLOW)]
    return [*code, (_RETURN, 0, 0, _EPERM)]


def _no_cutting(flags: int) -> list[Instruction]:
    """Refuses O_TRUNC with O_RDONLY, and with the fourth access mode, which is neither reading nor writing."""
    return [
        _argument(flags),
        (_AND, 0, 0, 0o1003),
        (_EQUAL, 2, 0, 0o1000),
        (_AND, 0, 0, 3),
        (_EQUAL, 0, 1, 3),
        (_RETURN, 0, 0, _EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ]


def _checked(pid: int) -> dict[str, list[Instruction]]:
    thread_only: list[Instruction] = [
        _argument(0),
        (_AND, 0, 0, _CLONE_THREAD | _CLONE_NAMESPACES),
        (_EQUAL, 0, 1, _CLONE_THREAD),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _EPERM),
    ]
    read_own_limits: list[Instruction] = [
        _argument(2),
        (_EQUAL, 1, 0, 0),
        (_RETURN, 0, 0, _EPERM),
        _argument(2, high=True),
        (_EQUAL, 1, 0, 0),
        (_RETURN, 0, 0, _EPERM),
        *_one_of(0, (0, pid)),
    ]
    # a datagram socket could send to any socket whose name it knows
    stream_pair: list[Instruction] = [
        _argument(0),
        (_EQUAL, 1, 0, _AF_UNIX),
        (_RETURN, 0, 0, _EPERM),
        _argument(1),
        (_AND, 0, 0, 0xF),  # without SOCK_CLOEXEC and SOCK_NONBLOCK
        (_EQUAL, 0, 1, _SOCK_STREAM),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _EPERM),
    ]
    # a lock of one's own never conflicts with another of one's own, so it is had without asking: other processes,
    # which share the files, would see it
    no_locks: list[Instruction] = [
        _argument(1),
        _is(_F_SETLK),
        (_RETURN, 0, 0, _DONE),
        _is(_F_SETLKW),
        (_RETURN, 0, 0, _DONE),
        *_one_of(1, _FCNTL),
    ]
    own_table_only: list[Instruction] = [
        _argument(2),
        (_AND, 0, 0, _CLOSE_RANGE_UNSHARE),
        (_EQUAL, 1, 0, 0),
        (_RETURN, 0, 0, _EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ]
    # a futex in a page that is shared between processes could wake another; waiting on one is how threads are joined
    private_futex: list[Instruction] = [
        _argument(1),
        (_AND, 0, 0, _FUTEX_PRIVATE),
        (_EQUAL, 0, 1, _FUTEX_PRIVATE),
        (_RETURN, 0, 0, _ALLOW),
        _argument(1),
        (_AND, 0, 0, 0x7F),
        _is(0),  # FUTEX_WAIT
        (_RETURN, 0, 0, _ALLOW),
        _is(9),  # FUTEX_WAIT_BITSET
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _EPERM),
    ]
    own_clock: list[Instruction] = [
        _argument(0),
        (_AT_LEAST, 1, 0, _LAST_CLOCK + 1),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _EPERM),
    ]
    connected: list[Instruction] = [
        _argument(4),
        (_EQUAL, 1, 0, 0),
        (_RETURN, 0, 0, _EPERM),
        _argument(4, high=True),
        (_EQUAL, 0, 1, 0),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _EPERM),
    ]
    return {
        "kill": _one_of(0, (pid,)),
        "tgkill": _one_of(0, (pid,)),
        "clone": thread_only,
        "clone3": [(_RETURN, 0, 0, _ENOSYS)],
        "ioctl": _one_of(1, _IOCTL),
        "prctl": _one_of(0, _PRCTL),
        "fcntl": no_locks,
        "close_range": own_table_only,
        "futex": private_futex,
        "prlimit64": read_own_limits,
        "socketpair": stream_pair,
        "sendto": connected,
        "clock_gettime": own_clock,
        "sched_getaffinity": _one_of(0, (0, pid)),
    }


def program(pid: int, *, own_files: bool, own_disks: bool) -> bytes:
    """The filter for process `pid`, as an array of ``struct sock_filter``.

    Args:
        pid: the process id, as the process itself sees it.
        own_files: whether all files that it can reach are its own, so that modes and times may be changed.
        own_disks: whether what these lie on is its own as well, so that it may ask how full that is.
    """
    return _template(own_files, own_disks).replace(_pack([_is(_ANY_PID)]), _pack([_is(pid)]))


@functools.cache
def _template(own_files: bool, own_disks: bool) -> bytes:
    """The filter with `_ANY_PID` in it. Made in the zygote, so that a child only fills its process id in."""
    code: list[Instruction] = [
        (_LOAD, 0, 0, 4),
        (_EQUAL, 1, 0, _ARCH[platform.machine()]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, 0),
        (_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, _KILL),
    ]
    allowed = [*ALLOWED, *(ALLOWED_ON_OWN_FILES if own_files else ()), *(ALLOWED_ON_OWN_DISKS if own_disks else ())]
    answers = {number(name): [(_RETURN, 0, 0, _ALLOW)] for name in allowed}
    answers |= {number(name): checks for name, checks in _checked(_ANY_PID).items()}
    if not own_files:  # before its third version, Landlock lets a file be cut that is not opened for writing
        answers |= {number("open"): _no_cutting(1), number("openat"): _no_cutting(2)}
    return _pack([*code, *_search(_ranges({call: each for call, each in answers.items() if call is not None}))])


def _ranges(answers: dict[int, list[Instruction]]) -> list[tuple[int, list[Instruction]]]:
    """The first number of every range of calls that get the same answer, and that answer. All others are refused."""
    refused: list[Instruction] = [(_RETURN, 0, 0, _EPERM)]
    ranges = [(0, refused)]
    for call in sorted(answers):
        if ranges[-1][0] == call:
            ranges.pop()
        if not ranges or ranges[-1][1] != answers[call]:
            ranges.append((call, answers[call]))
        ranges.append((call + 1, refused))
    return ranges


def _search(ranges: list[tuple[int, list[Instruction]]]) -> list[Instruction]:
    """Code that finds the range of the call's number, and answers."""
    if len(ranges) == 1:
        return ranges[0][1]
    middle = len(ranges) // 2
    first, below, above = ranges[middle][0], _search(ranges[:middle]), _search(ranges[middle:])
    if len(below) < 256:  # as far as a conditional jump reaches
        return [(_AT_LEAST, len(below), 0, first), *below, *above]
    return [(_AT_LEAST, 0, 1, first), (_JUMP, 0, 0, len(below)), *below, *above]


def _pack(code: list[Instruction]) -> bytes:
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def install(code: bytes) -> None:
    """Put the filter in place, for good. Sets no_new_privs first. Raises `OSError`."""
    libc("prctl", 38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
    buffer = ctypes.create_string_buffer(code, len(code))
    filter_ = _Program(len(code) // 8, ctypes.addressof(buffer))
    syscall("seccomp", 1, 0, ctypes.byref(filter_))  # SECCOMP_SET_MODE_FILTER
