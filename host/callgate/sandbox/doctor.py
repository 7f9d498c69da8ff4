"""Can the jail work here, and if not, why and what to do. Starts each tier to find out; guesses nothing it can try.

The facts of the machine (`Fact`) explain; the trial of a tier (`TierTrial`) decides. Knows no command line.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import anyio.to_thread

import callgate_guest.wire
from callgate.errors import SandboxError
from callgate.limits import Limits

from .backend import Allowance
from .jail import JailBackend

__all__ = ["LEAKS", "NOT_CONFINED", "Fact", "Report", "TierTrial", "examine"]

LEAKS: dict[int, tuple[str, ...]] = {
    1: (
        "the version of the kernel and the kind of processor (uname)",
        "the files of the standard library, read-only, and which Python this is",
    ),
    2: (
        "the version of the kernel, the kind of processor and the host's name (uname)",
        "whether a path of the host exists, its owner, size and times (stat); never what is in a file or a folder",
        "names below Python's own library folder, site-packages included; never what is in those files",
        "process ids: numbers only, no other process can be seen or signalled",
        "the network is closed by seccomp and Landlock alone, not by a namespace of its own",
        "threads are bounded by memory_bytes alone, and there is no scratch directory",
    ),
}
"""What a program in each tier can learn of the machine, or lacks."""

NOT_CONFINED = (
    "a bug in the Linux kernel: programs share the host's kernel (a virtual machine does not)",
    "side channels of the processor, and load: a program takes the processor time that its limits allow",
    "what your tools do: a program may call every tool it is offered, with any arguments that fit the schema",
    "what a program prints: it is the model's text, do not execute or trust it",
)
"""What no tier defends against."""

_GUEST_ROOT = str(Path(callgate_guest.wire.__file__).parent.parent)
_PROBE = (
    "import json, sys; sys.path.append({root!r})\n"
    "from callgate_guest.jail import landlock, namespaces, syscalls\n"
    "told = dict(known=syscalls.supported(), landlock=landlock.abi() if syscalls.supported() else 0, userns=None)\n"
    "try: namespaces.unshare(namespaces.USER)\n"
    "except OSError as error: told['userns'] = error.strerror\n"
    "print(json.dumps(told))\n"
)


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing found out about the machine."""

    name: str
    ok: bool | None
    """Whether it is as the jail needs it; ``None`` where it does not matter by itself."""
    found: str
    remedy: str = ""
    """What to do, where it is not ok."""


@dataclass(frozen=True, slots=True)
class TierTrial:
    """What came of starting one tier."""

    tier: int
    works: bool
    description: str = ""
    """What confines a guest in it."""
    reason: str = ""
    """Why not."""
    start_seconds: float = 0.0
    """From nothing to a proven zygote."""
    open_seconds: float = 0.0
    """One more guest."""


@dataclass(frozen=True, slots=True)
class Report:
    """Everything `examine` found."""

    verdict: str
    tier: int
    """The tier that ``auto`` takes here; 0 where none works."""
    description: str
    facts: list[Fact]
    trials: list[TierTrial]
    leaks: list[str]
    not_confined: list[str]
    alternatives: list[Fact] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether programs can run confined."""
        return self.tier > 0

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {"ok": self.ok, **asdict(self)}


async def examine() -> Report:
    """Look at the machine and try both tiers. Takes about a second; raises nothing."""
    facts = _facts(await anyio.to_thread.run_sync(_probe))
    trials = [await _try(tier) for tier in (1, 2)]
    tier = next((trial.tier for trial in trials if trial.works), 0)
    return Report(
        verdict=_verdict(tier, facts),
        tier=tier,
        description=next((trial.description for trial in trials if trial.tier == tier), ""),
        facts=facts,
        trials=trials,
        leaks=list(LEAKS.get(tier, ())),
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
                tier, True, backend.description, start_seconds=ready - started, open_seconds=opened - ready
            )
    except SandboxError as error:
        return TierTrial(tier, False, reason=backend.reasons.get(tier, str(error)))


def _verdict(tier: int, facts: list[Fact]) -> str:
    if tier == 1:
        return "programs run confined here, by the strongest tier of the jail"
    remedies = [fact.remedy for fact in facts if fact.ok is False and fact.remedy]
    todo = f": {remedies[0]}" if remedies else ""
    if tier == 2:
        return f"programs run confined here, by tier 2 of the jail; for tier 1{todo or ' see above'}"
    return f"no sandbox works here{todo}"


def _probe() -> dict[str, Any]:
    """What the kernel says to a process that asks; in a child, since asking for a namespace takes effect."""
    if sys.platform != "linux":
        return {}
    executable = getattr(sys, "_base_executable", None) or sys.executable
    ran = subprocess.run(
        [executable, "-I", "-S", "-B", "-c", _PROBE.format(root=_GUEST_ROOT)],
        env={}, cwd="/", capture_output=True, timeout=20, check=False,
    )  # fmt: skip
    try:
        told: dict[str, Any] = json.loads(ran.stdout)
    except ValueError:
        return {}
    return told


def _facts(probe: dict[str, Any]) -> list[Fact]:
    linux = sys.platform == "linux"
    facts = [Fact("operating system", linux, platform.platform(terse=True), "" if linux else "the jail needs Linux")]
    if not linux:
        return facts
    known = bool(probe.get("known"))
    facts.append(Fact("processor", known, platform.machine(), "" if known else "the jail knows x86_64 and aarch64"))
    facts.append(Fact("python", True, f"{platform.python_version()}, {platform.libc_ver()[0] or 'unknown libc'}"))
    facts.append(Fact("user", None, "root" if os.geteuid() == 0 else f"uid {os.geteuid()}"))
    container = _container()
    facts.append(Fact("container", None, container or "none noticed"))
    refused = probe.get("userns", "could not be asked")
    facts.append(
        Fact(
            "user namespaces", refused is None, "allowed" if refused is None else f"forbidden: {refused}",
            "" if refused is None else _namespace_remedy(container),
        )
    )  # fmt: skip
    abi = int(probe.get("landlock", 0))
    facts.append(
        Fact("landlock", abi > 0, f"ABI {abi}" if abi else "not there",
             "" if abi else "use Linux 5.13 or newer, booted with landlock in the lsm= list")
    )  # fmt: skip
    return facts


def _namespace_remedy(container: str) -> str:
    """Which setting forbids user namespaces, as far as the machine tells."""
    if _setting("/proc/sys/user/max_user_namespaces") == "0":
        return "sysctl -w user.max_user_namespaces=15000 (it is 0)"
    if _setting("/proc/sys/kernel/unprivileged_userns_clone") == "0":
        return "sysctl -w kernel.unprivileged_userns_clone=1 (it is 0)"
    if _setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1":
        return (
            "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0 (it is 1), "
            "or give python an AppArmor profile with userns"
        )
    if container or _status("Seccomp") != "0":
        return (
            "the container's seccomp profile forbids them: start it with a profile that allows unshare, mount and "
            "pivot_root (--security-opt seccomp=FILE), or stay with tier 2"
        )
    return "a security module forbids them: ask whoever administers this machine, or stay with tier 2"


def _setting(path: str) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None


def _status(name: str) -> str:
    """A field of this process's own status; empty where there is none."""
    text = _setting("/proc/self/status") or ""
    return next((line.split()[1] for line in text.splitlines() if line.startswith(f"{name}:")), "")


def _container() -> str:
    if os.path.exists("/.dockerenv"):
        return "docker"
    if os.path.exists("/run/.containerenv"):
        return "podman"
    return dict(os.environ).get("container", "") or ("kubernetes" if "KUBERNETES_SERVICE_HOST" in os.environ else "")


def _alternatives() -> list[Fact]:
    found = shutil.which("bwrap")
    return [
        Fact("bubblewrap", None, f"{found}, not used" if found else "not installed, not needed"),
        Fact("unsafe", None, "always there, confines nothing: for debugging only"),
    ]  # fmt: skip
