"""Texts for people: long texts cut at the end of a word, and durations."""

from __future__ import annotations

__all__ = ["cut", "cut_middle", "duration"]


def cut(text: str, most: int) -> str:
    """The beginning of a text, with ``…`` if it was cut: at the end of a word, or within a very long word.

    Args:
        text: the text.
        most: length of the result in characters, at least 1.
    """
    return text if len(text) <= most else f"{_head(text, most - 1)}…"


def cut_middle(text: str, most: int) -> str:
    """The beginning and the end of a text, in whole words, with `` ... `` between them if it was cut.

    Args:
        text: the text.
        most: length of the two pieces in characters.
    """
    if len(text) <= most:
        return text
    half = most // 2
    return f"{_head(text, half)} ... {_head(text[::-1], half)[::-1]}"


def _head(text: str, most: int) -> str:
    """At most `most` characters, cut before a word, or within a word that takes more than half of the result."""
    if len(text) <= most or text[most].isspace():
        return text[:most].rstrip()
    words, blank, _ = text[:most].rpartition(" ")
    return words.rstrip() if blank and 2 * len(words) >= most else text[:most]


def duration(seconds: float) -> str:
    """Seconds as text for people: ``0.4 ms``, ``51 ms``, ``1.25 s``, ``3 min 20 s``."""
    if seconds < 0.00995:
        return f"{seconds * 1000:.1f} ms"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 119.5:
        return f"{seconds:.2f} s" if seconds < 9.995 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 120 else f"{minutes // 60:,} h {minutes % 60} min"
