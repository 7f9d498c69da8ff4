"""Can containers of a Docker engine work here, and if not, why and what to do. Asks the engine, and opens a guest.

1. No engine is a fact, not an error: nothing here raises but `must_be_ready`.
2. Everything ends in time, whatever the engine does: it is asked from a daemon thread with an event loop of its own,
   which is given up when its time is over.
"""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import anyio
import anyio.to_thread

from callgate.errors import CallgateError, ConfigurationError, SandboxUnavailable
from callgate.limits import Limits
from callgate.sandbox.backend import Allowance
from callgate.sandbox.fact import Fact, Trial

from .backend import DockerBackend
from .engine import Engine, EngineRefused, EngineUnreachable
from .hardening import HARDENED
from .image import DEFAULT_TAG, ImageFacts, find
from .look import EngineLook, look_at
from .patience import within

__all__ = ["DockerReport", "examine_docker", "must_be_ready"]

_SECONDS = 14.0
"""Half of it at most to look: more than `Engine.connect` waits, so that its own words are heard. The rest to try."""
_BUILD = "callgate image build (where there is no registry: callgate image build --base host)"
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class DockerReport:
    """Everything `examine_docker` found."""

    works: bool
    """Whether a guest was opened."""
    reason: str = ""
    """Why not, and what to do."""
    obstacles: list[str] = field(default_factory=list)
    """Why ``auto`` does not take it, though it works."""
    host: str = ""
    """Where the engine listens; empty where none answers."""
    facts: list[Fact] = field(default_factory=list)
    hardened: list[str] = field(default_factory=list)
    """What a guest's container gets."""
    lacks: list[str] = field(default_factory=list)
    """What this engine cannot give."""
    trial: Trial | None = None
    """``None`` where there is no image to try it with."""


@dataclass(frozen=True, slots=True)
class _Survey:
    host: str
    look: EngineLook
    image: ImageFacts | None


async def examine_docker(seconds: float = _SECONDS) -> DockerReport:
    """Ask the engine that ``sandbox="docker"`` would take, and try it. Raises nothing.

    Args:
        seconds: when it ends, whatever the engine does.
    """
    started = time.monotonic()
    try:
        survey = await _in_time(seconds / 2, _survey)
    except TimeoutError:
        return DockerReport(False, _silent(seconds / 2))
    except CallgateError as error:
        return DockerReport(False, str(error))
    image = _image_fact(survey.image)
    trial = None
    if survey.image is not None:
        left = seconds - (time.monotonic() - started)
        try:
            trial = await _in_time(left, _try)
        except TimeoutError:
            trial = Trial(works=False, reason=f"{_where()} was asked for a guest and had none after {left:.1f} s")
    if trial is None:
        reason = f"{image.found}: {image.remedy}"
    else:
        reason = trial.reason
    return DockerReport(
        works=trial is not None and trial.works,
        reason=reason,
        obstacles=_obstacles(survey),
        host=survey.host,
        facts=[Fact("host", None, survey.host), *survey.look.facts, image],
        hardened=list(HARDENED),
        lacks=list(survey.look.lacks),
        trial=trial,
    )


async def must_be_ready(seconds: float) -> None:
    """Look whether containers may be taken without being asked for; asks the engine, and starts nothing.

    Raises:
        SandboxUnavailable: no engine answered within `seconds`, ``DOCKER_HOST`` or the docker context cannot be used,
        or the engine lacks a hard limit or the image; the message says what to do.
    """
    try:
        survey = await _in_time(seconds, _survey)
    except TimeoutError:
        raise EngineUnreachable(_silent(seconds)) from None
    except ConfigurationError as error:  # nobody has asked for docker
        raise SandboxUnavailable(str(error)) from error
    obstacles = _obstacles(survey)
    if obstacles:
        raise SandboxUnavailable("; ".join(obstacles))


def _obstacles(survey: _Survey) -> list[str]:
    found = [f"{each} (sandbox='docker' takes the engine all the same)" for each in survey.look.obstacles]
    image = _image_fact(survey.image)
    return [*found, f"{image.found}: {image.remedy}"] if image.ok is False else found


async def _in_time(seconds: float, work: Callable[[], Awaitable[_T]]) -> _T:
    """What `work` gives in an event loop of its own. Raises what it raises, or `TimeoutError`."""
    run = partial(anyio.run, work, backend="asyncio")
    return await anyio.to_thread.run_sync(within, seconds, run, abandon_on_cancel=True)


async def _survey() -> _Survey:
    try:
        engine = await Engine.connect()
        try:
            look = look_at(await engine.call("version"), await engine.call("info"))
            return _Survey(engine.host, look, await find(engine, DEFAULT_TAG))
        finally:
            await engine.close()
    except EngineRefused as error:
        raise EngineUnreachable(f"{_where()} does not say what it can do: {error}") from error
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise EngineUnreachable(
            f"{_where()} answers, but not as a Docker engine does ({type(error).__name__}: {error}): "
            "name an engine with DOCKER_HOST"
        ) from error


async def _try() -> Trial:
    started = time.perf_counter()
    try:
        async with DockerBackend() as backend:
            ready = time.perf_counter()
            guest = await backend.open(Allowance.of(Limits()))
            opened = time.perf_counter()
            await guest.aclose()
            return Trial(
                works=True, description=backend.description, start_seconds=ready - started, open_seconds=opened - ready
            )
    except EngineRefused as error:
        return Trial(works=False, reason=f"{_where()} refused: {error}")
    except CallgateError as error:
        return Trial(works=False, reason=str(error))


def _image_fact(image: ImageFacts | None) -> Fact:
    if image is None:
        return Fact("image", False, f"there is no image {DEFAULT_TAG}", _BUILD)
    about = [
        f"Python {image.python}" if image.python else "",
        f"{image.size_bytes / 1e6:.0f} MB",
        " ".join(image.packages) or "no packages but the standard library",
        f"built {image.created[:10]}",
    ]
    if image.outdated:
        holds = f"holds the guest {image.guest or 'of nobody knows what'}"
        return Fact("image", False, f"the image {image.tag} is outdated: it {holds}, not this callgate's", _BUILD)
    return Fact("image", True, f"{image.tag}: {', '.join(filter(None, about))}")


def _silent(seconds: float) -> str:
    return f"{_where()} did not answer within {seconds:g} s: restart it (systemctl restart docker)"


def _where() -> str:
    named = os.environ.get("DOCKER_HOST")
    return f"the Docker engine at {named}" if named else "the Docker engine"
