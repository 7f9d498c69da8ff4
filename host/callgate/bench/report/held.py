"""Two cells held against each other, and what is said of it. Knows figures; judges no workload.

Held against each other are rounds that ran next to each other: the median of their ratios, and the spread of these from
the 10th to the 90th percentile. Where the spread has 1 in it, or the median is nearly 1, there is no difference. How
near is nearly: times within `LEAST` (`LEAST_OF_FEW` with less than `FEW` pairs), tokens, which are counted and not
measured, within `LEAST_COUNTED`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from callgate.bench.figures import percentile, ratio, times
from callgate.bench.results import Cell, Round

__all__ = [
    "FEW",
    "LEAST",
    "LEAST_COUNTED",
    "LEAST_OF_FEW",
    "Held",
    "Says",
    "beyond_the_model",
    "held",
    "held_tokens",
    "overhead",
    "rounds_told",
    "share",
    "tokens",
    "wall",
]

LEAST, LEAST_OF_FEW, FEW = 0.02, 0.1, 3
"""Of times: a smaller difference is none, however small the spread is. Less than `FEW` pairs have no spread to speak
of."""
LEAST_COUNTED = 0.01
"""Of counts: a smaller difference is none."""

Says = Literal["less", "same", "more"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Held:
    """One held against another: ours over theirs.

    Attributes:
        ratio: the median of the ratios of neighbours.
        low: their 10th percentile.
        high: their 90th.
        pairs: how many there were.
        counted: it is of counts, not of times.
    """

    ratio: float
    low: float
    high: float
    pairs: int
    counted: bool = False

    @property
    def says(self) -> Says:
        """What ours is, beside theirs."""
        if self.low <= 1 <= self.high or self.small:
            return "same"
        return "less" if self.ratio < 1 else "more"

    @property
    def small(self) -> bool:
        """Whether the difference would be none without any spread, too."""
        least = LEAST_COUNTED if self.counted else LEAST if self.pairs >= FEW else LEAST_OF_FEW
        return abs(self.ratio - 1) < least


def held(ours: Cell, theirs: Cell, of: Callable[[Round], float], *, counted: bool = False) -> Held | None:
    """Two cells held against each other: `ours` over `theirs`; None where no pair of rounds can be divided.

    Args:
        ours: one cell.
        theirs: another, of the same workload.
        of: takes from a round what is compared; 0 is what was not counted.
        counted: it is a count, not a time.
    """
    pairs = [(of(mine), of(other)) for mine, other in zip(ours.rounds, theirs.rounds, strict=False)]
    pairs = [pair for pair in pairs if min(pair) > 0]
    if not pairs:
        return None
    ratios = sorted(mine / other for mine, other in pairs)
    middle = ratio([mine for mine, _ in pairs], [other for _, other in pairs])
    low, high = percentile(ratios, 0.1), percentile(ratios, 0.9)
    return Held(ratio=middle, low=low, high=high, pairs=len(pairs), counted=counted)


def held_tokens(ours: Cell, theirs: Cell) -> Held | None:
    """Tokens of two cells, held against each other; None where those of one side were not counted."""
    return held(ours, theirs, tokens, counted=True)


def wall(one: Round) -> float:
    """Seconds."""
    return one.wall_seconds


def tokens(one: Round) -> float:
    """Input and output."""
    return one.input_tokens + one.output_tokens


def overhead(one: Round) -> float:
    """Seconds of own work."""
    return one.overhead_seconds


def beyond_the_model(one: Round) -> float:
    """Seconds of tools and own work."""
    return one.tool_seconds + one.overhead_seconds


def share(compared: Held | None, what: Literal["tokens", "time"]) -> str:
    """``9 % fewer tokens``, ``3.0 × the time``, ``as many tokens``."""
    if compared is None:
        return f"{what} not counted"
    if compared.says == "same":
        if what == "time":
            return "no difference"
        return "as many tokens" if compared.small else "no difference in tokens beyond their spread"
    few, many = ("fewer", "more") if what == "tokens" else ("less", "more")
    if compared.ratio >= 2:
        return f"{times(compared.ratio)} the {what}"
    return f"{abs(1 - compared.ratio) * 100:.0f} % {few if compared.ratio < 1 else many} {what}"


def rounds_told(compared: Held | None) -> str:
    """How many pairs there were, where they are too few for a spread; else empty."""
    pairs = compared.pairs if compared else FEW
    return "" if pairs >= FEW else "one round" if pairs == 1 else f"{pairs} rounds"
