"""The rooms of the house: which file belongs to which one, and which files the mutation sample is drawn from."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import PurePosixPath

COMPARISON = "callgate_bench"
"""Told in the report, never held: this room is rewritten on purpose."""
SOURCES = ("host", "sandbox_image")
_GUEST = "asking calls tool_calls explain json_forms link loops nursery output own_frames program session"

SAMPLE = {
    "gate": ["host/callgate/runtime/gate/*"],
    "engine": [f"host/callgate/plan/{each}.py" for each in ("engine", "progress", "under_way", "steps")],
    "evaluator": ["host/callgate/plan/expressions/*"],
    "walk": [f"host/callgate/program/{each}" for each in ("graph/walking/*", "graph/flow.py", "walk*")],
    "wire": [
        "host/callgate/protocol/*",
        *(f"sandbox_image/callgate_guest/{name}.py" for name in ("wire", "frames", "records")),
    ],
    "guest": [f"sandbox_image/callgate_guest/{name}.py" for name in _GUEST.split()],
}
"""Room of the mutation sample -> files, at the base and wherever the halving may put them."""


def room_of(path: str) -> str:
    """Room of a source file, given relative to the checkout."""
    root, package, *rest = PurePosixPath(path).parts
    if root == "sandbox_image":
        return "guest"
    if package == COMPARISON or rest[0] == "bench":
        return COMPARISON
    return rest[0] if len(rest) > 1 else "(files)"


def sample_room_of(path: str) -> str | None:
    """Room of the mutation sample that a source file belongs to, if any."""
    return next((room for room, globs in SAMPLE.items() if any(fnmatch(path, each) for each in globs)), None)
