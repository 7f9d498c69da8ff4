"""Values that a schema lists: ``enum`` and ``const``."""

from __future__ import annotations

import json
from typing import Any

from .conjunction import Parts, kinds_of
from .forms import ANY, Form, Listed, Mapped, Plain

__all__ = ["listed_values", "type_of"]


def listed_values(parts: Parts) -> list[Any]:
    """The values that are listed, if any are: of several lists, what is in all; only those of the right type."""
    lists = []
    for part in parts.each:
        if "const" in part.schema:
            lists.append([part.schema["const"]])
        if isinstance(part.schema.get("enum"), list):
            lists.append(part.schema["enum"])
    if not lists:
        return []
    texts = [{json.dumps(value, sort_keys=True) for value in values} for values in lists[1:]]
    common = [value for value in lists[0] if all(json.dumps(value, sort_keys=True) in each for each in texts)]
    kinds = kinds_of(Parts(tuple(part for part in parts.each if "type" in part.schema)))
    if kinds:
        common = [value for value in common or lists[0] if _is_of(value, kinds)]
    return common or lists[0]


def _is_of(value: Any, kinds: list[str]) -> bool:
    match value:
        case None:
            return "null" in kinds
        case bool():
            return "boolean" in kinds
        case int():
            return "integer" in kinds or "number" in kinds
        case float():
            return "number" in kinds or ("integer" in kinds and value.is_integer())
        case str():
            return "string" in kinds
        case list():
            return "array" in kinds
        case _:
            return "object" in kinds


def type_of(value: Any) -> Form:
    """The form of a value that no literal can be written for."""
    if isinstance(value, list):
        return Listed(ANY)
    if isinstance(value, dict):
        return Mapped(ANY)
    return Plain("None" if value is None else type(value).__name__)
