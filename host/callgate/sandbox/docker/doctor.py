"""Whether containers of a Docker engine work here, and if not, why and what to do. Asks the engine, and opens a guest.

1. A missing engine is a fact, not an error: only `must_be_ready` raises.
2. Everything ends in time, whatever the engine does: a daemon thread with an event loop of its own asks the engine, and
   is left behind when the time is over.
3. What an engine does not mention counts as missing; a peer that answers nonsense does not count as an engine.
"""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import anyio
import anyio.to_thread

from callgate.errors import CallgateError, ConfigurationError, SandboxUnavailable
from callgate.sandbox.self_test import Fact, Trial, tried

from .backend import DockerBackend
from .engine import Engine, EngineRefused, EngineUnreachable, late, within
from .hardening import HARDENED, LIMITS, missing_limits, runtimes_of
from .image import ImageFacts, ImageUnusable, usable
from .podman import about, is_podman

__all__ = ["DockerReport", "examine_docker", "look_at", "must_be_ready"]

_SECONDS = 14.0
"""At most half of this time is for looking: more than `Engine.connect` waits, whose error then is reported. The rest is
for trying."""
_HARD_LIMITS = ("MemoryLimit", "PidsLimit")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class DockerReport:
    """Everything `examine_docker` found."""

    works: bool = False
    """Whether a guest was opened."""
    reason: str = ""
    """Why it does not work, and what to do."""
    obstacles: list[str] = field(default_factory=list)
    """Why ``auto`` does not take it, though it works."""
    host: str = ""
    """Where the engine listens; empty if none answers."""
    facts: list[Fact] = field(default_factory=list)
    hardened: list[str] = field(default_factory=list)
    """What a guest's container gets."""
    lacks: list[str] = field(default_factory=list)
    """What this engine cannot give."""
    trial: Trial | None = None
    """``None`` if there is no image for a trial."""


async def examine_docker(seconds: float = _SECONDS) -> DockerReport:
    """Ask the engine that ``sandbox="docker"`` would take, and open a guest. Raises nothing.

    Args:
        seconds: longest duration, whatever the engine does.
    """
    end = time.monotonic() + seconds
    try:
        report = await _in_time(seconds / 2, _look)
    except CallgateError as error:
        return DockerReport(reason=str(error))
    except TimeoutError:
        return DockerReport(reason=late(_where(), seconds / 2))
    if report.reason:
        return report
    left = end - time.monotonic()
    try:
        trial = await _in_time(left, lambda: tried(DockerBackend()))
    except TimeoutError:
        trial = Trial(works=False, reason=f"{_where()} was asked for a guest and had none after {left:.1f} s")
    return replace(report, works=trial.works, reason=trial.reason, trial=trial)


async def must_be_ready(seconds: float) -> None:
    """Check whether ``auto`` may take docker. Asks the engine, and starts nothing.

    Raises:
        SandboxUnavailable: no engine answered within `seconds`, ``DOCKER_HOST`` or the docker context cannot be used,
        or the engine lacks a hard limit or the image; the message says what to do.
    """
    try:
        report = await _in_time(seconds, _look)
    except TimeoutError:
        raise EngineUnreachable(late(_where(), seconds)) from None
    except ConfigurationError as error:  # ``auto`` may take another sandbox
        raise SandboxUnavailable(str(error)) from error
    if report.obstacles or report.reason:
        raise SandboxUnavailable("; ".join(filter(None, (*report.obstacles, report.reason))))


async def _in_time(seconds: float, work: Callable[[], Awaitable[_T]]) -> _T:
    """Run `work` in an event loop of its own, and return its result. Raises its error, or `TimeoutError`."""
    run = partial(anyio.run, work, backend="asyncio")
    return await anyio.to_thread.run_sync(within, seconds, run, abandon_on_cancel=True)


async def _look() -> DockerReport:
    """What the engine says of itself. `reason` says why the engine cannot even be tried."""
    try:
        engine = await Engine.connect()
        try:
            report = look_at(*await about(engine))
            reason = ""
            try:
                fact = Fact("image", True, _image_line(await usable(engine)))
            except ImageUnusable as error:
                fact, reason = Fact("image", False, error.found, error.remedy), str(error)
        finally:
            await engine.close()
    except EngineRefused as error:
        raise EngineUnreachable(f"{_where()} does not say what it can do: {error}") from error
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise EngineUnreachable(
            f"{_where()} answers, but not as a Docker engine does ({type(error).__name__}: {error}): "
            "name an engine with DOCKER_HOST"
        ) from error
    facts = [Fact("host", None, engine.host), *report.facts, fact]
    return replace(report, host=engine.host, facts=facts, reason=reason)


def _image_line(image: ImageFacts) -> str:
    python = f"Python {image.python}, " if image.python else ""
    packages = " ".join(image.packages) or "no packages but the standard library"
    return f"{image.tag}: {python}{image.size_bytes / 1e6:.0f} MB, {packages}, built {image.created[:10]}"


def look_at(version: dict[str, Any], info: dict[str, Any]) -> DockerReport:
    """Read an engine's answers, as `podman.about` gives them: facts, what it lacks, why ``auto`` leaves it."""
    options = [str(option) for option in info.get("SecurityOptions") or ()]
    rootless = "name=rootless" in options
    make = "podman " if is_podman(version) else ""
    seccomp, limits = _seccomp(options), _limits(info, rootless=rootless)
    obstacles = [f"it cannot limit {LIMITS[key][0]}" for key in _HARD_LIMITS if key in missing_limits(info)]
    if seccomp.ok is False:
        obstacles.append(f"seccomp is {seccomp.found}")

    def answer(key: str) -> str:
        return str(info.get(key) or "unknown")

    where = f"on {answer('OperatingSystem')}, {answer('Architecture')}"
    return DockerReport(
        obstacles=[f"{each} (sandbox='docker' takes the engine all the same)" for each in obstacles],
        facts=[
            Fact("engine", True, f"{make}{version.get('Version')}, API {version.get('ApiVersion')}, {where}"),
            Fact("runs as", None, "an unprivileged user (rootless)" if rootless else "root"),
            Fact("runtimes", None, f"{', '.join(runtimes_of(info))}; default: {answer('DefaultRuntime')}"),
            seccomp,
            limits,
        ],
        hardened=list(HARDENED),
        lacks=_lacks(info, options),
    )


def _seccomp(options: list[str]) -> Fact:
    named = (option for option in options if option.startswith("name=seccomp"))
    profile = next((option.partition("profile=")[2] or "default" for option in named), "")
    if profile in ("", "unconfined"):
        found = (
            "switched off: the engine's default profile is unconfined" if profile else "not supported by this engine"
        )
        remedy = "start dockerd without --seccomp-profile=unconfined (seccomp-profile in /etc/docker/daemon.json)"
        return Fact("seccomp", False, found, remedy if profile else "use an engine and a kernel built with seccomp")
    own = "the engine's own profile" if profile in ("default", "builtin") else f"the engine's default is {profile}"
    return Fact("seccomp", True, own)


def _limits(info: dict[str, Any], *, rootless: bool) -> Fact:
    missing = missing_limits(info)
    if not missing:
        return Fact("limits", True, ", ".join(name for name, _ in LIMITS.values()))
    remedy = "enable the kernel's cgroup controllers: boot with cgroup_enable=memory swapaccount=1"
    if rootless:
        remedy = (
            "delegate the controllers of cgroup v2 (boot option systemd.unified_cgroup_hierarchy=1) to the engine's "
            "user: Delegate=cpu cpuset io memory pids in /etc/systemd/system/user@.service.d/delegate.conf, then "
            "systemctl daemon-reload, and log in again"
        )
    found = ", ".join(f"{LIMITS[key][0]} ({LIMITS[key][1]})" for key in missing)
    return Fact("limits", not set(missing) & set(_HARD_LIMITS) and None, f"not there: {found}", remedy)


def _lacks(info: dict[str, Any], options: list[str]) -> list[str]:
    """Protections that this engine does not have."""
    found = []
    if not {"name=userns", "name=rootless"} & set(options):
        found.append("no user-namespace remap: user 65534 in a container is user 65534 of the machine")
    if not any(option.startswith(("name=apparmor", "name=selinux")) for option in options):
        found.append("no AppArmor or SELinux around the containers")
    if not any(kind in name for name in runtimes_of(info) for kind in ("runsc", "kata")):
        found.append("no runtime with a kernel of its own (gVisor's runsc, kata): programs share the machine's kernel")
    return found


def _where() -> str:
    named = os.environ.get("DOCKER_HOST")
    return f"the Docker engine at {named}" if named else "the Docker engine"
