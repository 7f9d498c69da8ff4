"""How long tools were at work, and how many at once: arithmetic of intervals, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = ["AtWork", "Span", "at_work"]

_Interval = tuple[float, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """A turn of a contestant. All times are of one clock.

    Attributes:
        began: when it was asked.
        ended: when its answer was there.
        seconds: what it took by its own count; less than from `began` to `ended`, by what the way there and back took.
        intervals: of the tools' calls that ended since the turn before.
    """

    began: float
    ended: float
    seconds: float
    intervals: Sequence[_Interval]


@dataclass(frozen=True, kw_only=True, slots=True)
class AtWork:
    """Of all turns together.

    Attributes:
        seconds: in which one tool at least was at work, within the turns.
        concurrency: the most at the same time.
        busy: how many on average, while one at least was; 0 where none was.
    """

    seconds: float
    concurrency: int
    busy: float


def at_work(spans: Iterable[Span]) -> AtWork:
    """What tools did in these turns. What they did between turns does not count: nobody waited for it.

    Of two calls, one of which ends when the other begins, only one is at work at a time.
    """
    seconds = summed = 0.0
    most = 0
    for span in spans:
        clipped = [(max(begin, span.began), min(end, span.ended)) for begin, end in span.intervals]
        inside = [(begin, end) for begin, end in clipped if begin < end]
        union, at_once = _union(inside)
        length = sum(end - begin for begin, end in inside)
        share = min(1.0, span.seconds / union) if union else 0.0
        seconds += union * share
        summed += length * share
        most = max(most, at_once)
    return AtWork(seconds=seconds, concurrency=most, busy=summed / seconds if seconds else 0.0)


def _union(intervals: Sequence[_Interval]) -> tuple[float, int]:
    """The length of the union, and the most that overlap."""
    events = sorted([(begin, 1) for begin, _ in intervals] + [(end, -1) for _, end in intervals])
    length = since = 0.0
    going = most = 0
    for moment, change in events:
        if going:
            length += moment - since
        going += change
        since = moment
        most = max(most, going)
    return length, most
