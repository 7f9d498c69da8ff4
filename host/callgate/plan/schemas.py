"""What tools' JSON Schemas say of a plan's values: which paths can lead nowhere, and which arguments take only text.

A path is impossible only where that is certain. References to what is no text, where a tool takes nothing but text, are
written as JSON, as declarative plans have it:

1. Only whole values of the ``$ref:`` dialect, ``"$ref:id.path"`` and ``"$item.path"``: the object dialect, expressions
   and whatever a program or a model passes keep their types.
2. Only where the schema takes nothing but a string: with its type the value would certainly be refused.
3. Null stays null: a path that leads nowhere is not the text ``null``.
4. What is written so is told in a warning on the step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from callgate.tools.encoding import compact_json
from callgate.tools.faults import described, did_you_mean
from callgate.tools.schema_references import at_pointer

from .inputs import Inputs
from .paths import Path, path_text
from .sizes import json_size
from .values import Array, At, Literal, Object, Template

__all__ = ["impossible", "with_texts"]

_OPEN = ("patternProperties", "allOf", "anyOf", "oneOf", "if", "not", "$dynamicRef", "unevaluatedProperties")
_MOST_REFERENCES = 20
"""So many `$ref` of a schema are followed in a row."""
_MOST_LEVELS = 8
"""So many `anyOf` and `oneOf` within each other are looked into."""
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
        at = _resolved(at, schema)
        if not at or any(key in at for key in _OPEN):
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


@dataclass(frozen=True, slots=True)
class AsText:
    """A value that is written as JSON unless it is text or null."""

    value: At
    written: str
    """The reference, for the warning."""
    place: str
    """The argument."""

    def resolve(self, inputs: Inputs) -> Any:
        value = self.value.resolve(inputs)
        if value is None or isinstance(value, str):
            return value
        inputs.make(json_size(value, inputs.max_bytes))
        text = compact_json(value)
        inputs.size += 6 * len(text)  # what JSON can make of a character
        got = described(value).partition(" (")[0]
        inputs.warn(f"{self.place!r} takes text: {self.written[:80]}, {got}, was written as JSON text")
        return text


def with_texts(template: Template, written: Any, schema: Mapping[str, Any]) -> Template:
    """The arguments of a step, so that text parameters get text.

    Args:
        template: the arguments, compiled.
        written: the same as they stand in the plan.
        schema: of the tool's arguments.
    """
    return _within(template, written, schema, schema, "")


def _within(template: Template, written: Any, schema: Any, root: Mapping[str, Any], place: str) -> Template:
    kind = type(template)
    if kind is Object and type(written) is dict:
        assert isinstance(template, Object)
        members = [
            member
            if type(member) is Literal
            else _within(member, written[key], _property(schema, key, root), root, f"{place}.{key}" if place else key)
            for key, member in zip(template.keys, template.members, strict=True)
        ]
        same = all(one is other for one, other in zip(members, template.members, strict=True))
        return template if same else Object(template.keys, tuple(members))
    if kind is Array and type(written) is list:
        assert isinstance(template, Array)
        below = _resolved(schema, root).get("items")
        items = [
            item if type(item) is Literal else _within(item, each, below, root, f"{place}[{index}]")
            for index, (item, each) in enumerate(zip(template.items, written, strict=True))
        ]
        same = all(one is other for one, other in zip(items, template.items, strict=True))
        return template if same else Array(tuple(items))
    if isinstance(template, At) and isinstance(written, str) and _takes_only_text(schema, root, 0):
        return AsText(template, written, place)
    return template


def _property(schema: Any, key: str, root: Mapping[str, Any]) -> Any:
    known = _resolved(schema, root).get("properties")
    return known.get(key) if isinstance(known, dict) else None


def _resolved(schema: Any, root: Any) -> Mapping[str, Any]:
    """The schema that is meant where there is a `$ref` to a definition; empty where there is none to speak of."""
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


def _takes_only_text(schema: Any, root: Mapping[str, Any], level: int) -> bool:
    said = _resolved(schema, root)
    if said.get("type") in ("string", ["string"]):
        return True
    if "type" in said:
        return False
    if "const" in said:
        return isinstance(said["const"], str)
    if isinstance(options := said.get("enum"), list) and options:
        return all(isinstance(option, str) for option in options)
    for several in ("anyOf", "oneOf"):
        if isinstance(branches := said.get(several), list) and branches:
            return level < _MOST_LEVELS and all(_takes_only_text(each, root, level + 1) for each in branches)
    return False
