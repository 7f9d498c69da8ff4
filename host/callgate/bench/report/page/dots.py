"""Marks on a line for each workload: one lane for direct calls, plans and programs each. The scale is logarithmic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .drawing import AXIS, axis, drawing, line, swatch
from .markup import Element, el
from .scale import Scale
from .texts import brief

__all__ = ["LANES", "Dot", "Lanes", "dot_swatch", "dots"]

LANES = ("direct", "plan", "code")
_PITCH, _LABEL, _FIRST, _LANE, _END = 66, 14, 26, 12, 6
_LONGEST = 40
_SHAPES = {
    "direct": "M-5-5H5V5H-5Z",
    "plan": "M0-6.5L6.5 0L0 6.5L-6.5 0Z",
    "code": "M-5.5 0A5.5 5.5 0 1 0 5.5 0A5.5 5.5 0 1 0-5.5 0Z",
}
_SMALL = "scale(0.6)"
"""Peers' marks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """One contestant in one workload.

    Attributes:
        mode: its lane.
        ours: one of callgate's modes.
        value: where it lies.
        said: whose it is, and its value.
    """

    mode: str
    ours: bool
    value: float
    said: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lanes:
    """One workload.

    Attributes:
        label: its name.
        dots: of all lanes.
        said: the least of them, in words.
    """

    label: str
    dots: tuple[Dot, ...]
    said: str


def dots(name: str, title: str, rows: Sequence[Lanes], scale: Scale, said: Callable[[float], str]) -> Element:
    """A plot of marks.

    Args:
        name: its id in the page.
        title: what it is.
        rows: from the top.
        scale: for all of them.
        said: a value of the axis, in words.
    """
    height = len(rows) * _PITCH + _END
    drawn = axis(scale, said, height, apart=13)
    for place, row in enumerate(rows):
        drawn += _row(row, place * _PITCH, scale)
    words = "; ".join(
        f"{row.label}: {', '.join(dot.said for dot in row.dots if dot.ours) or 'nothing measured'}" for row in rows
    )
    return drawing(name, title, f"callgate's modes. {words}.", height + AXIS, *drawn, class_="dots")


def _row(row: Lanes, top: float, scale: Scale) -> list[Element]:
    drawn = [
        el("text", brief(row.label, _LONGEST), x=0, y=top + _LABEL, class_="label ours"),
        el("text", brief(row.said, 44), x="100%", y=top + _LABEL, text_anchor="end", class_="value wide"),
    ]
    for number, mode in enumerate(LANES):
        middle = top + _FIRST + number * _LANE
        drawn.append(line(0, middle, 100, middle, "lane"))
        lane = [dot for dot in row.dots if dot.mode == mode]
        # ours last, so that they lie above
        for dot in sorted(lane, key=lambda each: each.ours):
            mark = el("svg", el("title", dot.said), _mark(mode, ours=dot.ours), x=f"{scale.at(dot.value):.2f}%",
                      y=middle, width=1, height=1, overflow="visible")  # fmt: skip
            drawn.append(mark)
    return drawn


def _mark(mode: str, *, ours: bool) -> Element:
    if ours:
        return el("path", d=_SHAPES[mode], class_=f"mark {mode}")
    return el("path", d=_SHAPES[mode], transform=_SMALL, class_=f"mark peer {mode}")


def dot_swatch(mode: str, *, ours: bool) -> Element:
    """For the legend."""
    return swatch(el("g", _mark(mode, ours=ours), transform="translate(9 6)"))
