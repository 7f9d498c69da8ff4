"""What was found out about a machine or an engine, and what came of trying a sandbox. Knows nothing of how."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Fact", "Trial"]


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing found out."""

    name: str
    ok: bool | None
    """Whether it is as it is needed; ``None`` where it does not matter by itself."""
    found: str
    remedy: str = ""
    """What to do, where it is not ok."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """What came of starting a sandbox and opening a guest."""

    works: bool
    description: str = ""
    """What confines a guest in it."""
    reason: str = ""
    """Why not."""
    start_seconds: float = 0.0
    """From nothing to a backend that is ready and proven."""
    open_seconds: float = 0.0
    """One more guest."""
