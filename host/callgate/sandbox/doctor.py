"""Which sandboxes work on this machine, and if one does not, why and what to do. Starts each; guesses nothing.

The trials of the jail's tiers, of docker and of srt decide; the facts of the machine (`Fact`) explain. Knows no command
line.
"""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass, replace
from typing import Any

from .docker.doctor import DockerReport, examine_docker
from .jail import JailBackend
from .machine import look_at_machine
from .self_test import Fact, Trial, tried
from .srt.backend import SrtBackend

__all__ = ["DOCKER_LEAKS", "LEAKS", "NOT_CONFINED", "SRT_LEAKS", "Report", "examine"]

LEAKS: dict[int, tuple[str, ...]] = {
    1: (
        "the version of the kernel and the kind of processor (uname)",
        "the files of the standard library, read-only, and which Python this is",
    ),
    2: (
        "the version of the kernel, the kind of processor and the host's name (uname)",
        "whether a path of the host exists, its owner, size and times (stat); never what is in a file or a folder",
        "names below Python's own library folder, site-packages included; never what is in those files",
        "process ids: which exist, and whose they are (stat in /proc); no process can be read, timed or signalled",
        "the network is closed by seccomp and Landlock alone, not by a namespace of its own",
        "threads are bounded by memory_bytes alone, and there is no scratch directory",
    ),
}
"""What a program in each tier can learn of the machine, or lacks."""

DOCKER_LEAKS = (
    "the version of the kernel and the kind of processor (uname)",
    "the names, owners, sizes and times of the image's files, and of the engine's own /etc/hosts, /etc/hostname and "
    "/etc/resolv.conf (stat); what is in Python's own files and in the packages'",
    "process ids of its own container: numbers only",
    "in a container that serves run after run (per='tenant') there is no /tmp",
)
"""What a program in a container can learn, or lacks."""

SRT_LEAKS = (
    "srt alone, without Landlock and seccomp inside, as on macOS: processes of its own, the system's shared libraries, "
    "the packages beside Python's library, memory and queues that all guests of this user share (System V, POSIX), "
    "and on Linux /proc, /sys and a tmpfs that nothing bounds",
    "on macOS, nothing limits the memory of a program: macOS refuses the limit that memory_bytes is elsewhere",
)
"""What a program under srt can learn, or lacks, besides what tier 2 of the jail leaves."""

NOT_CONFINED = (
    "a bug in the Linux kernel: programs share the host's kernel (a virtual machine does not)",
    "side channels of the processor, and load: a program takes the processor time that its limits allow",
    "what your tools do: a program may call every tool it is offered, with any arguments that fit the schema",
    "what a program prints: it is the model's text, do not execute or trust it",
)
"""What no sandbox of callgate defends against."""


@dataclass(frozen=True, slots=True)
class Report:
    """Everything `examine` found."""

    verdict: str
    auto: str
    """What ``auto`` takes here: ``jail, tier 1``, ``docker``, ``jail, tier 2`` or ``srt``; empty if nothing works."""
    tier: int
    """The strongest tier of the jail that works; 0 where none does."""
    description: str
    """What confines a guest in the sandbox that ``auto`` takes."""
    facts: list[Fact]
    trials: list[Trial]
    docker: DockerReport
    srt: Trial
    leaks: list[str]
    not_confined: list[str]

    @property
    def ok(self) -> bool:
        """Whether programs can run confined."""
        return self.tier > 0 or self.docker.works or self.srt.works

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {"ok": self.ok, **asdict(self)}


async def examine() -> Report:
    """Look at the machine, and try both tiers, docker and srt. Takes some seconds, 60 at most; raises nothing."""
    facts = await look_at_machine()
    trials = [await _tried(tier) for tier in (1, 2)]
    docker = await examine_docker()
    srt = await tried(SrtBackend())
    best = next((trial for trial in trials if trial.works), None)
    tier = best.tier if best else 0
    # the rule of `callgate.sandbox.auto`, from what was tried
    by_docker = tier != 1 and docker.works and not docker.obstacles
    by_srt = sys.platform == "darwin" and not by_docker and srt.works
    auto = "docker" if by_docker else f"jail, tier {tier}" if tier else "srt" if by_srt else ""
    taken = docker.trial if by_docker else srt if by_srt else best
    return Report(
        verdict=_verdict(auto, facts, docker, srt),
        auto=auto,
        tier=tier,
        description=taken.description if taken else "",
        facts=facts,
        trials=trials,
        docker=docker,
        srt=srt,
        leaks=list(DOCKER_LEAKS if by_docker else SRT_LEAKS if by_srt else LEAKS.get(tier, ())),
        not_confined=list(NOT_CONFINED),
    )


async def _tried(tier: int) -> Trial:
    backend = JailBackend(tier=tier)
    trial = await tried(backend)
    return replace(trial, tier=tier, reason=backend.reasons.get(tier, trial.reason))


def _verdict(auto: str, facts: list[Fact], docker: DockerReport, srt: Trial) -> str:
    remedy = next((fact.remedy for fact in facts if fact.ok is False and fact.remedy), "")
    if auto == "jail, tier 1":
        return "programs run confined here, by the strongest tier of the jail"
    if auto == "srt":
        return "programs run confined here, under srt"
    if auto:
        by = "in containers" if auto == "docker" else "by tier 2 of the jail"
        return f"programs run confined here, {by}; for tier 1 of the jail: {remedy or 'see above'}"
    if docker.works:
        return f"programs run confined here, in containers, where sandbox='docker' is asked for: {docker.obstacles[0]}"
    if srt.works:
        return "programs run confined here, under srt, where sandbox='srt' is asked for"
    return f"no sandbox works here: {remedy or 'see above'}; or run them in containers: {docker.reason}"
