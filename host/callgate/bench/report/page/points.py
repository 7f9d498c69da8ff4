"""One point for each contestant, with its range, on a logarithmic scale: for what differs by orders of magnitude."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .drawing import AXIS, PITCH, axis, drawing, line, named, whisker
from .markup import Element, el
from .scale import Scale

__all__ = ["Point", "points"]

_MIDDLE, _RADIUS = 24, 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One row.

    Attributes:
        label: whose it is.
        ours: one of callgate's modes.
        value: where it lies.
        said: the value, in words.
        low: where its range begins.
        high: where it ends.
    """

    label: str
    ours: bool
    value: float
    said: str
    low: float
    high: float


def points(
    name: str, title: str, rows: Sequence[Point], scale: Scale, said: Callable[[float], str], *, class_: str = ""
) -> Element:
    """A plot of points.

    Args:
        name: its id in the page.
        title: what it is.
        rows: from the top.
        scale: for all of them.
        said: a value of the axis, in words.
        class_: for the style.
    """
    height = len(rows) * PITCH
    drawn = axis(scale, said, height)
    for place, row in enumerate(rows):
        top = place * PITCH
        drawn.append(line(0, top + _MIDDLE, 100, top + _MIDDLE, "lane"))
        drawn += named(row.label, row.said, top, ours=row.ours)
        if row.high > row.low:
            drawn += whisker(scale.at(row.low), scale.at(row.high), top + _MIDDLE)
        drawn.append(el("circle", cx=f"{scale.at(row.value):.2f}%", cy=top + _MIDDLE, r=_RADIUS, class_="point"))
    words = "; ".join(f"{row.label}: {row.said}" for row in rows)
    return drawing(name, title, f"From the top: {words}.", height + AXIS, *drawn, class_=class_)
