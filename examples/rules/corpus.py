"""CPython's own language reference in sections: `pydoc_data.topics`, cut at its headings."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pydoc_data.topics import topics  # type: ignore[import-not-found, import-untyped, unused-ignore]

__all__ = ["Section", "sections"]

_UNDERLINE = re.compile(r"([*=\-~^])\1{2,}")
_NOT_IN_IDS = re.compile(r"[^a-z0-9_]+")
MAX_CHARACTERS = 2400
"""Of a section; a longer one is cut between paragraphs."""


@dataclass(frozen=True, slots=True)
class Section:
    """A piece of the reference.

    Attributes:
        id: ``topic/heading``, and a number where the section had to be cut: ``try/finally-clause``.
        title: the heading.
        text: the words.
    """

    id: str
    title: str
    text: str


@cache
def sections() -> dict[str, Section]:
    """All sections, by id. What several topics hold stands where it was first, the shortest topic first."""
    found: dict[str, Section] = {}
    known: set[tuple[str, str]] = set()
    for topic in sorted(topics, key=lambda topic: (len(topics[topic]), topic)):
        for title, text in _headed(topics[topic]):
            if (title, text[:200]) in known:
                continue
            known.add((title, text[:200]))
            heading = _NOT_IN_IDS.sub("-", title.lower()).strip("-") or topic
            for number, part in enumerate(_cut(text), 1):
                id = f"{topic}/{heading}" + (f"-{number}" if number > 1 else "")
                while id in found:
                    id += "-again"
                found[id] = Section(id, title, part)
    return found


def _headed(text: str) -> list[tuple[str, str]]:
    """Headings and what stands under them; the first one heads the topic."""
    lines = text.splitlines()
    starts = [
        number
        for number in range(len(lines) - 1)
        if lines[number].strip() and _UNDERLINE.fullmatch(lines[number + 1]) and not lines[number].startswith(" ")
    ]
    pieces = []
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        body = "\n".join(lines[start + 2 : end]).strip()
        if body:
            pieces.append((lines[start].strip().replace('"', ""), body))
    return pieces


def _cut(text: str) -> list[str]:
    parts: list[str] = [""]
    for paragraph in text.split("\n\n"):
        if parts[-1] and len(parts[-1]) + len(paragraph) > MAX_CHARACTERS:
            parts.append("")
        parts[-1] += f"\n\n{paragraph}" if parts[-1] else paragraph
    return parts
