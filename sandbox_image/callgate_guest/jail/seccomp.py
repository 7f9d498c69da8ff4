"""System calls: a default-deny seccomp filter, made for one process.

Theory of operation. The filter is a classic BPF program over ``struct seccomp_data`` (``linux/seccomp.h``). Calls of
another architecture, and x32 calls, kill the process. The calls in `ALLOWED` pass. Those in `arguments` pass for
certain arguments only. All else fails with EPERM. The call's range is found by halving, since the kernel emulates a
filter for every call number when it is put in place. A process may signal itself and start threads; there is no call
left by which it could name another process, open a socket, execute a file or mount anything.
"""

from __future__ import annotations

import ctypes
import platform
import struct
from typing import Final

from .arguments import (
    ALLOW,
    ANY_PID,
    AT_LEAST,
    EQUAL,
    JUMP,
    LOAD,
    REFUSE,
    RETURN,
    Instruction,
    checked,
    equals,
    opening,
)
from .syscalls import ALLOWED, ALLOWED_ON_OWN_DISKS, ALLOWED_ON_OWN_FILES, libc, number, syscall

_KILL: Final = 0x80000000
_ARCH: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32: Final = 0x40000000


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


class Filter:
    """The filter but for the process id: made in the zygote, so that a child only fills that in.

    Args:
        own_files: whether all files that the process can reach are its own, so that modes and times may be changed.
        own_disks: whether what these lie on is its own as well, so that it may ask how full that is.
    """

    def __init__(self, *, own_files: bool, own_disks: bool) -> None:
        code = _code(own_files, own_disks)
        packed = b"".join(struct.pack("=HBBI", *instruction) for instruction in code)
        self._code = ctypes.create_string_buffer(packed, len(packed))
        self._pids = [8 * place + 4 for place, instruction in enumerate(code) if instruction == equals(ANY_PID)]
        self._program = ctypes.byref(_Program(len(code), ctypes.addressof(self._code)))

    def install(self, pid: int) -> None:
        """Put the filter in place, for good. `pid` is this process's own, as it sees it. Raises `OSError`."""
        for place in self._pids:
            struct.pack_into("=I", self._code, place, pid)
        libc("prctl", 38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
        syscall("seccomp", 1, 0, self._program)  # SECCOMP_SET_MODE_FILTER


def _code(own_files: bool, own_disks: bool) -> list[Instruction]:
    code: list[Instruction] = [
        (LOAD, 0, 0, 4),
        (EQUAL, 1, 0, _ARCH[platform.machine()]),
        (RETURN, 0, 0, _KILL),
        (LOAD, 0, 0, 0),
        (AT_LEAST, 0, 1, _X32),
        (RETURN, 0, 0, _KILL),
    ]
    allowed = [*ALLOWED, *(ALLOWED_ON_OWN_FILES if own_files else ()), *(ALLOWED_ON_OWN_DISKS if own_disks else ())]
    answers = {number(name): [ALLOW] for name in allowed}
    answers |= {number(name): checks for name, checks in checked(ANY_PID).items()}
    answers |= {number("open"): opening(1, own_files=own_files), number("openat"): opening(2, own_files=own_files)}
    return [*code, *_search(_ranges({call: each for call, each in answers.items() if call is not None}))]


def _ranges(answers: dict[int, list[Instruction]]) -> list[tuple[int, list[Instruction]]]:
    """The first number of every range of calls that get the same answer, and that answer. All others are refused."""
    refused: list[Instruction] = [REFUSE]
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
        return [(AT_LEAST, len(below), 0, first), *below, *above]
    return [(AT_LEAST, 0, 1, first), (JUMP, 0, 0, len(below)), *below, *above]
