"""Environments of contestants: each peer's packages in a folder of its own, made once and kept.

A folder has what pip installs for its peer; `process` runs a bare Python with that folder, this package's source and
the standard library, and nothing of what callgate itself requires. Its name has a hash of the requirements and the
interpreter. It is made under another name and renamed when it is whole, so it is whole or not there; of two harnesses
that make it at the same time the first one wins. What is made is never updated: remove the folder to have it made
again, with what is new by then.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import anyio

from callgate.cut import cut
from callgate_bench.contest.process import NOT_FOR_ENVIRONMENTS, without
from callgate_bench.contestants.listed import Listed

__all__ = ["Environment", "cache_folder", "ready"]

_MAKING_SECONDS = 300.0
_PIP_OPTIONS = ("--disable-pip-version-check", "--no-input", "--no-compile", "--retries", "2")


@dataclass(frozen=True, kw_only=True, slots=True)
class Environment:
    """Where a contestant's process runs.

    Attributes:
        packages: the folder of its packages; empty for a process that runs where the harness runs.
        failure: why it cannot be had; empty where it can.
    """

    packages: str = ""
    failure: str = ""


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
        making_seconds: how long making it may take.
        told: called with what is being done, where that takes long.
    """
    if listed.cannot:
        return Environment(failure=listed.cannot)
    missing = [each for each in listed.commands if shutil.which(each) is None]
    if missing:
        return Environment(failure=f"not on this machine: {', '.join(missing)}")
    if not listed.requirements:
        return Environment()
    depends = [
        _PIP_OPTIONS,
        sorted(listed.requirements),
        sys.implementation.cache_tag,
        platform.python_version(),
        sys.base_prefix,
    ]
    name = f"{listed.name}-{hashlib.sha256(json.dumps(depends).encode()).hexdigest()[:16]}"
    home = (cache_folder() if folder is None else folder) / name
    try:
        if not home.exists():
            told(f"making an environment for {listed.name}")
            with anyio.fail_after(making_seconds):
                await _make(home, listed)
    except TimeoutError:
        return Environment(failure=f"its environment was not made within {making_seconds:g} s")
    except (OSError, RuntimeError) as error:
        return Environment(failure=f"no environment: {cut(' '.join(str(error).split()), 400)}")
    return Environment(packages=str(home))


async def _make(home: Path, listed: Listed) -> None:
    """Raises `RuntimeError` where pip fails."""
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home.parent, prefix=f"{home.name}.") as unfinished:
        new = Path(unfinished, "packages")
        done = await anyio.run_process(
            [sys.executable, "-m", "pip", "install", *_PIP_OPTIONS, "--target", str(new), *listed.requirements],
            stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT, check=False, env=without(NOT_FOR_ENVIRONMENTS),
        )  # fmt: skip
        if done.returncode:
            lines = done.stdout.decode(errors="replace").strip().splitlines()
            errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
            raise RuntimeError(f"pip: {'; '.join(errors or lines[-1:]) or f'status {done.returncode}'}")
        try:
            new.rename(home)  # noqa: ASYNC240 (the same)
        except OSError:
            if not home.exists():  # noqa: ASYNC240
                raise
