"""What an engine says of itself, as facts: how it confines a container, and what it cannot do. Asks nothing itself.

Takes the answers to ``GET /version`` and ``GET /info`` as they came: an engine of another make may leave anything out,
or put anything in. What is not said to be there counts as missing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from callgate.sandbox.fact import Fact

from .hardening import missing_limits

__all__ = ["EngineLook", "look_at"]

_LIMITS = {"memory": "MemoryLimit", "swap": "SwapLimit", "processes": "PidsLimit", "processor time": "CpuCfsQuota"}
_HARD_LIMITS = ("memory", "processes")
_STRONGER = {
    "runsc": "gVisor: system calls end in a kernel of its own",
    "kata": "a virtual machine for each container",
}
_SHIMS = ("io.containerd.runc.v2", "io.containerd.runtime.v1.linux")
"""Names under which engines list runc a second time."""
_LANDLOCK_SINCE = (5, 13)
_ABOUT_NETWORKS = "bridge-nf-call"
"""Warnings of this kind are about containers that have a network."""


@dataclass(frozen=True, slots=True)
class EngineLook:
    """An engine, by its own account."""

    version: str
    rootless: bool
    runtimes: tuple[str, ...]
    """Names that ``runtime=`` takes there, the default one first."""
    facts: tuple[Fact, ...]
    lacks: tuple[str, ...]
    """What it cannot give, in words for people."""
    obstacles: tuple[str, ...]
    """Why ``auto`` leaves it alone; empty where it may be taken."""


def look_at(version: Any, info: Any) -> EngineLook:
    """Read the engine's answers."""
    version, info = _object(version), _object(info)
    options = [str(option) for option in _list(info.get("SecurityOptions"))]
    rootless = "name=rootless" in options
    seccomp = _seccomp(options)
    limits = _limits(info, rootless=rootless)
    said = {key: info.get(key) is True for key in _LIMITS.values()}
    lacks = [*(f"no limit of {what}" for what in missing_limits(said)), *_open(info, options)]
    runtimes = _runtimes(info)
    obstacles = [f"it cannot limit {name}" for name in _HARD_LIMITS if info.get(_LIMITS[name]) is not True]
    if seccomp.ok is False:
        obstacles.append(f"seccomp is {seccomp.found}")
    named = _text(version.get("Version"))
    where = ", ".join(filter(None, (_text(info.get("OperatingSystem"), ""), _text(info.get("Architecture"), ""))))
    facts = [
        Fact("engine", True, f"{named}, API {_text(version.get('ApiVersion'))}" + (f", on {where}" if where else "")),
        Fact("runs as", None, "an unprivileged user (rootless)" if rootless else "root"),
        Fact(
            "cgroup",
            None,
            f"version {_text(info.get('CgroupVersion'))}, driver {_text(info.get('CgroupDriver'))}",
        ),
        Fact("storage driver", None, _text(info.get("Driver"))),
        Fact("runtimes", None, _told(runtimes)),
        seccomp,
        limits,
    ]
    return EngineLook(named, rootless, runtimes, tuple(facts), tuple(lacks), tuple(obstacles))


def _seccomp(options: list[str]) -> Fact:
    given = next((option for option in options if option.startswith("name=seccomp")), None)
    if given is None:
        return Fact(
            "seccomp", False, "not supported by this engine", "use an engine and a kernel that are built with seccomp"
        )
    profile = given.partition("profile=")[2] or "default"
    if profile == "unconfined":
        return Fact(
            "seccomp", False, "switched off: the engine's default profile is unconfined",
            "start dockerd without --seccomp-profile=unconfined (seccomp-profile in /etc/docker/daemon.json)",
        )  # fmt: skip
    own = "the engine's own profile" if profile in ("default", "builtin") else f"the engine's default is {profile}"
    return Fact("seccomp", True, own)


def _limits(info: Mapping[str, Any], *, rootless: bool) -> Fact:
    there = [name for name, key in _LIMITS.items() if info.get(key) is True]
    absent = [name for name in _LIMITS if name not in there]
    if not absent:
        return Fact("limits", True, ", ".join(there))
    if rootless and _text(info.get("CgroupVersion")) == "1":
        remedy = "a rootless engine limits nothing on cgroup v1: boot with systemd.unified_cgroup_hierarchy=1"
    elif rootless:
        remedy = (
            "delegate the controllers to the engine's user: Delegate=cpu cpuset io memory pids in "
            "/etc/systemd/system/user@.service.d/delegate.conf, then systemctl daemon-reload, and log in again"
        )
    elif absent == ["swap"]:
        remedy = "boot with swapaccount=1, or switch swap off"
    else:
        remedy = (
            f"enable the cgroup controllers of: {', '.join(absent)} (boot options cgroup_enable=..., swapaccount=1)"
        )
    return Fact("limits", not set(absent) & set(_HARD_LIMITS) and None, f"not there: {', '.join(absent)}", remedy)


def _open(info: Mapping[str, Any], options: list[str]) -> list[str]:
    """What else is missing, and what the engine itself warns of."""
    found = []
    if not {"name=userns", "name=rootless"} & set(options):
        found.append("no user-namespace remap: user 65534 in a container is user 65534 of the machine")
    if not any(option.startswith(("name=apparmor", "name=selinux")) for option in options):
        found.append("no AppArmor or SELinux around the containers")
    kernel = _text(info.get("KernelVersion"))
    numbers = re.match(r"(\d+)\.(\d+)", kernel)
    if numbers and (int(numbers[1]), int(numbers[2])) < _LANDLOCK_SINCE:
        found.append(f"no Landlock inside: kernel {kernel} is older than 5.13")
    runtimes = _runtimes(info)
    if not any(kind in name for name in runtimes for kind in _STRONGER):
        found.append("no runtime with a kernel of its own (gVisor's runsc, kata): programs share the machine's kernel")
    warned = [str(warning).removeprefix("WARNING: ") for warning in _list(info.get("Warnings"))]
    told = {f"No {name} limit support" for name in ("memory", "swap", "pids", "cpu cfs quota")}  # said already
    return found + [f"the engine warns: {each}" for each in warned if _ABOUT_NETWORKS not in each and each not in told]


def _runtimes(info: Mapping[str, Any]) -> tuple[str, ...]:
    names = [str(name) for name in _object(info.get("Runtimes")) if name not in _SHIMS]
    default = info.get("DefaultRuntime")
    return tuple(sorted(names, key=lambda name: (name != default, name)))


def _told(runtimes: tuple[str, ...]) -> str:
    told = []
    for name in runtimes:
        kind = next((kind for kind in _STRONGER if kind in name), None)
        told.append(f"{name} ({_STRONGER[kind]})" if kind else name)
    return f"{', '.join(told)}; the first is the default" if len(told) > 1 else told[0] if told else "none named"


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any, otherwise: str = "not said") -> str:
    return value if isinstance(value, str) and value else otherwise
