"""A row of the table: what was measured, what it should be, and how the peer did. Measures nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from callgate_bench.figures import Figure, ratio, seconds

__all__ = ["Row", "Verdict", "timed", "verdict_of"]

Verdict = Literal["met", "missed", "open", "for information"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the report.

    Attributes:
        key: the group, as `--only` names it.
        measure: what was measured.
        measured: the figure, for people.
        target: what it should be; empty where there is none.
        verdict: ``open`` where a target cannot be judged, because the peer failed or is not there.
        peer: who it was held against, and their figure.
        ratio: ours over theirs; None where there is nothing to divide.
        note: what a reader has to know besides.
        numbers: the same for programs.
    """

    key: str
    measure: str
    measured: str
    target: str = ""
    verdict: Verdict = "for information"
    peer: str = ""
    ratio: float | None = None
    note: str = ""
    numbers: dict[str, Any] = field(default_factory=dict)


def timed(
    key: str,
    measure: str,
    ours: Sequence[float],
    *,
    peer: str = "",
    theirs: Sequence[float] = (),
    most: float | None = None,
    within: float | None = None,
    failed: str = "",
    note: str = "",
) -> Row:
    """A row of durations, beside a peer's that were measured in turns with them.

    Args:
        key: the group.
        measure: what was measured.
        ours: seconds.
        peer: its name.
        theirs: seconds; empty when the peer failed at once.
        most: the target: ours at most so many times theirs.
        within: the target: seconds of ours at most.
        failed: why the peer stopped early, or was not there.
        note: for the reader.
    """
    verdict: Verdict
    mine, told, share = Figure.of(ours), f"{peer}: {failed}" if failed else "", None
    numbers: dict[str, Any] = {"ours": asdict(mine)}
    if theirs:
        other, share = Figure.of(theirs), ratio(ours, theirs)
        numbers["peer"] = asdict(other)
        told = f"{peer}: {other}" + (f"; it stopped: {failed}" if failed else "")
    target, verdict = "", "for information"
    if within is not None:
        target, verdict = f"≤ {seconds(within)}", verdict_of(mine.p50 <= within)
    elif most is not None:
        target, verdict = f"≤ {most:g} × {peer}", "open" if share is None else verdict_of(share <= most)
    return Row(
        key=key, measure=measure, measured=str(mine), target=target, verdict=verdict,
        peer=told, ratio=share, note=note, numbers=numbers,
    )  # fmt: skip


def verdict_of(met: bool) -> Verdict:
    """In a word."""
    return "met" if met else "missed"
