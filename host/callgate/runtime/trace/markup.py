"""Markup of the pages of runs: texts, values, facts and bars in time. Knows no run.

1. Nothing is loaded and nothing runs. Every text of a model, a tool or a guest is redacted, cut, made printable and
   escaped. None becomes an attribute, but for the data of pictures, which are base64.
2. A page is bounded: `Sheet` counts its markup, and what does not fit is counted and left out.
"""

from __future__ import annotations

import html
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, Literal

from callgate import cut
from callgate.runtime.redaction import Redaction
from callgate.runtime.run_redaction import RunRedaction
from callgate.tools import Tool
from callgate.tools.faults import printable

__all__ = [
    "SHORT",
    "Sheet",
    "Tone",
    "bar",
    "beginning",
    "card",
    "column",
    "duration",
    "escaped",
    "fact_list",
    "fold",
    "headline",
    "plural",
    "section",
    "share",
    "written",
]

Tone = Literal["ok", "bad", "odd"]
"""How something ended: well, badly, or in some other way."""
SHORT: Final = 200
"""Characters of names, and of texts that share a line with others."""
_TEXT_CHARACTERS: Final = 4096
_MOST_BYTES: Final = 4_000_000
"""Of the markup of all lists of a page, about. Only very large runs and hostile texts reach this limit."""
_MARGIN_CHARACTERS: Final = 1000
"""Characters beyond a cut that are redacted, too: the text may get shorter by that."""
_PUNCTUATION: Final = 4
"""Characters of a JSON value that is not a text, about."""
_MAX_DEPTH: Final = 150
"""Of a value whose beginning is taken; what is deeper is redacted as a whole."""
_WORTH_INDENTING_CHARACTERS: Final = 64 * 1024
_LEAST_PERCENT: Final = 0.4
"""The shortest bar that can still be seen."""


class Sheet:
    """What a page is written with: the redaction of its texts, and the room that is left.

    Args:
        redaction: of all texts and values.
        redactor: of the result, if it has one.
    """

    def __init__(self, redaction: Redaction | None = None, redactor: Callable[..., Any] | None = None) -> None:
        self.redaction: RunRedaction = (redaction or Redaction()).run() if redactor is None else redactor(redaction)
        self.room = _MOST_BYTES

    def text(self, text: str, most: int = _TEXT_CHARACTERS, *, is_cut: bool = False) -> str:
        """A text as markup.

        Args:
            text: any text.
            most: characters.
            is_cut: whether it is the beginning of a longer text.
        """
        shown = self.redaction.text(text, most + _MARGIN_CHARACTERS, is_cut=is_cut)
        return escaped(shown, most, max(len(text) - most - _MARGIN_CHARACTERS, 0))

    def line(self, text: str, most: int = SHORT) -> str:
        """A text as markup, in one line."""
        shown = self.redaction.text(text, most + _MARGIN_CHARACTERS)
        return _one_line(shown, most)

    def value(self, value: Any, most: int = _TEXT_CHARACTERS, tool: Tool | None = None) -> str:
        """A JSON value as markup, indented; its beginning if it is long.

        Args:
            value: of any size.
            most: characters.
            tool: whose arguments they are.
        """
        shown = self.redaction.arguments(tool, beginning(value, most + _MARGIN_CHARACTERS))
        return _begun(written(shown), most)

    def brief(self, value: Any, most: int) -> str:
        """A JSON value as markup, in one line."""
        return _one_line(_compact(self.redaction.value(beginning(value, most + _MARGIN_CHARACTERS))), most)

    def given(self, arguments: Any, most: int, tool: Tool | None = None) -> str:
        """The arguments of a call as markup, in one line: ``(city="Oslo", days=3)``."""
        shown = self.redaction.arguments(tool, beginning(arguments, most + _MARGIN_CHARACTERS))
        if not isinstance(shown, Mapping):
            return _one_line(f"({_compact(shown)})", most)
        return _one_line(f"({', '.join(f'{name}={_compact(each)}' for name, each in shown.items())})", most)

    def json(self, text: str, omitted: int = 0, tool: Tool | None = None) -> str:
        """JSON text as markup, indented; its beginning if it is long.

        Args:
            text: may be the beginning of a longer text.
            omitted: bytes of the longer text that are not there.
            tool: whose result it is.
        """
        more = f" ({omitted:,} more bytes)" if omitted > 0 else ""
        return _begun(_indented(self.redaction.result(tool, text)), _TEXT_CHARACTERS) + more

    def list(self, pieces: Iterable[str], count: int, what: str) -> str:
        """The pieces of markup that fit, and the number of the others.

        Args:
            pieces: of markup; the rest is not asked for once there is no room.
            count: of all, pieces that the caller leaves out included.
            what: the name of the things in the plural.
        """
        shown = []
        for piece in pieces:
            self.room -= len(piece.encode())
            if self.room < 0:
                break
            shown.append(piece)
        if count > len(shown):
            shown.append(f'<p class="more">… and {count - len(shown):,} more {what}</p>')
        return "".join(shown)


def escaped(text: str, most: int = _TEXT_CHARACTERS, beyond: int = 0) -> str:
    """Text for markup: cut, made printable, escaped.

    Args:
        text: any text.
        most: characters.
        beyond: characters that were cut before.
    """
    left_out = max(len(text) - most, 0) + beyond
    more = f"… ({left_out:,} more characters)" if left_out else ""
    shown = "\n".join(printable(line) for line in text[:most].split("\n"))
    return f"{html.escape(shown)}{more}"


def _begun(text: str, most: int) -> str:
    return escaped(text[:most], most) + (" …" if len(text) > most else "")


def _one_line(text: str, most: int) -> str:
    words = " ".join(text[: 4 * most].split())
    return escaped(words if len(words) <= most else f"{words[: most - 1]}…", most)


def beginning(value: Any, characters: int) -> Any:
    """The beginning of a JSON value, about so many characters of it; ``…`` stands where it was cut.

    What is nested too deeply to be redacted is left as it is.
    """
    room = characters

    def begun(value: Any, depth: int) -> Any:
        nonlocal room
        if isinstance(value, str):
            kept, room = value[: max(room, 0)], room - len(value)
            return value if room >= 0 else f"{kept}…"
        room -= _PUNCTUATION
        if depth == 0 or not isinstance(value, Mapping | list | tuple):
            return value
        pairs: Iterable[tuple[Any, Any]] = value.items() if isinstance(value, Mapping) else enumerate(value)
        made = {}
        for key, each in pairs:
            if room <= 0:
                made["…"] = "…"
                break
            room -= len(key) if isinstance(key, str) else 0
            made[key] = begun(each, depth - 1)
        return made if isinstance(value, Mapping) else list(made.values())

    return begun(value, _MAX_DEPTH)


def written(value: Any) -> str:
    """A JSON value as text, indented if it is short; of one that cannot be written, why."""
    return _indented(_compact(value))


def _compact(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except (RecursionError, ValueError, TypeError) as fault:
        return f"cannot be shown: {type(fault).__name__}"


def _indented(text: str) -> str:
    """JSON text with indentation; long text, and text that is not JSON, stays as it is."""
    if len(text) <= _WORTH_INDENTING_CHARACTERS:
        with suppress(RecursionError, ValueError):
            return json.dumps(json.loads(text), ensure_ascii=False, indent=2)
    return text


def plural(count: int, word: str) -> str:
    """``1 call``, ``1,200 calls``."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"


# pieces of a page; all their arguments but numbers are markup


def section(title: str, body: str, note: str = "") -> str:
    """A part of the page with a heading; empty without a body."""
    small = f" <small>{note}</small>" if note else ""
    return f"<section><h2>{title}{small}</h2>{body}</section>" if body else ""


def fold(summary: str, body: str, *, kind: str = "", opened: bool = False) -> str:
    """A line that opens."""
    return f'<details class="{kind}"{" open" if opened else ""}><summary>{summary}</summary>{body}</details>'


def headline(what: str, took: str, below: str = "") -> str:
    """The summary of a fold: what happened, how long it took, and tags or an error below."""
    more = f'<span class="below">{below}</span>' if below else ""
    return f'<span class="what">{what}</span><span class="took">{took}</span>{more}'


def fact_list(facts: Iterable[tuple[str, str]]) -> str:
    """Names with values; those without a value are left out."""
    rows = "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in facts if value)
    return f"<dl>{rows}</dl>" if rows else ""


def card(name: str, value: str) -> str:
    """One of the figures at the top."""
    return f"<div><dt>{name}</dt><dd>{value}</dd></div>"


def duration(seconds: float) -> str:
    """Seconds as text for people; of numbers that no clock shows, a question mark."""
    return cut.duration(seconds) if math.isfinite(seconds) else "?"


def share(part: float, whole: float) -> float:
    """A part in per cent, between 0 and 100, whatever the numbers are."""
    percent = 100 * part / whole if whole > 0 else 0.0
    return min(max(percent, 0.0), 100.0) if math.isfinite(percent) else 0.0


def bar(start: float, took: float, wall: float, tone: str, waited: float = 0.0) -> str:
    """A bar on the time axis.

    Args:
        start: seconds.
        took: seconds.
        wall: the seconds of the whole axis.
        tone: its class.
        waited: the seconds of `took` at its beginning that passed in a queue.
    """
    left = min(share(start, wall), 100 - _LEAST_PERCENT)
    width = min(max(share(start + took, wall) - left, _LEAST_PERCENT), 100 - left)
    queue = share(waited, took)
    inner = f'<i style="width:{queue:.1f}%"></i>' if queue >= 1 else ""
    return f'<b class="{tone}" style="left:{left:.2f}%;width:{width:.2f}%">{inner}</b>'


def column(left: float, width: float, height: float, tone: Tone) -> str:
    """A column on the time axis; all numbers are shares of 1."""
    place = f"left:{100 * left:.2f}%;width:{100 * width + 0.1:.2f}%;height:{100 * height:.1f}%"
    return f'<b class="{tone}" style="{place}"></b>'


def ticks(wall: float, parts: int = 4) -> Iterator[str]:
    """The words of the axis, from its beginning to its end."""
    for part in range(parts + 1):
        yield f"<span>{'0' if part == 0 else duration(wall * part / parts)}</span>"
