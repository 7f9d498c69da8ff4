"""What a schema says in words, and what it says beyond Python's types."""

from __future__ import annotations

import json
from typing import Any

from .references import Schema

__all__ = ["about", "shown_default"]

_MOST_TEXT = 100


def about(schema: Schema) -> str:
    """The description, and the constraints behind it in parentheses; empty where there is neither."""
    described = schema.get("description")
    text = described.strip() if isinstance(described, str) else ""
    told = "; ".join(_constraints(schema))
    return " ".join(part for part in (text, f"({told})" if told else "") if part)


def shown_default(value: Any) -> str:
    """``default ...``; empty where it is null, or too long to show."""
    text = "" if value is None else json.dumps(value, ensure_ascii=False)
    return f"default {text}" if 0 < len(text) <= _MOST_TEXT else ""


def _constraints(schema: Schema) -> list[str]:
    told = []
    for keyword in ("format", "contentEncoding", "contentMediaType"):
        if isinstance(schema.get(keyword), str) and schema[keyword]:
            told.append(schema[keyword][:_MOST_TEXT])
    told += _range(schema, ("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum"), "")
    if _is_number(schema.get("multipleOf")):
        told.append(f"a multiple of {schema['multipleOf']}")
    for least, most, what in (
        ("minLength", "maxLength", " characters"),
        ("minItems", "maxItems", " items"),
        ("minProperties", "maxProperties", " keys"),
    ):
        told += _range(schema, (least,), (most,), what)
    if schema.get("uniqueItems") is True:
        told.append("no item twice")
    pattern = schema.get("pattern")
    if isinstance(pattern, str) and len(pattern) <= _MOST_TEXT:
        told.append(f"matches {pattern}")
    if schema.get("deprecated") is True:
        told.append("deprecated")
    return told


def _range(schema: Schema, least: tuple[str, ...], most: tuple[str, ...], what: str) -> list[str]:
    signs = dict(zip((*least, *most), ("≥", ">", "≤", "<") if len(least) == 2 else ("≥", "≤"), strict=True))
    told = [f"{sign} {schema[keyword]}" for keyword, sign in signs.items() if _bounds(schema, keyword)]
    if len(told) == 2 and what and schema[least[0]] == schema[most[0]]:
        return [f"{schema[least[0]]}{what}"]
    return [", ".join(told) + what] if told else []


def _bounds(schema: Schema, keyword: str) -> bool:
    """A lower bound of 0 for a count says nothing."""
    value = schema.get(keyword)
    return _is_number(value) and not (value == 0 and keyword in ("minLength", "minItems", "minProperties"))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and len(str(value)) <= _MOST_TEXT
