"""The style of pages: every text can be read on every ground it stands on, in light and in dark."""

from __future__ import annotations

import re
from importlib.resources import files
from itertools import product

import pytest

CSS = files("callgate.runtime.trace").joinpath("page.css").read_text(encoding="utf-8")
BRIGHT, DARK = (
    dict(re.findall(r"--([a-z]+): (#[0-9a-f]{3,6});", block))
    for block in re.findall(r":root \{(.*?--queue.*?)\}", CSS, re.S)
)
GROUNDS = ("page", "sheet", "soft", "called", "badsoft")
OWN_GROUNDS = {"ok": "oksoft", "odd": "oddsoft"}
"""Of badges and tags."""
LEAST = 4.5
"""WCAG 2.2, 1.4.3, level AA."""


def channels(colour: str) -> list[float]:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    return [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]


def luminance(colour: list[float]) -> float:
    parts = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour)
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), parts, strict=True))


def contrast(one: list[float], other: list[float]) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", [BRIGHT, DARK], ids=["light", "dark"])
def test_every_text_has_enough_contrast_on_every_ground(scheme: dict[str, str]) -> None:
    colours = {name: channels(colour) for name, colour in scheme.items()}
    share = float(*re.findall(r"color-mix\(in srgb, var\(--accent\) ([0-9]+)%, transparent\)", CSS)) / 100
    mixed = zip(colours["accent"], colours["sheet"], strict=True)
    colours["called"] = [share * accent + (1 - share) * sheet for accent, sheet in mixed]
    texts = set(re.findall(r"[ {;]color: var\(--([a-z]+)\)", CSS))
    assert {"ink", "dim", "ok", "bad", "odd", "word", "string", "number", "note"} <= texts
    pairs = [*product(texts, GROUNDS), *OWN_GROUNDS.items()]
    assert {pair: round(contrast(*map(colours.__getitem__, pair)), 2) for pair in pairs
            if contrast(*map(colours.__getitem__, pair)) < LEAST} == {}  # fmt: skip


def test_every_colour_of_a_text_is_one_that_is_looked_at() -> None:
    assert re.findall(r"[ {;]color: (?!var\(--[a-z]+\))[^;]*", CSS) == []
