"""Whether a path can lead anywhere in what a JSON Schema describes. Says no only where that is certain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from callgate.tools.faults import did_you_mean

from .paths import Path, path_text

__all__ = ["impossible"]

_OPEN = ("patternProperties", "allOf", "anyOf", "oneOf", "if", "not", "$dynamicRef", "unevaluatedProperties")
_MAX_HOPS = 20
_SHOWN = 12


def impossible(schema: Mapping[str, Any] | None, path: Path, root: str) -> tuple[str, str] | None:
    """Why no result of this schema has the path, and what it has instead; None where it may have it.

    Args:
        schema: a tool's `output_schema`.
        path: the way into its result.
        root: what to call the result, e.g. ``"s1"``.
    """
    at: Any = schema
    for number, segment in enumerate(path):
        at = _resolved(schema, at)
        if at is None:
            return None
        here = root + path_text(path[:number])
        kinds = at.get("type")
        kinds = [kinds] if isinstance(kinds, str) else kinds if isinstance(kinds, list) else []
        if isinstance(segment, str) and not _is_index(segment):
            if kinds and not {"object", "string"} & set(kinds):  # text may hold JSON
                return f"{here!r} is of type {' or '.join(map(str, kinds))} and has no {segment[:80]!r}", ""
            known = at.get("properties")
            if not isinstance(known, dict) or "object" not in (kinds or ["object"]) or "string" in kinds:
                return None
            if segment in known:
                at = known[segment]
            elif at.get("additionalProperties", False) is False:
                near = did_you_mean(segment, known).removeprefix("; did you mean ").removesuffix("?")
                if near:
                    return f"{here!r} has no {segment[:80]!r}", f"did you mean {here}{path_text((near,))}?"
                shown = ", ".join(str(key)[:40] for key in list(known)[:_SHOWN])
                return f"{here!r} has no {segment[:80]!r}", f"it has: {shown}" if shown else "it is an empty object"
            else:
                return None
        else:
            if kinds and not {"array", "string"} & set(kinds) and not (isinstance(segment, str) and "object" in kinds):
                return f"{here!r} is of type {' or '.join(map(str, kinds))} and has no {path_text((segment,))[:80]}", ""
            at = at.get("items") if "array" in kinds and "prefixItems" not in at else None
    return None


def _is_index(name: str) -> bool:
    return name.removeprefix("-").isdecimal()


def _resolved(root: Any, at: Any) -> dict[str, Any] | None:
    """The schema behind `$ref`; None where anything may be."""
    for _ in range(_MAX_HOPS):
        if not isinstance(at, dict):
            return None
        reference = at.get("$ref")
        if reference is None:
            return None if any(key in at for key in _OPEN) else at
        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        at = root
        for part in reference[1:].split("/")[1:]:
            part = part.replace("~1", "/").replace("~0", "~")
            at = at.get(part) if isinstance(at, dict) else None
    return None
