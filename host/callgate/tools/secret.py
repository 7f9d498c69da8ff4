"""Which parts of a tool's arguments and results are secrets, as its schemas say.

A schema says so with ``"x-callgate-secret": true`` (`Secret` writes it) or with ``"format": "password"`` (pydantic's
`SecretStr` and `SecretBytes` write it, and OpenAPI).

1. What may be a secret is one: of several alternatives (`anyOf`, `if`), all count.
2. A schema comes from outside. Work is bounded by the schema and by the reader's budget; circles of references end, and
   patterns run in linear time.

Knows schemas and keys of values; looks at no value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .schema_references import References

__all__ = ["SECRET_KEYWORD", "Secret", "SecretPlace", "secret_place"]

SECRET_KEYWORD: Final = "x-callgate-secret"
_SAME_VALUE: Final = ("allOf", "anyOf", "oneOf")
_BRANCHES: Final = ("if", "then", "else")
_OTHER_KEYS: Final = ("additionalProperties", "unevaluatedProperties")
_OTHER_ITEMS: Final = ("additionalItems", "unevaluatedItems", "contains")
_LONGEST_KEY: Final = 1_000
"""Characters of a key that patterns are asked about; a longer key matches all."""
_MOST_PLACES: Final = 1_000
"""Places of one schema that are kept; further ones are made anew."""


class Secret:
    """Marks a value as a secret: ``Annotated[str, Secret]``, for a parameter, a field or a result.

    The tool and the program get the value. Logs, spans, transcripts and pages get ``[redacted]``.
    """

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: Any) -> dict[str, Any]:
        """The schema of the marked type, with the mark."""
        return {**handler(core_schema), SECRET_KEYWORD: True}


class SecretPlace:
    """A place in a value: the parts of the schema that speak about it.

    Attributes:
        secret: whether the value at this place is a secret as a whole.
        cost: units of work that a step from here takes: the number of those parts.
    """

    __slots__ = ("_document", "_parts", "cost", "secret")

    def __init__(self, parts: tuple[dict[str, Any], ...], document: _Document) -> None:
        self._parts = parts
        self._document = document
        self.cost = len(parts)
        self.secret = any(map(_is_secret, parts))

    def of_key(self, key: str) -> SecretPlace | None:
        """The place of an object's member; None if no part of the schema speaks about it."""
        found: list[Any] = []
        for part in self._parts:
            known = part.get("properties")
            patterns = part.get("patternProperties")
            matched = [each for name, each in patterns.items() if self._document.matches(name, key)] if patterns else []
            if known and key in known:
                matched.append(known[key])
            found += matched or [part.get(word) for word in _OTHER_KEYS]
        return self._document.place(found)

    def of_item(self, index: int) -> SecretPlace | None:
        """The place of an array's item."""
        found: list[Any] = []
        for part in self._parts:
            items = part.get("items")
            first = items if isinstance(items, list) else part.get("prefixItems") or ()
            found.append(first[index] if index < len(first) else None if isinstance(items, list) else items)
            found += [part.get(word) for word in _OTHER_ITEMS]
        return self._document.place(found)


def secret_place(schema: dict[str, Any] | None) -> SecretPlace | None:
    """The place of the whole value; None if the schema names no secret."""
    if schema is None or not any(map(_is_secret, _parts(schema))):
        return None
    return _Document(schema).place([schema])


class _Document:
    """One schema: follows its references, and keeps the places that were asked for."""

    def __init__(self, schema: dict[str, Any]) -> None:
        from .schema_references import References

        self._references: References = References(schema, "a schema with secrets")
        self._places: dict[tuple[int, ...], SecretPlace] = {}
        self._patterns: dict[str, Any] = {}

    def place(self, schemas: list[Any]) -> SecretPlace | None:
        """The place about which these schemas speak, and all to which they lead for the same value."""
        found: dict[int, dict[str, Any]] = {}
        todo: list[Any] = list(schemas)
        while todo:
            part = todo.pop()
            if not isinstance(part, dict) or not part or id(part) in found:
                continue
            found[id(part)] = part
            for word in _SAME_VALUE:
                todo += part.get(word) or ()
            todo += [part[word] for word in _BRANCHES if word in part]
            for word in ("dependentSchemas", "dependencies"):
                todo += (part.get(word) or {}).values()
            todo += self._references.of(part)
        if not found:
            return None
        key = tuple(sorted(found))
        place = self._places.get(key)
        if place is None:
            place = SecretPlace(tuple(found.values()), self)
            if len(self._places) < _MOST_PLACES:
                self._places[key] = place
        return place

    def matches(self, pattern: str, key: str) -> bool:
        """Whether a key matches a pattern of `patternProperties`."""
        if len(key) > _LONGEST_KEY:
            return True
        validator = self._patterns.get(pattern)
        if validator is None:
            from .schema_check import validator_of

            validator = self._patterns[pattern] = validator_of({"pattern": pattern}, "a pattern of a schema")
        return bool(validator.is_valid(key))


def _is_secret(part: Mapping[str, Any]) -> bool:
    return part.get(SECRET_KEYWORD) is True or part.get("format") == "password"


def _parts(schema: Any) -> Iterator[dict[str, Any]]:
    """All objects in a schema, those that are only values included."""
    todo = [schema]
    while todo:
        part = todo.pop()
        if isinstance(part, dict):
            yield part
            todo += part.values()
        elif isinstance(part, list):
            todo += part
