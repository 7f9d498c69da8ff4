"""What kind of tool a tool is, by its category, its capabilities and its name. Calls nothing.

A category that names the kind decides. Without one, the words of the capabilities and of the name decide, by their
stems. Descriptions do not count: they often tell what a tool is *not* for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from callgate.search.words import stem, text_terms
from callgate.tools.registry import ToolInfo

__all__ = ["Kind", "free_text_parameter", "is_hypothetical", "kind_of", "shared_capabilities"]

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


_KINDS: Mapping[Kind, frozenset[str]] = {
    "validation": _stems("validate validation validator verify verification hallucination groundedness"),
    "synthesis": _stems("synthesis synthesize synthesise summarize summarise"),
    "search": _stems("search retrieve retrieval lookup"),
}
_HYPOTHETICAL = _stems("hyde hypothetical")
"""HyDE: the search is for a made-up answer instead of the question (Gao et al., 2022)."""
_FREE_TEXT = (
    "query", "question", "q", "search_query", "text", "search", "keywords", "terms", "phrase", "prompt", "words",
)  # fmt: skip
"""Names of parameters that take a question in words, the surest first."""


def _words_of(info: ToolInfo) -> frozenset[str]:
    return frozenset(text_terms(" ".join((info.name, *info.capabilities))))


def kind_of(info: ToolInfo) -> Kind:
    """What a tool is for."""
    known = _CATEGORIES.get((info.category or "").strip().casefold())
    if known is not None:
        return known
    words = _words_of(info)
    return next((kind for kind, stems in _KINDS.items() if words & stems), "other")


def is_hypothetical(info: ToolInfo) -> bool:
    """Whether a tool searches by a hypothetical answer: its name or a capability says ``hyde`` or ``hypothetical``."""
    return bool(_words_of(info) & _HYPOTHETICAL)


def shared_capabilities(one: ToolInfo, other: ToolInfo) -> int:
    """The number of capabilities that two tools have in common, in any case of letters."""
    return len({each.casefold() for each in one.capabilities} & {each.casefold() for each in other.capabilities})


def free_text_parameter(schema: Mapping[str, Any]) -> tuple[str, bool] | None:
    """The parameter of a tool that takes words, where the tool needs no other.

    Args:
        schema: of the tool's arguments.

    Returns:
        The name, and whether a parameter of this name certainly takes a question; None without such a parameter.
    """
    properties, required = schema.get("properties", {}), schema.get("required", ())
    texts = [name for name, each in properties.items() if _is_plain_text(each)]
    if len(required) > 1 or not set(required) <= set(texts):
        return None
    name = next((each for each in required or _FREE_TEXT if each in texts), None)
    return None if name is None else (name, name.casefold() in _FREE_TEXT)


def _is_plain_text(schema: Any) -> bool:
    if not isinstance(schema, Mapping) or schema.get("type") not in ("string", ["string", "null"]):
        return False
    return not ({"enum", "const", "format", "pattern"} & schema.keys())
