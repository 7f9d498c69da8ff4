"""What a planner has to know of a tool's kind: by its category, its capabilities, its name. Words only; calls nothing.

A category that says the kind decides. Without one, the words of the capabilities and of the name do, by their stems:
what `callgate.search` compares. Descriptions do not count: they tell as often what a tool is *not* for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from callgate.search.words import stem, text_terms
from callgate.tools.registry import ToolInfo

__all__ = ["Kind", "free_text_parameter", "is_hypothetical", "kind_of", "shared_capabilities", "words_of_tool"]

Kind = Literal["search", "validation", "synthesis", "external", "other"]

_CATEGORIES: Mapping[str, Kind] = {
    "search": "search",
    "retrieval": "search",
    "validation": "validation",
    "verification": "validation",
    "synthesis": "synthesis",
    "external": "external",
}


def _stems(words: str) -> frozenset[str]:
    return frozenset(stem(word) for word in words.split())


_KINDS: tuple[tuple[Kind, frozenset[str]], ...] = (
    ("validation", _stems("validate validation validator verify verification hallucination groundedness")),
    ("synthesis", _stems("synthesis synthesize synthesise summarize summarise")),
    ("search", _stems("search retrieve retrieval lookup")),
)
_HYPOTHETICAL = _stems("hyde hypothetical")
"""HyDE: a made-up answer is searched by, instead of the question (Gao et al., 2022)."""
_FREE_TEXT = (
    "query",
    "question",
    "q",
    "search_query",
    "text",
    "search",
    "keywords",
    "terms",
    "phrase",
    "prompt",
    "words",
)
"""Names of parameters that take a question in words, the surest first."""


def words_of_tool(info: ToolInfo) -> frozenset[str]:
    """The stems of its name and its capabilities."""
    return frozenset(text_terms(" ".join((info.name, *info.capabilities))))


def kind_of(info: ToolInfo) -> Kind:
    """What a tool is for."""
    known = _CATEGORIES.get((info.category or "").strip().casefold())
    if known is not None:
        return known
    words = words_of_tool(info)
    return next((kind for kind, stems in _KINDS if words & stems), "other")


def is_hypothetical(info: ToolInfo) -> bool:
    """Whether it searches by a hypothetical answer: a capability or its name says ``hyde`` or ``hypothetical``."""
    return bool(words_of_tool(info) & _HYPOTHETICAL)


def shared_capabilities(one: ToolInfo, other: ToolInfo) -> int:
    """How many capabilities two tools have in common; upper and lower case are the same."""
    return len({each.casefold() for each in one.capabilities} & {each.casefold() for each in other.capabilities})


def free_text_parameter(schema: Mapping[str, Any]) -> tuple[str, bool] | None:
    """The one parameter that words can be put into, where all others may be left out.

    Args:
        schema: of the tool's arguments.

    Returns:
        Its name, and whether it certainly takes a question in words, by its name; None where there is none, or
        something else is required.
    """
    properties = schema.get("properties")
    required = schema.get("required", ())
    if not isinstance(properties, Mapping) or not isinstance(required, (list, tuple)) or len(required) > 1:
        return None
    if required:
        name = required[0]
        return (name, name.casefold() in _FREE_TEXT) if _plain_text(properties.get(name)) else None
    named = next((each for each in _FREE_TEXT if _plain_text(properties.get(each))), None)
    return None if named is None else (named, True)


def _plain_text(schema: Any) -> bool:
    if not isinstance(schema, Mapping) or schema.get("type") not in ("string", ["string", "null"]):
        return False
    return not ({"enum", "const", "format", "pattern"} & schema.keys())
