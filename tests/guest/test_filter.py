"""The jail's filters of system calls, for x86-64 and for AArch64, judged by an interpreter; the kernel of this machine
agrees with the interpreter. The filter for AArch64 is checked here and was **not run** on AArch64.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import json
import os
import platform
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from guest.bpf import AARCH64, ALLOW, ARCHITECTURES, ERRNO, KILL, X86_64, Instruction, checks, filter_of, numbers, run

PID = 4242
KINDS = [(True, True), (True, False), (False, False)]
"""Whether files and disks are the guest's own: tier 1, a container, tier 2 and a tenant's container."""
MOST_NUMBER = 600
MOST_COMBINATIONS = 1500
NOT_ASKED = {335, 336}
"""uretprobe and uprobe of x86-64, which newer kernels handle before any filter; outside a probe they raise SIGILL."""
POINTER = 0x7F00_0000_1000
ERRORS = {"EPERM": 1, "EAGAIN": 11, "ENOSYS": 38, "EOPNOTSUPP": 95}
PID_CALLS = ("kill", "tgkill", "sched_getaffinity", "prlimit64")
HEADERS = {X86_64: "/usr/include/x86_64-linux-gnu/asm/unistd_64.h", AARCH64: "/usr/include/asm-generic/unistd.h"}

Call = tuple[str, tuple[int, ...]]


def as_on_aarch64(name: str, arguments: tuple[int, ...]) -> tuple[int, ...]:
    """The arguments that mean the same on AArch64, where four flags of open(2) have each other's values."""
    place = {"openat": 2, "pipe2": 1, "fcntl": 2}.get(name)
    if place is None or place >= len(arguments):
        return arguments
    value = arguments[place]
    moved = value & ~(0b1111 << 14) | (value >> 2 & 0b11 << 14) | ((value & 0b11 << 14) << 2)
    return (*arguments[:place], moved, *arguments[place + 1 :])


def answer(machine: str, name: str, arguments: tuple[int, ...], program: list[Instruction]) -> int | None:
    """The filter's answer to a call by name; ``None`` where the architecture has no such call."""
    number = numbers(machine)[name]
    return None if number is None else run(program, number, *arguments, arch=ARCHITECTURES[machine])


@functools.cache
def combinations() -> list[Call]:
    """Calls whose arguments are checked, with the values at which a check could go one way or the other."""
    chosen = random.Random(1)
    found: list[Call] = []
    for name, code in sorted(checks(X86_64).items()):
        read = sorted({(operand - 16) // 8 for kind, _, _, operand in code if kind == 0x20})
        named = {operand for kind, _, _, operand in code if kind in (0x15, 0x35, 0x54)}
        near = {value + by for value in named for by in (-1, 0, 1)} | {~value for value in named}
        plain = {value & 0xFFFFFFFF for value in near} | {0, 1, PID, POINTER}
        values = sorted(plain | {value | 1 << 32 for value in plain})
        every = list(itertools.product(values, repeat=len(read)))
        if len(every) > MOST_COMBINATIONS:
            every = chosen.sample(every, MOST_COMBINATIONS)
        for each in every:
            arguments = [0] * 5
            for place, value in zip(read, each, strict=True):
                arguments[place] = value
            found.append((name, tuple(arguments)))
    return found


def probed() -> Iterator[tuple[Call, set[str]]]:
    """The calls of the probes in the jail (tier 1, x86-64), with the kernel's outcomes, as a trace has them."""
    for line in Path(__file__).with_name("probed_calls.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            asked, _, outcomes = line.partition(" # ")
            name, *arguments = asked.split()
            yield (name, tuple(int(each, 16) for each in arguments)), set(outcomes.split())


@functools.cache
def independent_numbers(machine: str) -> dict[str, int]:
    """Numbers of system calls by a source that is not ours: libseccomp's table, or the kernel's own header."""
    names = set(numbers(machine)) | {name for (name, _), _ in probed()}
    try:
        resolve = ctypes.CDLL("libseccomp.so.2").seccomp_syscall_resolve_name_arch
    except OSError:
        pass
    else:
        resolve.argtypes = [ctypes.c_uint32, ctypes.c_char_p]
        found = {name: resolve(ARCHITECTURES[machine], name.encode()) for name in names}
        return {name: number for name, number in found.items() if number >= 0}
    header = Path(HEADERS[machine])
    if not header.exists():
        reason = f"neither libseccomp.so.2 nor {header} is here: apt install libseccomp2 linux-libc-dev"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return in_header(header)


def in_header(header: Path) -> dict[str, int]:
    """The numbers that the kernel's header defines for a 64-bit architecture."""
    defined = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", header.read_text())
    return {{"fstatat": "newfstatat"}.get(name, name): int(number) for name, number in defined}


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_the_numbers_are_those_of_a_source_that_is_not_ours(machine: str) -> None:
    theirs = independent_numbers(machine)
    ours = {name: number for name, number in numbers(machine).items() if number is not None}
    assert {name: theirs.get(name) for name in ours} == ours
    absent = {name for name, number in numbers(machine).items() if number is None}
    # getrlimit and renameat are old calls that newer architectures leave out, AArch64 not
    assert not absent & set(theirs), "a call that the architecture has, and our table does not"


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_the_numbers_are_those_of_the_kernels_header(machine: str) -> None:
    header = Path(HEADERS[machine])
    if not header.exists():
        pytest.skip(f"{header} is not here: apt install linux-libc-dev")
    theirs = in_header(header)
    ours = {name: number for name, number in numbers(machine).items() if number is not None}
    assert {name: theirs.get(name) for name in ours} == ours


@pytest.mark.parametrize(("own_files", "own_disks"), KINDS)
@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_calls_of_another_architecture_and_of_x32_kill(machine: str, own_files: bool, own_disks: bool) -> None:
    program = filter_of(machine, own_files=own_files, own_disks=own_disks, pid=PID)
    others = {*ARCHITECTURES.values(), 0x40000003, 0x40000028, 0} - {ARCHITECTURES[machine]}  # i386, arm
    for number in (*range(MOST_NUMBER), 0x40000000, 0x7FFFFFFF):
        assert {run(program, number, arch=other) for other in others} == {KILL}
    for number in range(MOST_NUMBER):
        assert run(program, 0x40000000 | number, arch=ARCHITECTURES[machine]) == KILL


@pytest.mark.parametrize(("own_files", "own_disks"), KINDS)
@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_no_number_passes_that_is_not_in_the_table(machine: str, own_files: bool, own_disks: bool) -> None:
    program = filter_of(machine, own_files=own_files, own_disks=own_disks, pid=PID)
    known = {number for number in numbers(machine).values() if number is not None}
    arch = ARCHITECTURES[machine]
    for number in set(range(MOST_NUMBER)) - known:
        for value in (0, PID, POINTER, (1 << 64) - 1):
            assert run(program, number, *[value] * 6, arch=arch) == ERRNO | 1


@pytest.mark.parametrize(("own_files", "own_disks"), KINDS)
def test_each_call_has_the_same_answer_on_aarch64(own_files: bool, own_disks: bool) -> None:
    programs = {
        machine: filter_of(machine, own_files=own_files, own_disks=own_disks, pid=PID) for machine in ARCHITECTURES
    }
    compared = set()
    unchecked = [(name, (value,) * 5) for name in numbers(X86_64) for value in (0, PID, POINTER)]
    for name, arguments in (*unchecked, *combinations()):
        here = answer(X86_64, name, arguments, programs[X86_64])
        there = answer(AARCH64, name, as_on_aarch64(name, arguments), programs[AARCH64])
        if there is not None:
            assert here == there, (name, [hex(each) for each in arguments])
            compared.add(name)
    assert {name for name, number in numbers(AARCH64).items() if number is not None} == compared


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_both_answers_of_each_check_occur(machine: str) -> None:
    """Else the comparison would compare nothing."""
    program = filter_of(machine, own_files=False, own_disks=False, pid=PID)
    answers: dict[str, set[int]] = {}
    for name, arguments in combinations():
        given = as_on_aarch64(name, arguments) if machine == AARCH64 else arguments
        found = answer(machine, name, given, program)
        if found is not None:
            answers.setdefault(name, set()).add(found)
    always = {name for name, found in answers.items() if len(found) == 1}
    assert always == {"clone3", "fsync", "fdatasync", "msync"}
    assert answers["clone3"] == {ERRNO | 38}
    assert answers["fsync"] == {ERRNO}


def judged_by_the_kernel(program: list[Instruction], calls: list[tuple[int, ...]]) -> list[int]:
    """What this kernel's own interpreter answers, in the form of `run`."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("judged.py"))],
        input=json.dumps([program, calls]), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    forms = {"allow": ALLOW, "kill": KILL}
    return [forms[each] if isinstance(each, str) else ERRNO | each for each in json.loads(done.stdout)]


@pytest.mark.skipif(platform.machine() != X86_64, reason="the numbers are those of an x86-64 kernel")
@pytest.mark.parametrize(("own_files", "own_disks"), KINDS)
@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_the_kernel_agrees_with_the_interpreter(machine: str, own_files: bool, own_disks: bool) -> None:
    """The kernel runs the program, and none of the calls. It runs AArch64's program as well, told another architecture:
    that shows that the kernel takes the program, not how an AArch64 kernel behaves."""
    program = filter_of(machine, own_files=own_files, own_disks=own_disks, pid=PID)
    calls = [(number, *[value] * 5) for number in range(MOST_NUMBER) for value in (0, PID, POINTER, (1 << 64) - 1)]
    calls += [(0x40000000 | number, 0, 0, 0, 0, 0) for number in range(MOST_NUMBER)]
    for name, arguments in combinations():
        number = numbers(machine)[name]
        if number is not None:
            calls.append((number, *(as_on_aarch64(name, arguments) if machine == AARCH64 else arguments)))
    arch = ARCHITECTURES[machine]
    calls = [call for call in calls if call[0] & ~0x40000000 not in NOT_ASKED]
    ours = [run(program, number, *arguments, arch=arch) for number, *arguments in calls]
    theirs = judged_by_the_kernel(program, calls)
    assert [(call, a, b) for call, a, b in zip(calls, ours, theirs, strict=True) if a != b] == []


def test_what_probes_ask_for_is_answered_as_the_trace_has_it() -> None:
    for (name, arguments), outcomes in probed():
        number = independent_numbers(X86_64)[name]
        # whose pid it was, a trace does not say: a signal that arrived went to its sender
        pid = arguments[0] & 0xFFFFFFFF if name in PID_CALLS and outcomes == {"ok"} and arguments[0] else PID
        program = filter_of(X86_64, pid=pid)
        given = spread(name, arguments)
        found = run(program, number, *given, arch=ARCHITECTURES[X86_64])
        if found == ERRNO:
            assert outcomes == {"ok"}, name
        elif found != ALLOW:
            (expected,) = [each for each, code in ERRORS.items() if ERRNO | code == found]
            assert outcomes <= {expected, "?"}, (name, arguments, outcomes)  # "?": it was killed meanwhile


def test_what_is_refused_to_a_probe_is_refused_on_aarch64() -> None:
    refused = 0
    for (name, arguments), _ in probed():
        given, theirs = spread(name, arguments), independent_numbers(AARCH64).get(name)
        programs = {machine: filter_of(machine, pid=PID) for machine in ARCHITECTURES}
        here = run(programs[X86_64], independent_numbers(X86_64)[name], *given, arch=ARCHITECTURES[X86_64])
        if theirs is not None:
            there = run(programs[AARCH64], theirs, *as_on_aarch64(name, given), arch=ARCHITECTURES[AARCH64])
            assert there == here, (name, arguments)
            refused += here not in (ALLOW, ERRNO)
    assert refused > 100


READ = {
    name: sorted({(operand - 16) // 8 for kind, _, _, operand in code if kind == 0x20})
    for name, code in checks(X86_64).items()
}


def spread(name: str, recorded: tuple[int, ...]) -> tuple[int, ...]:
    """The arguments of a recorded call: those that a check reads, in their places."""
    arguments = [0] * 5
    for place, value in zip(READ.get(name, []), recorded, strict=True):
        arguments[place] = value
    return tuple(arguments)
