"""Samples and their statistics: percentiles, spread, ratios, and a row of the table. Measures nothing."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

__all__ = ["Figure", "Row", "Verdict", "percentile", "ratio", "seconds", "timed", "verdict_of"]

Verdict = Literal["met", "missed", "open", "for information"]
_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def percentile(sorted_values: Sequence[float], part: float) -> float:
    """The value below which `part` (0 to 1) of `sorted_values` lie, by nearest rank.

    Raises:
        ValueError: there are none.
    """
    if not sorted_values:
        raise ValueError("no values")
    return sorted_values[min(len(sorted_values) - 1, int(part * len(sorted_values)))]


def seconds(value: float) -> str:
    """A duration with three digits and a unit that suits it; ``0 s`` for none."""
    if value == 0:
        return "0 s"
    factor, unit = next((pair for pair in _UNITS if value >= pair[0]), _UNITS[-1])
    scaled = value / factor
    return f"{scaled:.0f} {unit}" if scaled >= 100 else f"{scaled:.3g} {unit}"


@dataclass(frozen=True, slots=True)
class Figure:
    """Durations in seconds, summed up."""

    p50: float
    p99: float
    p10: float
    p90: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Figure:
        """Sum `values` up; there must be one at least."""
        ordered = sorted(values)
        p10, p90, p99 = (percentile(ordered, part) for part in (0.1, 0.9, 0.99))
        return cls(statistics.median(ordered), p99, p10, p90, len(ordered))

    def __str__(self) -> str:
        return f"{seconds(self.p50)}, p99 {seconds(self.p99)} ({seconds(self.p10)} to {seconds(self.p90)})"


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """`ours` over `theirs`: the median of the ratios of neighbours, so that what disturbs both disturbs it little.

    Raises:
        ValueError: there are none.
    """
    pairs = list(zip(ours, theirs, strict=False))
    if not pairs:
        raise ValueError("no pairs")
    return statistics.median(mine / other for mine, other in pairs)


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

    @property
    def figure(self) -> Figure | None:
        """Our durations, where the row was made by `timed`."""
        ours = self.numbers.get("ours")
        names = ("p50", "p99", "p10", "p90", "count")
        if not isinstance(ours, dict) or not all(isinstance(ours.get(name), int | float) for name in names):
            return None
        return Figure(**{name: ours[name] for name in names})


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
    mine, peer_text, share = Figure.of(ours), f"{peer}: {failed}" if failed else "", None
    numbers: dict[str, Any] = {"ours": asdict(mine)}
    if theirs:
        other, share = Figure.of(theirs), ratio(ours, theirs)
        numbers["peer"] = asdict(other)
        peer_text = f"{peer}: {other}" + (f"; it stopped: {failed}" if failed else "")
    target, verdict = "", "for information"
    if within is not None:
        target, verdict = f"≤ {seconds(within)}", verdict_of(mine.p50 <= within)
    elif most is not None:
        target, verdict = f"≤ {most:g} × {peer}", "open" if share is None else verdict_of(share <= most)
    return Row(
        key=key, measure=measure, measured=str(mine), target=target, verdict=verdict,
        peer=peer_text, ratio=share, note=note, numbers=numbers,
    )  # fmt: skip


def verdict_of(met: bool) -> Verdict:
    """In a word."""
    return "met" if met else "missed"
