"""Texts for people: cut at the end of a word where they are too long for their place, and durations. Knows no place."""

from __future__ import annotations

__all__ = ["cut", "cut_middle", "duration"]


def cut(text: str, most: int) -> str:
    """The beginning of a text, with ``…`` where it was cut: at the end of a word, or within a word that is very long.

    Args:
        text: any.
        most: characters of the result, at least 1.
    """
    return text if len(text) <= most else f"{_head(text, most - 1)}…"


def cut_middle(text: str, most: int) -> str:
    """The beginning and the end of a text, of whole words, with `` ... `` between them where it was cut.

    Args:
        text: any.
        most: characters of the two pieces together.
    """
    if len(text) <= most:
        return text
    half = most // 2
    return f"{_head(text, half)} ... {_head(text[::-1], half)[::-1]}"


def _head(text: str, most: int) -> str:
    """At most `most` characters, cut before a word; within the word if it takes more than half of the place."""
    if len(text) <= most or text[most].isspace():
        return text[:most].rstrip()
    words, blank, _ = text[:most].rpartition(" ")
    return words.rstrip() if blank and 2 * len(words) >= most else text[:most]


def duration(seconds: float) -> str:
    """Seconds as a person reads them: ``0.4 ms``, ``51 ms``, ``1.25 s``, ``3 min 20 s``."""
    if seconds < 0.00995:
        return f"{seconds * 1000:.1f} ms"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 119.5:
        return f"{seconds:.2f} s" if seconds < 9.995 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 120 else f"{minutes // 60:,} h {minutes % 60} min"
