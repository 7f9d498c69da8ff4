"""What holds at once: the parts that one schema comes to when its references and its ``allOf`` are taken together.

1. A reference and what stands beside it hold together, as in drafts 2019-09 and later.
2. A reference that leads to a part that is there already adds nothing: A and A is A.
3. Conditions (`if`, `not`, `dependentSchemas`, ...) are left out: without them a form takes more, never less.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["MOST_TOGETHER", "UNIONS", "Part", "Parts", "Schema", "flatten", "kinds_of", "says_a_type", "unions_of"]

Schema = dict[str, Any]
REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
UNIONS = ("anyOf", "oneOf")
_VALUES = ("enum", "const")
_OF_OBJECTS = ("properties", "patternProperties", "additionalProperties", "required")
_OF_LISTS = ("items", "prefixItems")
_SAYS = frozenset({"type", *_VALUES, *_OF_OBJECTS, *_OF_LISTS, *UNIONS})
MOST_TOGETHER = 64
"""Parts that hold at once; more are not looked at."""


@dataclass(frozen=True, slots=True)
class Part:
    """A schema without its `$ref` and its `allOf`."""

    schema: Schema
    bare: bool = False
    """Whether its `anyOf` and `oneOf` are seen to already."""

    @property
    def key(self) -> tuple[int, bool]:
        """The same for the same part of a document."""
        return id(self.schema), self.bare


@dataclass(frozen=True, slots=True)
class Parts:
    """All that holds at once."""

    each: tuple[Part, ...]
    title: str | None = None
    """What the schema calls itself; else the last word of the first reference that led here."""
    referred: bool = False
    """Whether a reference led here: then it may lead here again."""
    never: bool = False
    """Whether ``false`` is among them: no value fits."""
    cut: bool = False
    """Whether there are more than are looked at."""

    @property
    def key(self) -> tuple[tuple[int, bool], ...]:
        """The same for the same parts of a document."""
        return tuple(part.key for part in self.each)

    def and_also(self, others: list[Parts]) -> Parts:
        """These and those; called what the first that has a title is called."""
        every = {part.key: part for parts in (self, *others) for part in parts.each}
        titles = [parts.title for parts in (*others, self) if parts.title]
        never = any(parts.never for parts in (self, *others))
        return Parts(tuple(every.values()), titles[0] if titles else None, self.referred, never)


def flatten(schemas: list[Any], targets: Callable[[Schema], list[Schema]]) -> Parts:
    """The parts of schemas that all hold.

    Args:
        schemas: any.
        targets: what a schema's references stand for.
    """
    found: dict[int, Part] = {}
    seen: set[int] = set()
    title = reference_word = None
    referred = never = False
    todo = list(reversed(schemas))
    while todo and len(found) < MOST_TOGETHER:
        schema = todo.pop()
        if schema is False:
            never = True
        if not isinstance(schema, dict) or id(schema) in seen:
            continue
        seen.add(id(schema))
        if title is None and isinstance(schema.get("title"), str) and schema["title"].strip():
            title = schema["title"]
        if any(keyword in _SAYS for keyword in schema):
            found[id(schema)] = Part(schema)
        several = schema.get("allOf")
        if isinstance(several, list):
            todo.extend(reversed(several))
        reference = next((schema[word] for word in REFERENCES if isinstance(schema.get(word), str)), None)
        if reference is not None:
            referred = True
            reference_word = reference_word or reference.rpartition("/")[2].strip("#")
            todo.extend(targets(schema))
    return Parts(tuple(found.values()), title or reference_word, referred, never, cut=bool(todo))


def says_a_type(part: Part) -> bool:
    """Whether a part says anything but which keys are required."""
    return any(
        keyword in part.schema for keyword in _SAYS if keyword != "required" and not (part.bare and keyword in UNIONS)
    )


def unions_of(parts: Parts) -> list[list[Any]]:
    """The alternatives that have not been seen to: of each list, one holds."""
    return [
        part.schema[keyword]
        for part in parts.each
        if not part.bare
        for keyword in UNIONS
        if isinstance(part.schema.get(keyword), list) and part.schema[keyword]
    ]


def kinds_of(parts: Parts) -> list[str] | None:
    """The JSON types that all parts allow, in the order of the first that says; None where none says."""
    allowed: list[str] | None = None
    for part in parts.each:
        said = part.schema.get("type")
        if said is None:
            continue
        kinds = [each for each in (said if isinstance(said, list) else [said]) if isinstance(each, str)]
        if part.schema.get("nullable") is True and "null" not in kinds:
            kinds.append("null")
        allowed = kinds if allowed is None else [both for a in allowed for b in kinds if (both := _both(a, b))]
    if allowed is not None:
        return list(dict.fromkeys(allowed))
    keywords = {keyword for part in parts.each for keyword in part.schema}
    if keywords & {"properties", "patternProperties"} or any(
        isinstance(part.schema.get("additionalProperties"), dict) for part in parts.each
    ):
        return ["object"]
    return ["array"] if keywords & set(_OF_LISTS) else None


def _both(a: str, b: str) -> str | None:
    if a == b:
        return a
    return "integer" if {a, b} == {"integer", "number"} else None
