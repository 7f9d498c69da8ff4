"""Values as people read them, and texts from outside made harmless for the eye. Knows no markup."""

from __future__ import annotations

import re

from callgate.bench.figures import seconds, times
from callgate.bench.results import Cell

__all__ = ["amount", "beside", "brief", "capital", "clean", "duration", "many", "sentence", "size", "spread", "whole"]

LONGEST = 2000
"""Characters of one text; what comes from peers may be of any length."""

_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef\ufff9-\uffff]"
)
"""Control characters, marks that turn the reading direction, lone surrogates, and what XML does not allow."""
_UNITS = re.compile(r"(?<=\d) (?=(?:×|%|s|ms|µs|tokens)(?!\w))")


def clean(text: str) -> str:
    """What no reader would see is written out (``\\u202e``); texts beyond `LONGEST` end in an ellipsis."""
    clipped = text if len(text) <= LONGEST else text[:LONGEST] + "…"
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", clipped.replace("\r\n", "\n"))


def brief(text: str, most: int) -> str:
    """`text` on one line, of `most` characters at most."""
    line = " ".join(clean(text).split())
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"


def duration(value: float) -> str:
    """Seconds, with a unit that suits them."""
    return seconds(value) if value > 0 else "0 s"


def whole(value: float) -> str:
    """A count, its thousands apart."""
    return f"{round(value):,}"


def amount(value: float) -> str:
    """A count with three digits, for plots: ``1.3 M``."""
    for factor, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= 0.9995 * factor:
            return f"{value / factor:.3g}{unit}"
    return f"{value:.3g}"


def size(count: int) -> str:
    """Bytes, as MB; empty where nothing was measured."""
    return f"{count / 1e6:.3g} MB" if 0 < count < 1e9 else f"{count / 1e9:.3g} GB" if count else ""


def many(count: int, one: str, several: str = "") -> str:
    """``1 turn``, ``2 turns``."""
    return f"{count:,} {one if count == 1 else several or one + 's'}"


def spread(cell: Cell, name: str) -> str:
    """``2.9 to 3.1 s``: from the 10th to the 90th percentile of a field of the rounds; empty for a single round."""
    figure = cell.figure(name)
    if figure.count < 2:
        return ""
    low, high = duration(figure.p10), duration(figure.p90)
    number, unit = low.split(" ")
    return f"{number if high.endswith(f' {unit}') else low} to {high}"


def beside(share: float) -> str:
    """A ratio of times, in words.

    Args:
        share: this one's time over the other's.
    """
    return f"{times(1 / share)} faster" if share < 1 else f"{times(share)} slower"


def sentence(text: str) -> str:
    """With a capital letter at its begin, and a full stop at its end; what belongs to a number stays beside it."""
    told = capital(_UNITS.sub("\u00a0", text))
    return told if not told or told[-1] in ".!?…" else f"{told}."


def capital(text: str) -> str:
    """With a capital letter at its begin, unless it begins with a name from code."""
    return text if "_" in text.partition(" ")[0] else text[:1].upper() + text[1:]
