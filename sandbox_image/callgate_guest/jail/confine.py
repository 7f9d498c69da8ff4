"""The order in which a freshly forked child gives everything up. Nothing here can be undone; any failure ends the
child.

1. Its own three descriptors, no other. 2. Tier 1: a mount namespace with a /tmp of its own, then a user namespace in
which its user has no name (and RLIMIT_NPROC counts it alone). Tier 2: root becomes nobody. 3. rlimits. 4. No
capability. 5. Landlock. 6. seccomp, last, since it forbids all of the above.
"""

from __future__ import annotations

import os

from . import landlock, seccomp
from .capabilities import NOBODY, become, die_with_parent, drop_all, drop_bounding_set
from .namespaces import MOUNT, USER, unshare
from .rlimits import Allowance, apply
from .root import mount_scratch


class Step(Exception):
    """A step of the confinement failed. `number` is its index in `STEPS`, and the child's exit status above
    `FIRST_STATUS`."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(STEPS[number])


STEPS = ("descriptors", "mount namespace", "scratch tmpfs", "user namespace", "unprivileged user", "rlimits",
         "capabilities", "landlock", "seccomp")  # fmt: skip
FIRST_STATUS = 100


def confine(
    *,
    tier: int,
    parent: int,
    descriptors: list[int],
    allowance: Allowance,
    base_bytes: int,
    landlock_abi: int,
    rules: landlock.Ruleset | None,
) -> None:
    """Confine this process. `descriptors` become fd 0, 1 and 2. Raises `Step`, after which the process must exit.

    Args:
        tier: 1 with namespaces, 2 without.
        parent: pid of the zygote, as the child sees it.
        allowance: what the kernel is to hold it to.
        base_bytes: address space of the zygote.
        landlock_abi: the kernel's.
        rules: what may be opened, where that is the same for all children; ``None`` makes a ruleset of this child's
        own.
    """
    step = 0
    try:
        os.setsid()
        for number, fd in enumerate(descriptors):
            os.dup2(fd, number)
        first = 3
        if rules is not None:
            os.dup2(rules.fd, first)
            rules.fd = first
            first += 1
        os.closerange(first, os.sysconf("SC_OPEN_MAX"))
        if tier == 1:
            step = 1
            unshare(MOUNT)
            step = 2
            mount_scratch(allowance["max_file_bytes"])
            step = 3
            unshare(USER)
        elif os.geteuid() == 0:
            step = 4
            drop_bounding_set()
            become(NOBODY)
        os.chdir("/tmp" if tier == 1 else "/")
        os.umask(0o077)
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))  # its wake-ups do not preempt the host
        step = 5
        apply(allowance, base_bytes=base_bytes, threads=tier == 1)
        step = 6
        drop_all()
        if tier == 2:
            die_with_parent(parent)
        step = 7
        if rules is None:
            rules = landlock.Ruleset(landlock_abi)
            rules.allow(["/"])
            rules.allow(["/dev/null", "/tmp"], write=True)
        rules.restrict()
        os.close(rules.fd)
        step = 8
        seccomp.install(seccomp.program(os.getpid(), own_mounts=tier == 1))
    except (OSError, ValueError) as error:
        raise Step(step) from error
