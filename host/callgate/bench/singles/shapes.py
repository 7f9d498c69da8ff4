"""Graphs of steps, the same for callgate and for every peer: which earlier steps each step needs. Knows no plan."""

from __future__ import annotations

import random
from typing import Literal, get_args

__all__ = ["SHAPES", "Needs", "Shape", "depth", "layers", "shape"]

Shape = Literal["chain", "layered", "wide"]
SHAPES: tuple[Shape, ...] = get_args(Shape)
Needs = list[tuple[int, ...]]
"""For every step the steps it needs; these come before it."""

_SEED = 20_261_121
_MOST_NEEDS = 3


def shape(name: Shape, steps: int) -> Needs:
    """A graph of that shape.

    Args:
        name: ``chain``: each step needs the one before it. ``wide``: none needs another. ``layered``: layers of 10 to
            50 steps, each of which needs 2 or 3 of the layer before.
        steps: how many.
    """
    if name == "chain":
        return [(step - 1,) if step else () for step in range(steps)]
    if name == "wide":
        return [()] * steps
    return layers(steps, random.Random(_SEED), least_needs=2)


def layers(steps: int, draw: random.Random, *, least_needs: int) -> Needs:
    """Layers of 10 to 50 steps, each of which needs `least_needs` to 3 of the layer before."""
    needs: Needs = []
    before = range(0)
    while len(needs) < steps:
        layer = range(len(needs), min(len(needs) + draw.randint(10, 50), steps))
        for _ in layer:
            count = min(draw.randint(least_needs, _MOST_NEEDS), len(before))
            needs.append(tuple(sorted(draw.sample(before, count))))
        before = layer
    return needs


def depth(needs: Needs) -> int:
    """How many steps the longest way through the graph has."""
    deep: list[int] = []
    for each in needs:
        deep.append(1 + max((deep[need] for need in each), default=0))
    return max(deep, default=0)
