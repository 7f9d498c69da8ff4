"""Turns a tool into text for the search: which of its texts count, and how much.

Name and capabilities count three times, because authors choose them with care. The other texts are server, category,
description, parameters with their descriptions and enumerated values, and the queries of examples. Limitations do not
count, because they say what the tool is not for; results do not count either.

Bounded: a schema may be enormous, or go in circles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from callgate.tools import Tool

from .postings import Profile
from .words import MAX_TEXT_CHARACTERS, text_terms

__all__ = ["document_text", "meaning_text", "name_text", "parameter_texts", "profile_of"]

_NAME_WEIGHT = 3
_MAX_SCHEMAS = 400
"""Most subschemas of a tool's parameters that are read, the outer ones first."""
_MAX_TERMS = 256
"""Most different terms of a tool; a real tool has 40. A new word costs 30 µs, most of it in the stemmer: this bounds
tools of random words."""
_MAX_VALUES = 20
"""Most enumerated values of a parameter that are read."""
_WITHIN = ("items", "additionalProperties", "not", "if", "then", "else", "contains")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")


def name_text(tool: Tool) -> str:
    """The tool's name: its server and its name there, or its own name."""
    return f"{tool.server} {tool.server_tool}" if tool.server else tool.name


def document_text(tool: Tool) -> str:
    """The tool's other texts: category, description, parameters, examples."""
    texts = [tool.category or "", tool.description[:MAX_TEXT_CHARACTERS], *parameter_texts(tool.input_schema)]
    texts += (text for example in tool.examples[:_MAX_VALUES] for text in _example_texts(example))
    return " ".join(texts)


def meaning_text(tool: Tool) -> str:
    """All the tool's texts, for an encoder that reads sentences: the important ones first."""
    words = " ".join((*tool.capabilities, document_text(tool))).split()
    return f"{name_text(tool)}: {' '.join(words)}"


def profile_of(tool: Tool) -> Profile:
    """The tool's terms, counted."""
    counts: dict[str, int] = {}
    for weight, term in _weighted(tool):
        if len(counts) >= _MAX_TERMS:
            break
        counts[term] = counts.get(term, 0) + weight
    return Profile(counts, sum(counts.values()))


def _weighted(tool: Tool) -> Iterator[tuple[int, str]]:
    for text in (name_text(tool), *tool.capabilities):
        for term in text_terms(text):
            yield _NAME_WEIGHT, term
    for term in text_terms(document_text(tool)):
        yield 1, term


def parameter_texts(schema: Mapping[str, Any]) -> Iterator[str]:
    """Names, descriptions and enumerated values of all parameters, the outer ones first."""
    waiting: list[Any] = [schema]
    seen: set[int] = set()
    room = MAX_TEXT_CHARACTERS
    for place in range(_MAX_SCHEMAS):
        if place >= len(waiting) or room <= 0:
            return
        each = waiting[place]
        if not isinstance(each, Mapping) or id(each) in seen:
            continue
        seen.add(id(each))
        for text in _own_texts(each, outermost=place == 0):
            room -= len(text)
            yield text
        waiting += _inner(each, schema)


def _own_texts(schema: Mapping[str, Any], *, outermost: bool) -> Iterator[str]:
    properties = schema.get("properties")
    if isinstance(properties, Mapping):
        yield from (name for name, _ in zip(properties, range(_MAX_SCHEMAS), strict=False) if isinstance(name, str))
    description = schema.get("description")
    if isinstance(description, str) and not outermost:
        yield description[:MAX_TEXT_CHARACTERS]
    values = schema.get("enum")
    if isinstance(values, Sequence) and not isinstance(values, str):
        yield from (value for value in values[:_MAX_VALUES] if isinstance(value, str))


def _inner(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Iterator[Any]:
    properties = schema.get("properties")
    if isinstance(properties, Mapping):
        yield from list(properties.values())[:_MAX_SCHEMAS]
    for key in _WITHIN:
        if key in schema:
            yield schema[key]
    for key in _LISTS:
        listed = schema.get(key)
        if isinstance(listed, Sequence) and not isinstance(listed, str):
            yield from listed[:_MAX_SCHEMAS]
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/"):
        target: Any = root
        for part in reference[2:].split("/")[:16]:
            target = target.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(target, Mapping) else None
        yield target


def _example_texts(example: Any) -> Iterator[str]:
    if isinstance(example, str):
        yield example[:MAX_TEXT_CHARACTERS]
    elif isinstance(example, Mapping):
        for key in ("query", "description"):
            if isinstance(text := example.get(key), str):
                yield text[:MAX_TEXT_CHARACTERS]
