"""An interpreter of classic BPF as the kernel runs it for seccomp, and the jail's filters for both architectures.

Knows ``linux/filter.h``, ``linux/seccomp.h`` and nothing of the jail's rules. Source of the semantics: seccomp(2), and
``bpf_check_classic`` and ``seccomp_check_filter`` of the kernel, whose refusals `run` repeats as errors.

A filter of AArch64 is made here, on whatever machine this is: in a process whose `platform` and `os` say what those of
AArch64 say. Nothing of it is run on AArch64.
"""

from __future__ import annotations

import functools
import json
import struct
import subprocess
import sys

__all__ = [
    "AARCH64",
    "ALLOW",
    "ARCHITECTURES",
    "ERRNO",
    "KILL",
    "X86_64",
    "Instruction",
    "checks",
    "filter_of",
    "numbers",
    "run",
]

Instruction = tuple[int, int, int, int]

X86_64, AARCH64 = "x86_64", "aarch64"
ARCHITECTURES = {X86_64: 0xC000003E, AARCH64: 0xC00000B7}
"""``AUDIT_ARCH_...`` of ``linux/audit.h``."""
ALLOW, ERRNO, KILL = 0x7FFF0000, 0x00050000, 0x80000000
"""What a filter returns; ``ERRNO`` has the number in its low half."""

_SIZE = 64  # of struct seccomp_data
_LOAD, _AND, _JUMP, _RETURN = 0x20, 0x54, 0x05, 0x06
_TESTS = {
    0x15: lambda a, k: a == k,  # JEQ
    0x25: lambda a, k: a > k,  # JGT
    0x35: lambda a, k: a >= k,  # JGE
    0x45: lambda a, k: a & k != 0,  # JSET
}

# open flags of arch/arm64/include/uapi/asm/fcntl.h; O_LARGEFILE is the jail's own constant
_OPEN_FLAGS = {AARCH64: {"O_DIRECTORY": 0o40000, "O_NOFOLLOW": 0o100000, "O_DIRECT": 0o200000}}
_OPEN_FLAGS[X86_64] = {"O_DIRECTORY": 0o200000, "O_NOFOLLOW": 0o400000, "O_DIRECT": 0o40000}
_MAKE = """
import json, os, platform, sys
machine, flags, part = json.loads(sys.argv[1])
platform.machine = lambda: machine
for name, value in flags.items():
    setattr(os, name, value)
from callgate_guest.jail import arguments, seccomp, syscalls
if part == "checks":
    made = arguments.checked(arguments.ANY_PID)
    made |= {"open": arguments.opening(1, own_files=False), "openat": arguments.opening(2, own_files=False)}
elif part == "numbers":
    made = {name: syscalls.number(name) for name in syscalls._NUMBERS}
else:
    made = seccomp._code(own_files="files" in part, own_disks="disks" in part)
print(json.dumps(made))
"""


def run(program: list[Instruction], call: int, *arguments: int, arch: int) -> int:
    """What the kernel does with this system call: the value that `program` returns.

    Args:
        call: the number, as the kernel sees it.
        arguments: six at most, the others are 0.
        arch: ``AUDIT_ARCH_...`` of the caller.

    Raises:
        ValueError: the kernel would not take the program.
    """
    data = struct.pack("=iIQ6Q", call, arch, 0, *arguments, *[0] * (6 - len(arguments)))
    at = accumulator = 0
    while at < len(program):
        code, if_true, if_false, operand = program[at]
        at += 1
        if code == _LOAD:
            if operand % 4 or operand >= _SIZE:
                raise ValueError(f"a load from {operand} at {at - 1}")
            (accumulator,) = struct.unpack_from("=I", data, operand)
        elif code == _AND:
            accumulator &= operand
        elif code == _JUMP:
            at += operand
        elif code in _TESTS:
            at += if_true if _TESTS[code](accumulator, operand) else if_false
        elif code == _RETURN:
            return operand
        else:
            raise ValueError(f"instruction {code:#x} at {at - 1}")
    raise ValueError("the program ends without a return")


@functools.cache
def _made(machine: str, part: str) -> str:
    command = [sys.executable, "-c", _MAKE, json.dumps([machine, _OPEN_FLAGS[machine], part])]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def filter_of(machine: str, *, own_files: bool = True, own_disks: bool = True, pid: int) -> list[Instruction]:
    """The jail's filter for a process of that architecture; `pid` is its own process id."""
    part = f"filter {'files' if own_files else ''} {'disks' if own_disks else ''}"
    code = [tuple(each) for each in json.loads(_made(machine, part))]
    return [(*each[:3], pid if each == (0x15, 0, 1, 0xFFFFFFFF) else each[3]) for each in code]


def numbers(machine: str) -> dict[str, int | None]:
    """The jail's numbers of system calls of that architecture; ``None`` where there is no such call."""
    found: dict[str, int | None] = json.loads(_made(machine, "numbers"))
    return found


def checks(machine: str) -> dict[str, list[Instruction]]:
    """The checks of arguments, by the names of the calls, `pid` left open."""
    found = json.loads(_made(machine, "checks"))
    return {name: [tuple(each) for each in code] for name, code in found.items()}
