"""Two contestants of one workload beside each other: the ratio of their rounds, and who wins. Formats nothing.

Rounds that ran side by side are compared, so that a disturbance hits both. The ratio is the median over these rounds.
It does not count as a difference if its spread, from the 10th to the 90th percentile, contains 1, or if the median is
nearly 1: within `LEAST` for times (`LEAST_OF_FEW` with fewer than `FEW` pairs, which have hardly any spread), within
`LEAST_COUNTED` for tokens, which are counted exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from callgate_bench.figures import percentile, ratio
from callgate_bench.results import Cell, Entry, Round

__all__ = ["Match", "Pair", "Ratio", "Winner", "match"]

LEAST, LEAST_OF_FEW, FEW = 0.02, 0.1, 3
LEAST_COUNTED = 0.01

Pair = tuple[Entry, Cell]
Winner = Literal["callgate", "opponent", "split", "nobody", "unknown"]
"""``split``: one side is faster, the other takes fewer tokens. ``nobody``: no difference, or no right answer.
``unknown``: one side was not measured, or nobody tried."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ratio:
    """Callgate's figure over the opponent's.

    Attributes:
        value: the median over pairs of rounds.
        low: the 10th percentile over these pairs.
        high: the 90th percentile.
        least: a smaller distance from 1 does not count as a difference.
    """

    value: float
    low: float
    high: float
    least: float

    @property
    def says(self) -> Literal["less", "same", "more"]:
        """Whether callgate takes less or more than the opponent."""
        if self.low <= 1 <= self.high or abs(self.value - 1) < self.least:
            return "same"
        return "less" if self.value < 1 else "more"


@dataclass(frozen=True, kw_only=True, slots=True)
class Match:
    """The fastest of callgate's modes against the fastest of the opponents, in one workload.

    Attributes:
        winner: by time and tokens, which count the same; a right answer beats none.
        ended: how the opponents' cells ended, for people: ``cannot``, ``not tried``.
        ours: callgate's mode with its cell; None where none has a right answer.
        time: wall time; None unless both sides have a right answer.
        tokens: input and output; None also where those of one side were not counted.
    """

    winner: Winner
    ended: str
    ours: Pair | None = None
    time: Ratio | None = None
    tokens: Ratio | None = None


def match(ours: Sequence[Pair], theirs: Sequence[Pair]) -> Match:
    """Compare two groups of contestants of one workload."""
    mine, other = _fastest(ours), _fastest(theirs)
    ended = " and ".join(dict.fromkeys(cell.ended for _, cell in theirs))
    if mine and other:
        time = _between(mine[1], other[1], lambda each: each.wall_seconds, least=LEAST)
        tokens = _between(mine[1], other[1], lambda each: each.input_tokens + each.output_tokens, least=LEAST_COUNTED)
        says = {each.says for each in (time, tokens) if each is not None} - {"same"}
        won: Winner = "split" if len(says) == 2 else "callgate" if "less" in says else "opponent" if says else "nobody"
        return Match(winner=won, ended=ended, ours=mine, time=time, tokens=tokens)
    if not all(any(cell.tried and cell.outcome != "not measured" for _, cell in side) for side in (ours, theirs)):
        return Match(winner="unknown", ended=ended, ours=mine)
    return Match(winner="callgate" if mine else "opponent" if other else "nobody", ended=ended, ours=mine)


def _fastest(pairs: Sequence[Pair]) -> Pair | None:
    """The contestant with the least wall time (p50) among right answers; None if there is none."""
    right = [pair for pair in pairs if pair[1].outcome == "right" and pair[1].rounds]
    return min(right, key=lambda pair: pair[1].figure("wall_seconds").p50, default=None)


def _between(ours: Cell, theirs: Cell, of: Callable[[Round], float], *, least: float) -> Ratio | None:
    """The ratio of two cells; None where no pair of rounds can be divided, since 0 means not counted."""
    pairs = [(of(mine), of(other)) for mine, other in zip(ours.rounds, theirs.rounds, strict=False)]
    pairs = [pair for pair in pairs if min(pair) > 0]
    if not pairs:
        return None
    ratios = sorted(mine / other for mine, other in pairs)
    return Ratio(
        value=ratio([mine for mine, _ in pairs], [other for _, other in pairs]),
        low=percentile(ratios, 0.1),
        high=percentile(ratios, 0.9),
        least=LEAST_OF_FEW if least == LEAST and len(pairs) < FEW else least,
    )
