"""Scales of plots: where a value lies, in percent of the width, and which values are written at the axis."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

__all__ = ["Linear", "Log", "Scale"]

_DECADES = ((1, 2, 5), (1, 3), (1,))
_STEPS = (1, 2, 5, 10)


class Scale(Protocol):
    """What a plot asks."""

    def at(self, value: float) -> float:
        """Percent of the width."""

    def ticks(self, apart: float) -> list[float]:
        """Values for the axis.

        Args:
            apart: how far they are from each other at least, in percent of the width.
        """


@dataclass(frozen=True, slots=True)
class Linear:
    """From nothing to the largest value."""

    most: float

    def at(self, value: float) -> float:
        """Percent of the width."""
        return 100 * value / self.most if self.most > 0 else 0.0

    def ticks(self, apart: float) -> list[float]:
        """Round values from 0 on."""
        if self.most <= 0:
            return [0.0]
        rough = self.most * apart / 100
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(factor * power for factor in _STEPS if factor * power >= rough * (1 - 1e-9))
        return [step * n for n in range(int(self.most / step + 1e-9) + 1)]


@dataclass(frozen=True, slots=True)
class Log:
    """From one of 1, 2, 5, 10, 20, ... to another. What is less than the first lies at its place."""

    least: float
    most: float

    @classmethod
    def over(cls, values: Iterable[float]) -> Log | None:
        """That shows all these values; None where none is above 0."""
        there = [value for value in values if value > 0]
        if not there:
            return None
        low, high = _round(min(there), up=False), _round(max(there), up=True)
        return cls(low, high if high > low else low * 10)

    def at(self, value: float) -> float:
        """Percent of the width."""
        share = math.log(max(value, self.least) / self.least) / math.log(self.most / self.least)
        return 100 * min(share, 1.0)

    def ticks(self, apart: float) -> list[float]:
        """1, 2 and 5 of each decade, or fewer where those are too close."""
        within: list[float] = []
        for steps in _DECADES:
            values = [step * 10.0**power for power in range(*self._decades()) for step in steps]
            within = [value for value in values if self.least * (1 - 1e-9) <= value <= self.most * (1 + 1e-9)]
            places = [self.at(value) for value in within]
            if all(right - left >= apart for left, right in pairwise(places)):
                return within
        decade = 100 / math.log10(self.most / self.least)
        return within[:: math.ceil(apart / decade)]

    def _decades(self) -> tuple[int, int]:
        return math.floor(math.log10(self.least)), math.ceil(math.log10(self.most)) + 1


def _round(value: float, *, up: bool) -> float:
    power = 10.0 ** math.floor(math.log10(value))
    steps = [step * power for step in _STEPS]
    if up:
        return next((step for step in steps if step >= value * (1 - 1e-9)), steps[-1])
    return max(step for step in steps if step <= value * (1 + 1e-9))
