"""Where a tool's result says that it comes from, in the shapes that tools commonly use. Bounded; it believes nothing.

Looked at are the fields ``sources``, ``source``, ``citations`` and ``citation`` of a result that is an object: text, an
object, or a list of those. Where the result is a list of hits, or an object with one under ``results``, ``hits``,
``matches``, ``documents`` or ``passages``, the same fields of each hit; and a hit with a title or an address is a
source itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from callgate.agent.planning.tool_plan import Source

__all__ = ["MAX_SOURCES", "sources_in"]

MAX_SOURCES = 50
"""The most sources that are taken from one result."""
MAX_TITLE_CHARACTERS = 300
MAX_LOCATION_CHARACTERS = 1000
MAX_TEXT_CHARACTERS = 2000
"""A longer text of a source is cut, with an ellipsis; the result itself has it whole."""
_MOST_LOOKED_AT = 1000
"""Hits of one result."""

_FIELDS = ("sources", "source", "citations", "citation")
_LISTS = ("results", "hits", "matches", "documents", "passages")
_TITLES = ("title", "name", "document", "file")
_LOCATIONS = ("location", "url", "uri", "section", "path", "page", "id")
_TEXTS = ("text", "snippet", "excerpt", "quote", "content")


def sources_in(result: Any, tool: str) -> tuple[Source, ...]:
    """The sources that a result names, each once, in its order.

    Args:
        result: a JSON value.
        tool: the tool that gave it: the title of sources that have none.
    """
    found: dict[Source, None] = {}
    for source in _looked_for(result, tool):
        found.setdefault(source)
        if len(found) == MAX_SOURCES:
            break
    return tuple(found)


def _looked_for(result: Any, tool: str) -> Iterator[Source]:
    if isinstance(result, Mapping):
        yield from _named(result, tool)
        for name in _LISTS:
            if isinstance(hits := result.get(name), list):
                yield from _hits(hits, tool)
    elif isinstance(result, list):
        yield from _hits(result, tool)


def _hits(hits: list[Any], tool: str) -> Iterator[Source]:
    for hit in hits[:_MOST_LOOKED_AT]:
        if not isinstance(hit, Mapping):
            continue
        named = list(_named(hit, tool))
        if named:
            text = _first(hit, _TEXTS)
            for source in named:
                yield source if source.text else Source(title=source.title, location=source.location, text=_cut(text))
        elif _first(hit, (*_TITLES, "url", "uri", "section")):
            yield _of(hit, tool)


def _named(result: Mapping[Any, Any], tool: str) -> Iterator[Source]:
    for name in _FIELDS:
        given = result.get(name)
        for each in given[:_MOST_LOOKED_AT] if isinstance(given, list) else [given]:
            if isinstance(each, str) and each.strip():
                yield Source(title=tool, location=each.strip()[:MAX_LOCATION_CHARACTERS])
            elif isinstance(each, Mapping) and (_first(each, _TITLES) or _first(each, _LOCATIONS)):
                yield _of(each, tool)


def _of(given: Mapping[Any, Any], tool: str) -> Source:
    return Source(
        title=(_first(given, _TITLES) or tool)[:MAX_TITLE_CHARACTERS],
        location=_first(given, _LOCATIONS)[:MAX_LOCATION_CHARACTERS],
        text=_cut(_first(given, _TEXTS)),
    )


def _first(given: Mapping[Any, Any], names: tuple[str, ...]) -> str:
    for name in names:
        value = given.get(name)
        if isinstance(value, str) and value.strip():
            return value.strip()
        if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() < 64:
            return str(value)
    return ""


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT_CHARACTERS else f"{text[: MAX_TEXT_CHARACTERS - 1]}…"
