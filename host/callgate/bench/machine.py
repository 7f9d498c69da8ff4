"""What a figure was measured on: kernel, processors, interpreter, versions, load. Names no machine."""

from __future__ import annotations

import datetime
import os
import platform
import shutil
import subprocess
import sys
from importlib import metadata

__all__ = ["describe", "load", "today"]


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


def today() -> str:
    """The date, in UTC."""
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def _bubblewrap() -> str:
    found = shutil.which("bwrap")
    if found is None:
        return ""
    return subprocess.run([found, "--version"], capture_output=True, text=True, check=False, timeout=10).stdout.strip()


def _docker() -> str:
    """The engine that the docker command reaches."""
    found = shutil.which("docker")
    if found is None:
        return ""
    wanted = [found, "version", "--format", "{{.Server.Version}}"]
    try:
        done = subprocess.run(wanted, capture_output=True, text=True, check=False, timeout=10)
    except subprocess.TimeoutExpired:
        return ""
    return f"Docker {done.stdout.strip()}" if done.returncode == 0 else ""
