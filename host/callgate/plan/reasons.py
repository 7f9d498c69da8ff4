"""Why a step was skipped, in words. Knows outcomes; decides none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .outcomes import Outcome
from .steps import CompiledStep

__all__ = ["UNKNOWN", "because", "plain_reason"]

UNKNOWN: Any = None
"""Stands for a step that arrived and cannot be run; it has ended before it began."""


def because(steps: Sequence[CompiledStep], outcomes: Sequence[Outcome], ended: int) -> tuple[str, int | None]:
    """Why a step that needs one that did not succeed is skipped, and the step that began it.

    Args:
        steps: of the plan.
        outcomes: of each.
        ended: the step that did not succeed.
    """
    if steps[ended] is UNKNOWN:
        return "Skipped because it needs a step that is not known", None
    outcome, name = outcomes[ended], steps[ended].id
    if outcome.status == "failed":
        return f"Skipped because dependency {name!r} failed", ended
    if outcome.status == "unknown_outcome":
        return f"Skipped because the outcome of dependency {name!r} is unknown", ended
    if outcome.cause is None:
        return f"Skipped because dependency {name!r} was skipped: {plain_reason(outcome.error)}", ended
    root = steps[outcome.cause].id
    what = {"failed": "failed", "unknown_outcome": "has an unknown outcome"}.get(
        outcomes[outcome.cause].status, "was skipped: its condition is false"
    )
    return f"Skipped because dependency {name!r} was skipped: {root!r} {what}", outcome.cause


def plain_reason(reason: str | None) -> str:
    """The reason without `Skipped because`."""
    return (reason or "").removeprefix("Skipped because ")
