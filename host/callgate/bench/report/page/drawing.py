"""What all plots have in common: an SVG as wide as its place, its title and words, its axis, its legend.

Widths are percentages and heights are pixels, so that a plot fits a phone and a desk with letters of the same size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .markup import Element, el
from .scale import Scale
from .texts import brief

__all__ = ["AXIS", "HATCHED", "PITCH", "axis", "drawing", "legend", "line", "named", "patterns", "swatch", "whisker"]

AXIS = 24
"""Pixels for the values at the axis."""
PITCH = 38
"""Pixels from one row to the next."""
_BASE = 13
_LONGEST = 30
_EDGE = 6
"""Percent."""
HATCHED = ("tools", "output")
"""Kinds that are hatched: they differ from their neighbours without colours, too."""


def drawing(name: str, title: str, words: str, height: float, *inside: Element, class_: str = "") -> Element:
    """A plot.

    Args:
        name: its id in the page.
        title: what it is.
        words: what is to be seen in it, for those who do not see it.
        height: in pixels.
        inside: what is drawn.
        class_: for the style.
    """
    return el(
        "svg",
        el("title", title, id=f"{name}-title"),
        el("desc", words, id=f"{name}-words"),
        *inside,
        role="img",
        width="100%",
        height=height,
        class_=f"plot {class_}".strip(),
        aria_labelledby=f"{name}-title {name}-words",
    )


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Element:
    """From one point to another; x in percent, y in pixels."""
    return el("line", x1=f"{x1:.2f}%", y1=y1, x2=f"{x2:.2f}%", y2=y2, class_=class_)


def named(label: str, said: str, top: float, *, ours: bool) -> list[Element]:
    """Whose the row is, at the left, and its value, at the right."""
    return [
        el("text", brief(label, _LONGEST), x=0, y=top + _BASE, class_="label ours" if ours else "label"),
        el("text", said, x="100%", y=top + _BASE, text_anchor="end", class_="value"),
    ]


def whisker(low: float, high: float, middle: float) -> list[Element]:
    """A range; its ends in percent."""
    drawn = []
    for class_ in ("halo", "whisker"):
        drawn.append(line(low, middle, high, middle, class_))
        drawn += [line(end, middle - 4, end, middle + 4, class_) for end in (low, high)]
    return drawn


def axis(scale: Scale, said: Callable[[float], str], height: float, *, apart: float = 25) -> list[Element]:
    """The grid, and its values below, so many percent apart at least."""
    drawn: list[Element] = []
    ticks = scale.ticks(apart)
    places = [scale.at(value) for value in ticks]
    # a value at the right edge is moved inwards, and needs its neighbour's place
    last = len(ticks) - 1
    covered = last - 1 if places[last] > 100 - _EDGE and places[last] - places[last - 1] < 1.4 * apart else -1
    for number, (value, place) in enumerate(zip(ticks, places, strict=True)):
        drawn.append(line(place, 0, place, height, "grid"))
        anchor = "start" if place < _EDGE else "end" if place > 100 - _EDGE else "middle"
        if number != covered or number == 0:
            drawn.append(
                el("text", said(value), x=f"{place:.2f}%", y=height + 17, text_anchor=anchor, class_="tick")
            )  # fmt: skip
    return drawn


def patterns() -> Element:
    """The hatchings, once for the page."""
    made = [
        el(
            "pattern",
            el("rect", width=6, height=6, class_=kind),
            el("line", x1=0, y1=0, x2=0, y2=6, class_="hatch"),
            id=f"hatch-{kind}",
            width=6,
            height=6,
            patternUnits="userSpaceOnUse",
            patternTransform="rotate(45)",
        )
        for kind in HATCHED
    ]
    return el("svg", el("defs", *made), width=0, height=0, aria_hidden="true", class_="patterns")


def swatch(*shapes: Element) -> Element:
    """A small drawing for a legend."""
    return el("svg", *shapes, width=18, height=12, aria_hidden="true", class_="swatch")


def legend(items: Sequence[tuple[Element, str]]) -> Element:
    """What the shapes mean."""
    return el("ul", *(el("li", drawn, el("span", said)) for drawn, said in items), class_="legend")
