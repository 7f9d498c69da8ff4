"""A row of the table: what was measured, what it should be, and how the peer did. Measures nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from callgate.bench.figures import Figure, ratio

__all__ = ["Row", "Verdict", "against"]

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

    def to_dict(self) -> dict[str, Any]:
        """The row as JSON values."""
        return asdict(self)


def against(
    key: str,
    measure: str,
    ours: Sequence[float],
    *,
    peer: str,
    theirs: Sequence[float],
    most: float | None = None,
    failed: str = "",
    note: str = "",
) -> Row:
    """A row of durations beside a peer's, measured in turns.

    Args:
        key: the group.
        measure: what was measured.
        ours: seconds.
        peer: its name.
        theirs: seconds; empty when the peer failed at once.
        most: the target: ours at most so many times theirs.
        failed: why the peer stopped early, or was not there.
        note: for the reader.
    """
    mine = Figure.of(ours)
    target = "" if most is None else f"≤ {most:g} × {peer}"
    numbers: dict[str, Any] = {"ours": asdict(mine)}
    verdict: Verdict = "for information" if most is None else "open"
    told, share = f"{peer}: {failed}" if failed else "", None
    if theirs:
        other = Figure.of(theirs)
        share = ratio(ours, theirs)
        numbers["peer"] = asdict(other)
        told = f"{peer}: {other}" + (f"; it stopped: {failed}" if failed else "")
        if most is not None:
            verdict = "met" if share <= most else "missed"
    return Row(
        key=key, measure=measure, measured=str(mine), target=target, verdict=verdict, peer=told, ratio=share, note=note,
        numbers=numbers,
    )  # fmt: skip
