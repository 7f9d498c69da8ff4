"""The order in which a freshly forked child gives everything up. Nothing here can be undone; any failure ends the
child.

1. Tier 1: a mount namespace with /input, /tmp and /output of its own. 2. Its own three
descriptors, no other. 3. Tier 1: a user namespace in which its user has no name (and RLIMIT_NPROC counts it alone).
Tier 2: root becomes nobody. 4. rlimits. 5. No capability. 6. Landlock. 7. seccomp, last, since it forbids all of the
above.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence

from . import landlock
from .capabilities import NOBODY, become, die_with_parent, drop_all, drop_bounding_set
from .namespaces import MOUNT, USER, unshare
from .rlimits import PROCESSES_OF_A_USER, Allowance, apply
from .root import INPUT, OUTPUT, SCRATCH, mount_input, mount_scratch
from .seccomp import Filter


class Step(Exception):
    """A step of the confinement failed. `number` is its index in `STEPS`, and the child's exit status above
    `FIRST_STATUS`."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(STEPS[number])


STEPS = ("descriptors", "mount namespace", "files", "scratch tmpfs", "user namespace", "unprivileged user", "rlimits",
         "capabilities", "landlock", "seccomp")  # fmt: skip
FIRST_STATUS = 100
_NO_PRIORITY = os.sched_param(0)


def confine(
    *,
    tier: int,
    parent: int,
    descriptors: list[int],
    allowance: Allowance,
    base_bytes: int,
    landlock_abi: int,
    rules: landlock.Ruleset | None,
    calls: Filter,
    own_files: bool,
    own_cgroup: bool,
    folders: Sequence[str] = (),
    scratch: int = -1,
) -> None:
    """Confine this process. `descriptors` become fd 0, 1 and 2. Raises `Step`, after which the process must exit.

    From a fourth descriptor it reads the name of its own files: see `root.mount_input`.

    Args:
        tier: 1 with namespaces of its own, 2 without; 0 within another sandbox, which has chosen its user.
        parent: pid of the zygote, as the child sees it.
        allowance: what the kernel is to hold it to.
        base_bytes: address space of the zygote.
        landlock_abi: the kernel's; 0 where it has no Landlock, which only a guest with files of its own may do without.
        rules: what may be opened, where that is the same for all children; ``None`` makes a ruleset of this child's
        own.
        calls: what may be asked of the kernel.
        own_files: whether it can change nothing but mounts that are for it alone (tier 1, a container of its own): then
        it has a /tmp, and may change modes and times.
        own_cgroup: whether a cgroup counts its processes.
        folders: names of the operator's folders in /input.
        scratch: in tier 1, a descriptor of its /tmp and /output: see `root.make_scratch`.
    """
    step = 0
    try:
        if tier:
            os.setsid()
        if tier == 1:
            step = 1
            unshare(MOUNT)
            step = 2
            if descriptors[3:]:
                mount_input(os.read(descriptors[3], 64).decode(), folders)
            inputs = os.listdir(INPUT) if descriptors[3:] else folders
            step = 3
            mount_scratch(scratch, inputs)
        step = 0
        for number, fd in enumerate(descriptors[:3]):
            os.dup2(fd, number)
        first = 3
        if rules is not None:
            os.dup2(rules.fd, first)
            rules.fd = first
            first += 1
        os.closerange(first, os.sysconf("SC_OPEN_MAX"))
        if tier == 1:
            step = 4
            unshare(USER)
        elif tier and os.geteuid() == 0:
            step = 5
            drop_bounding_set()
            become(NOBODY)
        os.chdir(OUTPUT if tier == 1 else "/output" if own_files else "/")
        os.umask(0o077)
        with contextlib.suppress(OSError):  # gVisor has no such policy
            os.sched_setscheduler(0, os.SCHED_BATCH, _NO_PRIORITY)  # its wake-ups do not preempt the host
        step = 6
        processes = allowance["max_processes"] if tier == 1 else PROCESSES_OF_A_USER
        apply(allowance, base_bytes=base_bytes, processes=None if own_cgroup else processes)
        step = 7
        drop_all()
        if tier != 1:
            die_with_parent(parent)
        step = 8
        if landlock_abi or not own_files:
            _restrict(rules, landlock_abi)
        step = 9
        calls.install(os.getpid())
    except (OSError, ValueError) as error:
        raise Step(step) from error


def _restrict(rules: landlock.Ruleset | None, version: int) -> None:
    if rules is None:
        rules = landlock.Ruleset(version)
        rules.allow(["/"])
        rules.allow(["/dev/null", SCRATCH], write=True)
    rules.restrict()
    os.close(rules.fd)
