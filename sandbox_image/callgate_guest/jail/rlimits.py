"""Resources: what one process may use, as the kernel counts it."""

from __future__ import annotations

import contextlib
import math
import os
import resource
from typing import TypedDict

PROCESSES_OF_A_USER = 4096
"""In tier 2, where all that this user runs is counted together: no guest takes all the pids there are."""


class Allowance(TypedDict):
    """Resources that the host grants one guest, in bytes and seconds."""

    cpu_seconds: float
    memory_bytes: int
    max_processes: int
    max_file_bytes: int


def address_space(proc: int) -> int:
    """Bytes of address space that this process has mapped. `proc` is an open directory, a procfs that shows it."""
    fd = os.open("self/statm", os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc)
    try:
        return int(os.read(fd, 256).split()[0]) * resource.getpagesize()
    finally:
        os.close(fd)


def apply_to_all() -> None:
    """Set the limits that are the same for all guests, soft and hard: they inherit them from the zygote."""
    for which, value in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_MEMLOCK, 0), (resource.RLIMIT_STACK, 8 << 20)):
        _lower(which, value, value)
    for which, value in ((resource.RLIMIT_MSGQUEUE, 0), (resource.RLIMIT_SIGPENDING, 256)):
        with contextlib.suppress(ValueError):  # "may not": gVisor has neither limit, nor what they limit
            _lower(which, value, value)


def apply(allowance: Allowance, *, base_bytes: int | None, processes: int | None) -> None:
    """Set a guest's own limits, soft and hard, for good.

    Args:
        allowance: what the host grants.
        base_bytes: address space of the interpreter before the program; the program's own comes on top. ``None`` leaves
        memory without a limit: macOS refuses one (https://github.com/python/cpython/issues/78783).
        processes: RLIMIT_NPROC, which counts all that this user runs in its user namespace; ``None`` leaves it.
    """
    cpu = math.ceil(allowance["cpu_seconds"])
    wanted = {resource.RLIMIT_FSIZE: allowance["max_file_bytes"], resource.RLIMIT_NOFILE: 256}
    if base_bytes is not None:
        wanted[resource.RLIMIT_AS] = base_bytes + allowance["memory_bytes"]
    if processes is not None:
        wanted[resource.RLIMIT_NPROC] = processes
    for which, value in wanted.items():
        _lower(which, value, value)
    # at the first the kernel sends SIGXCPU, which says what happened; a program that ignores it dies at the second
    _lower(resource.RLIMIT_CPU, cpu, cpu + 1)


def _lower(which: int, soft: int, hard: int) -> None:
    most = resource.getrlimit(which)[1]
    if most != resource.RLIM_INFINITY:
        soft, hard = min(soft, most), min(hard, most)
    resource.setrlimit(which, (soft, hard))
