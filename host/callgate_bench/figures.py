"""Samples and what is said of them: percentiles, spread, ratios. Knows numbers, not what was measured."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Figure", "percentile", "ratio", "seconds"]

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
