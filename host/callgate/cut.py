"""Texts that are too long for their place, cut at the end of a word. Knows no place."""

from __future__ import annotations

__all__ = ["cut", "cut_middle"]


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
