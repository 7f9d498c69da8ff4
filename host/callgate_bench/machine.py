"""What a figure was measured on: kernel, processors, interpreter, versions, load. Names no machine."""

from __future__ import annotations

import os
import platform
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
            for name in ("callgate", "anyio", "pydantic-monty", "langgraph")
            if (version := _version(name))
        ),
        _said("bwrap", "--version"),
        _said("docker", "version", "--format", "Docker {{.Server.Version}}"),
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


def _said(*command: str) -> str:
    """What a program says of itself; empty where it is not there, fails or hangs."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
