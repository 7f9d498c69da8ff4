"""What a figure was measured on: kernel, processors, interpreter, versions, load. Names no machine."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from importlib import metadata

__all__ = ["describe", "load"]


def describe() -> str:
    """One line: the kind of machine, and the versions of everything that was measured."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count()
    parts = [
        f"{platform.system()} {platform.release()} {platform.machine()}",
        f"{cores} cores",
        f"Python {platform.python_version()}",
        *(
            f"{name} {version}"
            for name in ("callgate", "anyio", "pydantic-monty", "langgraph", "llm-sandbox")
            if (version := _version(name))
        ),
        _bubblewrap(),
        _docker(),
    ]
    return ", ".join(part for part in parts if part)


def load() -> str:
    """The load average over one, five and fifteen minutes."""
    try:
        return " ".join(f"{value:.2f}" for value in os.getloadavg())
    except OSError:
        return "unknown"


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def _bubblewrap() -> str:
    return _said("bwrap", "--version")


def _docker() -> str:
    """The engine that the docker command reaches."""
    version = _said("docker", "version", "--format", "{{.Server.Version}}")
    return f"Docker {version}" if version else ""


def _said(program: str, *arguments: str) -> str:
    """What a program says of itself; empty where it is not there, fails or hangs."""
    found = shutil.which(program)
    if found is None:
        return ""
    try:
        done = subprocess.run([found, *arguments], capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
