"""Stacked bars: a label and a value above each, its parts, and a whisker where it has a spread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .drawing import AXIS, HATCHED, PITCH, axis, drawing, named, swatch, whisker
from .markup import Element, el
from .scale import Scale

__all__ = ["Bar", "bar_swatch", "bars"]

_TOP, _THICK = 18, 13


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar.

    Attributes:
        label: whose it is.
        ours: one of callgate's modes.
        parts: kind and value of each part, from the left.
        said: its value, in words.
        low: where its whisker begins; nowhere if that is where it ends.
        high: where it ends.
    """

    label: str
    ours: bool
    parts: tuple[tuple[str, float], ...]
    said: str
    low: float = 0.0
    high: float = 0.0


def bars(
    name: str,
    title: str,
    rows: Sequence[Bar],
    scale: Scale,
    said: Callable[[float], str],
    *,
    class_: str = "",
) -> Element:
    """A plot of bars.

    Args:
        name: its id in the page.
        title: what it is.
        rows: from the top.
        scale: for their parts.
        said: a value of the axis, in words.
        class_: for the style.
    """
    height = len(rows) * PITCH
    drawn = axis(scale, said, height)
    for place, bar in enumerate(rows):
        drawn += _bar(bar, place * PITCH, scale)
    words = "; ".join(f"{bar.label}: {bar.said}" for bar in rows)
    return drawing(name, title, f"From the top: {words}.", height + AXIS, *drawn, class_=class_)


def _bar(bar: Bar, top: float, scale: Scale) -> list[Element]:
    drawn = named(bar.label, bar.said, top, ours=bar.ours)
    begin = 0.0
    for kind, value in bar.parts:
        width = scale.at(value)
        drawn.append(
            el(
                "rect", x=f"{begin:.2f}%", y=top + _TOP, width=f"{width:.2f}%", height=_THICK, class_=_filled(kind)
            )
        )  # fmt: skip
        begin += width
    if bar.high > bar.low:
        drawn += whisker(scale.at(bar.low), scale.at(bar.high), top + _TOP + _THICK / 2)
    return drawn


def _filled(kind: str) -> str:
    return f"{kind} hatched" if kind in HATCHED else kind


def bar_swatch(kind: str) -> Element:
    """For the legend; ``whisker`` is one too."""
    if kind == "whisker":
        return swatch(
            el("line", x1=2, y1=6, x2=16, y2=6, class_="whisker"),
            el("line", x1=2, y1=2, x2=2, y2=10, class_="whisker"),
            el("line", x1=16, y1=2, x2=16, y2=10, class_="whisker"),
        )
    return swatch(el("rect", width=18, height=12, class_=_filled(kind)))
