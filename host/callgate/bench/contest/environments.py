"""Environments of contestants: each peer's packages in a virtual environment of its own, made once and kept.

An environment has the standard library, what its peer requires, and the package `callgate` by a link to the one that
runs here; nothing of what callgate itself requires. Its name has a hash of all that it depends on (the requirements,
the interpreter, where callgate is), so harnesses with different ones have different environments. It is whole once its
mark is there, which is written last. A lock keeps two harnesses from making the same one. What makes it holds the lock,
too, and the kernel gives it back when the last of them is dead; what they left without the mark is made afresh. What is
made is never updated: remove the folder to have it made again, with what is new by then.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import anyio
import anyio.to_thread

import callgate
from callgate.bench.contestants.listed import Listed
from callgate.bench.peers.process import NOT_FOR_ENVIRONMENTS, without

__all__ = ["Environment", "cache_folder", "ready"]

_MAKING_SECONDS = 300.0
_PROBE_SECONDS = 60.0
_LOCK_SECONDS = 0.2
_REASON_CHARACTERS = 400
_MARK = "whole"
_SOURCE = "callgate_source"
_PTH = "callgate_source.pth"
_PIP_OPTIONS = ("--disable-pip-version-check", "--no-input", "--no-compile", "--retries", "2")

_PROBE = """
import importlib.metadata, json, sys
import callgate.bench.serving, callgate.bench.contestants.seat
print(json.dumps({name: importlib.metadata.version(name) for name in sys.argv[1:]}))
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Environment:
    """Where a contestant's process runs.

    Attributes:
        python: path of its interpreter.
        versions: of the packages that were asked for, by name.
        failure: why it cannot be had; empty where it can.
    """

    python: str = sys.executable
    versions: Mapping[str, str] = field(default_factory=dict)
    failure: str = ""


class _Failed(Exception):
    """The text says why, for the contestant's row."""


class _Slow(Exception):
    """It is no reason to make it afresh: the machine is busy, or it is used at the moment."""


def cache_folder() -> Path:
    """Where environments are kept: ``callgate/bench`` below ``$XDG_CACHE_HOME``, or below ``~/.cache``."""
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (named if named.is_absolute() else Path.home() / ".cache") / "callgate" / "bench"


async def ready(
    listed: Listed,
    *,
    folder: Path | None = None,
    making_seconds: float = _MAKING_SECONDS,
    told: Callable[[str], None] = lambda _: None,
) -> Environment:
    """The environment of a contestant, made if it is not there. Raises nothing: what went wrong is its `failure`.

    Args:
        listed: whose.
        folder: where environments are kept; `cache_folder` by default.
        making_seconds: how long making it, or waiting for another harness that makes it, may take.
        told: called with what is being done, where that takes long.
    """
    if listed.cannot:
        return Environment(failure=listed.cannot)
    missing = [each for each in listed.commands if shutil.which(each) is None]
    if missing:
        return Environment(failure=f"not on this machine: {', '.join(missing)}")
    if not listed.requirements:
        return Environment()
    try:
        with anyio.fail_after(making_seconds):
            return await _whole(listed, cache_folder() if folder is None else folder, told)
    except TimeoutError:
        return Environment(failure=f"its environment was not made within {making_seconds:g} s")
    except (_Failed, _Slow, OSError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        return Environment(failure=f"no environment: {reason[:_REASON_CHARACTERS]}")


async def _whole(listed: Listed, folder: Path, told: Callable[[str], None]) -> Environment:
    home = _place(listed, folder)
    async with _locked(home.with_name(home.name + ".lock")) as lock:
        if (home / _MARK).exists():
            with contextlib.suppress(_Failed):
                _link(home)
                return await _probed(home, listed)
        told(f"making an environment for {listed.name}")
        try:
            await _make(home, listed, lock)
            environment = await _probed(home, listed)
            (home / _MARK).touch()
        finally:
            if not (home / _MARK).exists():
                with anyio.CancelScope(shield=True):
                    await _remove(home)
        return environment


def _place(listed: Listed, folder: Path) -> Path:
    python = (sys.implementation.cache_tag, platform.python_version(), sys.base_prefix)
    told = json.dumps([sorted(listed.requirements), python, str(_package())])
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{listed.name}-{hashlib.sha256(told.encode()).hexdigest()[:16]}"


def _package() -> Path:
    package = Path(callgate.__file__).resolve().parent
    if not package.is_dir():
        raise _Failed(f"callgate is no folder: {package}")
    return package


@contextlib.asynccontextmanager
async def _locked(path: Path) -> AsyncIterator[int]:
    with path.open("a") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await anyio.sleep(_LOCK_SECONDS)
        yield lock.fileno()


async def _make(home: Path, listed: Listed, lock: int) -> None:
    await _remove(home)
    python = str(home / "bin" / "python")
    if find_spec("pip"):  # which spares the environment one of its own, and the seconds that takes
        without, pip = ["--without-pip"], [sys.executable, "-m", "pip", "--python", python]
    else:
        without, pip = [], [python, "-m", "pip"]
    await _run([sys.executable, "-m", "venv", *without, str(home)], "venv", lock)
    await _run([*pip, "install", *_PIP_OPTIONS, *listed.requirements], "pip", lock)
    _link(home)


async def _remove(home: Path) -> None:
    def remove() -> None:
        (home / _MARK).unlink(missing_ok=True)
        shutil.rmtree(home, ignore_errors=True)

    await anyio.to_thread.run_sync(remove)


def _link(home: Path) -> None:
    """Show callgate to the environment. Each step is done whole or not at all: a process may be starting in it."""
    source, package = home / _SOURCE, _package()
    source.mkdir(exist_ok=True)
    link = source / "callgate"
    if not link.is_symlink() or link.readlink() != package:
        fresh = source / f"callgate.{os.getpid()}"
        fresh.unlink(missing_ok=True)  # of one with the same number that was killed
        fresh.symlink_to(package)
        fresh.replace(link)
    for packages in home.glob("lib/python*/site-packages"):
        if not (packages / _PTH).exists():
            (packages / _PTH).write_text(f"{source}\n", encoding="utf-8")


async def _probed(home: Path, listed: Listed) -> Environment:
    python = str(home / "bin" / "python")
    names = [re.split(r"[^A-Za-z0-9._-]", each.strip(), maxsplit=1)[0] for each in listed.requirements]
    with anyio.move_on_after(_PROBE_SECONDS):
        told = await _run([python, "-P", "-c", _PROBE, *names], "its interpreter")
        try:
            return Environment(python=python, versions=json.loads(told.splitlines()[-1]))
        except (ValueError, IndexError):
            raise _Failed(f"its interpreter said {told!r}") from None
    raise _Slow(f"{python} did not answer within {_PROBE_SECONDS:g} s")


async def _run(command: Sequence[str], what: str, *descriptors: int) -> str:
    """Run a command that ends with this task and has these descriptors; returns what it wrote.

    Raises:
        _Failed: it could not be started, or did not end well.
    """
    variables = without(NOT_FOR_ENVIRONMENTS)
    with tempfile.TemporaryFile() as output:
        try:
            process = await anyio.open_process(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=variables,
                start_new_session=True, pass_fds=descriptors,
            )  # fmt: skip
        except OSError as error:
            raise _Failed(f"{what}: {error}") from None
        try:
            await process.wait()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            with anyio.CancelScope(shield=True):
                await process.wait()
                await process.aclose()
        output.seek(0)
        told = output.read().decode("utf-8", "replace")
    if process.returncode:
        raise _Failed(f"{what}: {_gist(told) or f'status {process.returncode}'}")
    return told


def _gist(told: str) -> str:
    """What is worth saying of an output: its errors, else its last line."""
    lines = [line.strip() for line in told.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    unreached = any("after connection broken by" in line for line in lines)
    return "; ".join([*(["the package index was not reached"] if unreached else []), *(errors or lines[-1:])])
