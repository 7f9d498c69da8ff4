"""What a program's results may depend on beside its events: versions and the processor. Compared in words; a difference
refuses nothing, since the replay itself is the test."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from callgate.sandbox.backend import Backend, python_here

__all__ = ["differences", "environment"]

_TIME_ZONES = Path("/usr/share/zoneinfo/tzdata.zi")
"""Its first line is ``# version 2025b``."""


def environment(backend: Backend) -> dict[str, str]:
    """What programs on `backend` run with, by names for people; empty where it is not known."""
    python = str(getattr(backend, "python", ""))
    exact = platform.python_version() if python == python_here() else python
    return {
        "Python": f"{platform.python_implementation()} {exact}",
        "processor": platform.machine(),
        "time zones": _time_zones(),
        "packages": ", ".join(getattr(backend, "packages", ())),
    }


def differences(recorded: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """What has changed since a run was recorded, one line each."""
    names = {**recorded, **now}
    return [
        f"{name}: recorded with {recorded.get(name) or 'none'}, now {now.get(name) or 'none'}"
        for name in names
        if recorded.get(name) != now.get(name)
    ]


@cache
def _time_zones() -> str:
    try:
        with _TIME_ZONES.open(encoding="utf-8") as data:
            return data.readline(80).removeprefix("# version").strip()
    except OSError:
        return ""
