"""What confines programs here, and if nothing does, why and what to do. Starts each sandbox; guesses nothing.

The facts of the machine (`Fact`) explain; the trial of a tier (`TierTrial`), and that of docker, decide. Knows no
command line.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import asdict, dataclass, field
from typing import Any

from callgate.errors import SandboxError
from callgate.limits import Limits

from .backend import Allowance
from .docker.doctor import DockerReport, examine_docker
from .fact import Fact, Trial
from .jail import JailBackend
from .machine import look_at_machine

__all__ = ["DOCKER_LEAKS", "LEAKS", "NOT_CONFINED", "Report", "TierTrial", "examine"]

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

NOT_CONFINED = (
    "a bug in the Linux kernel: programs share the host's kernel (a virtual machine does not)",
    "side channels of the processor, and load: a program takes the processor time that its limits allow",
    "what your tools do: a program may call every tool it is offered, with any arguments that fit the schema",
    "what a program prints: it is the model's text, do not execute or trust it",
)
"""What no tier defends against."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TierTrial(Trial):
    """What came of starting one tier of the jail."""

    tier: int


@dataclass(frozen=True, slots=True)
class Report:
    """Everything `examine` found."""

    verdict: str
    auto: str
    """What ``auto`` takes here: ``jail, tier 1``, ``docker`` or ``jail, tier 2``; empty where it finds nothing."""
    tier: int
    """The strongest tier of the jail that works; 0 where none does."""
    description: str
    """What confines a guest in the sandbox that ``auto`` takes."""
    facts: list[Fact]
    trials: list[TierTrial]
    docker: DockerReport
    leaks: list[str]
    not_confined: list[str]
    alternatives: list[Fact] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether programs can run confined."""
        return self.tier > 0 or self.docker.works

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {"ok": self.ok, **asdict(self)}


async def examine() -> Report:
    """Look at the machine, and try both tiers and docker. Takes a second or two, 20 at most; raises nothing."""
    facts = await look_at_machine()
    trials = [await _try(tier) for tier in (1, 2)]
    docker = await examine_docker()
    tier = next((trial.tier for trial in trials if trial.works), 0)
    auto = _auto(tier, docker)
    return Report(
        verdict=_verdict(auto, facts, docker),
        auto=auto,
        tier=tier,
        description=_description(auto, trials, docker),
        facts=facts,
        trials=trials,
        docker=docker,
        leaks=list(DOCKER_LEAKS if auto == "docker" else LEAKS.get(tier, ())),
        not_confined=list(NOT_CONFINED),
        alternatives=_alternatives(),
    )


async def _try(tier: int) -> TierTrial:
    started = time.perf_counter()
    backend = JailBackend(tier=tier)
    try:
        async with backend:
            ready = time.perf_counter()
            guest = await backend.open(Allowance.of(Limits()))
            opened = time.perf_counter()
            await guest.aclose()
            return TierTrial(
                tier=tier,
                works=True,
                description=backend.description,
                start_seconds=ready - started,
                open_seconds=opened - ready,
            )
    except SandboxError as error:
        return TierTrial(tier=tier, works=False, reason=backend.reasons.get(tier, str(error)))


def _auto(tier: int, docker: DockerReport) -> str:
    """The rule of `callgate.sandbox.auto`, from what was tried."""
    if tier == 1:
        return "jail, tier 1"
    if docker.works and not docker.obstacles:
        return "docker"
    return f"jail, tier {tier}" if tier else ""


def _description(auto: str, trials: list[TierTrial], docker: DockerReport) -> str:
    if auto == "docker":
        return docker.trial.description if docker.trial else ""
    return next((trial.description for trial in trials if auto == f"jail, tier {trial.tier}"), "")


def _verdict(auto: str, facts: list[Fact], docker: DockerReport) -> str:
    remedies = [fact.remedy for fact in facts if fact.ok is False and fact.remedy]
    todo = f": {remedies[0]}" if remedies else ""
    if auto == "jail, tier 1":
        return "programs run confined here, by the strongest tier of the jail"
    if auto == "docker":
        return f"programs run confined here, in containers; for tier 1 of the jail{todo or ' see above'}"
    if auto == "jail, tier 2":
        return f"programs run confined here, by tier 2 of the jail; for tier 1{todo or ' see above'}"
    if docker.works:
        return f"programs run confined here, in containers, where sandbox='docker' is asked for: {docker.obstacles[0]}"
    return f"no sandbox works here{todo}; or run them in containers: {docker.reason}"


def _alternatives() -> list[Fact]:
    found = shutil.which("bwrap")
    return [
        Fact("bubblewrap", None, f"{found}, not used" if found else "not installed, not needed"),
        Fact("unsafe", None, "always there, confines nothing: for debugging only"),
    ]  # fmt: skip
