"""What tools' JSON Schemas tell about a plan's values: which paths lead nowhere, and which arguments take only text.

A path is impossible only where that is certain; text may hold JSON.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from callgate.tools.faults import did_you_mean
from callgate.tools.schema_references import at_pointer

from .paths import Path, path_text

__all__ = ["impossible", "takes_only_text"]

_OPEN = ("patternProperties", "allOf", "anyOf", "oneOf", "if", "not", "$dynamicRef", "unevaluatedProperties")
_MOST_REFERENCES = 20
"""References of a schema that are followed in a row."""
_MOST_LEVELS = 8
"""Levels of `anyOf` and `oneOf` that are looked into."""
_SHOWN = 12


def impossible(schema: Mapping[str, Any] | None, path: Path, root: str) -> tuple[str, str] | None:
    """Return why no result of this schema has the path, and what it has instead; None where it may have it.

    Args:
        schema: a tool's `output_schema`.
        path: the way into its result.
        root: what to call the result, e.g. ``"s1"``.
    """
    at: Any = schema
    for number, segment in enumerate(path):
        at = _resolved(at, schema)
        if not at or any(key in at for key in _OPEN):
            return None
        here, kinds = root + path_text(path[:number]), at.get("type")
        kinds = [kinds] if isinstance(kinds, str) else kinds if isinstance(kinds, list) else []
        is_name = isinstance(segment, str) and not segment.removeprefix("-").isdecimal()
        fitting = {"string", *(["object"] if isinstance(segment, str) else []), *([] if is_name else ["array"])}
        if kinds and fitting.isdisjoint(kinds):
            shown = repr(segment[:80]) if isinstance(segment, str) and is_name else path_text((segment,))[:80]
            return f"{here!r} is of type {' or '.join(map(str, kinds))} and has no {shown}", ""
        if not is_name:
            at = at.get("items") if "array" in kinds and "prefixItems" not in at else None
            continue
        known = at.get("properties")
        if not isinstance(known, dict) or "string" in kinds:
            return None
        if segment not in known:
            if at.get("additionalProperties", False) is not False:
                return None
            near = did_you_mean(str(segment), known).removeprefix("; did you mean ").removesuffix("?")
            shown = ", ".join(str(key)[:40] for key in list(known)[:_SHOWN])
            has = f"it has: {shown}" if shown else "it is an empty object"
            hint = f"did you mean {here}{path_text((near,))}?" if near else has
            return f"{here!r} has no {str(segment)[:80]!r}", hint
        at = known[segment]
    return None


def takes_only_text(schema: Mapping[str, Any], place: Sequence[str | int]) -> bool:
    """Return whether a tool takes nothing but a string at a place in its arguments.

    Args:
        schema: of the tool's arguments.
        place: the way there, e.g. ``("city",)``.
    """
    at: Any = schema
    for segment in place:
        at = _resolved(at, schema)
        if isinstance(segment, int):
            at = at.get("items")
        else:
            known = at.get("properties")
            at = known.get(segment) if isinstance(known, dict) else None
    return _is_text(at, schema, 0)


def _is_text(schema: Any, root: Mapping[str, Any], level: int) -> bool:
    at = _resolved(schema, root)
    if "type" in at:
        return at["type"] in ("string", ["string"])
    if "const" in at:
        return isinstance(at["const"], str)
    if isinstance(options := at.get("enum"), list) and options:
        return all(isinstance(option, str) for option in options)
    branches = at.get("anyOf") or at.get("oneOf")
    if not isinstance(branches, list):
        return False
    return level < _MOST_LEVELS and all(_is_text(each, root, level + 1) for each in branches)


def _resolved(schema: Any, root: Any) -> Mapping[str, Any]:
    """Return the schema that a `$ref` leads to; empty for anything that is not a schema of this document."""
    for _ in range(_MOST_REFERENCES):
        if not isinstance(schema, dict):
            return {}
        reference = schema.get("$ref")
        if reference is None:
            return schema
        if not isinstance(reference, str) or not reference.startswith("#"):
            return {}
        schema = at_pointer(root, reference[1:])
    return {}
