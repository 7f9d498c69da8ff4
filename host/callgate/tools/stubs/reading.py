"""JSON Schema in, annotations out. What Python's types cannot say is left out, never guessed.

1. What a schema allows, its annotation takes: constraints may be lost, values may not. Where nothing can be said:
   `ANY`. Three liberties: an object that names keys is a `TypedDict` of those, and a list is of what its `items` say;
   these keywords mean an object and a list; an argument that only some alternatives name has the types that they
   give it.
2. An object that names keys is a `Type`; so are a list of many values, and a reference that leads back to itself or
   to something wide. Everything else stands in place.
3. A schema comes from outside, and the work for one is bounded: `MOST_PARTS` and the other limits below. What they cut
   is told in `Reader.cuts`, and what no type can say in `Reader.unsaid`.
"""

from __future__ import annotations

import itertools
import json
from collections import deque
from typing import Any

from callgate.errors import ConfigurationError
from callgate.tools.schema_references import References

from .annotations import ANY, HIDING, Field, Form, Type, dict_of, list_of, mark, one_of, uses
from .conjunction import MOST_TOGETHER, Part, Parts, Schema, flatten, kinds_of, says_a_type, unions_of
from .texts import about, is_plain

__all__ = ["MOST_FIELDS", "MOST_PARTS", "MOST_VALUES", "Reader"]

MOST_PARTS = 2_000
"""Parts of one schema that are read, each as often as it is named; the rest is `Any`."""
MOST_FIELDS = 200
"""Keys of one object; an object of more is a `dict`."""
MOST_VALUES = 300
"""Values of one enum, and `MOST_VALUE_CHARACTERS` of them; of more, only the types."""
MOST_VALUE_CHARACTERS = 6_000
MOST_KEY_CHARACTERS = 200
"""Characters of a key, and it may not be empty: pyright refuses a `TypedDict` with such a key."""
MOST_BRANCHES = 32
"""Alternatives of several `anyOf`, multiplied, or of one beside other keywords; what goes beyond is left out."""
MOST_DEPTH = 40
_WIDE = 8
_LONG_LITERAL = 120

_TYPES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_CONDITIONAL = ("then", "else")


class Reader:
    """Reads one schema document.

    Args:
        root: the document; it must not change.
        name: what it describes, in words; types without a title are called after it.
        types: those of the tool; what is read is added to them.
    """

    def __init__(self, root: Schema, name: str, types: list[Type]) -> None:
        self._root = root
        self._references: References | None = None
        self._name = name
        self._types = types
        self._cuts: dict[str, None] = {}
        self._unsaid: dict[str, None] = {}
        self._left = MOST_PARTS
        self._guards = 0
        self._done: dict[tuple[Any, ...], Form | None] = {}
        self._open: dict[tuple[Any, ...], tuple[int, str]] = {}
        """Parts being read, with how many lists and dicts were open when that began, and what they are called."""
        self._aliases: dict[tuple[Any, ...], int] = {}
        self._objects: deque[tuple[Type, Parts, str]] = deque()

    @property
    def cuts(self) -> tuple[str, ...]:
        """What was left out for its size, a line each."""
        return tuple(self._cuts)

    @property
    def unsaid(self) -> tuple[str, ...]:
        """What was left out because no type can say it, a line each."""
        return tuple(self._unsaid)

    def form(self) -> Form:
        """The form of the document's values."""
        read = self._form([self._root], self._name)
        self._finish()
        return read

    def arguments(self) -> tuple[list[Field], Form | None]:
        """The document's values as keyword arguments: the keys, and the form of other keys where it lets them in."""
        parts = self._flat([self._root], self._name)
        fields = self._fields(parts, self._name)
        known = {field.key for field in fields}
        for branches in unions_of(parts):
            read = [self._fields(self._flat([branch], self._name), self._name) for branch in branches[:MOST_BRANCHES]]
            for key in dict.fromkeys(one.key for each in read for one in each if one.key not in known):
                same = [field for each in read for field in each if field.key == key]
                needed = len(same) == len(branches) and all(field.required for field in same)
                known.add(key)
                fields.append(Field(key, one_of(field.form for field in same), needed, same[0].about))
        rest = self._rest(parts, self._name)
        if len(fields) > MOST_FIELDS:
            self._cut(f"{len(fields) - MOST_FIELDS:,} more arguments")
            fields = sorted(fields, key=lambda field: not field.required)[:MOST_FIELDS]
        if len(fields) < max(len(known), len(_keys(parts))):
            rest = ANY
        self._finish()
        return fields, rest

    def _form(self, schemas: list[Any], name: str) -> Form:
        """The form of what fits all these schemas."""
        return self._read(self._flat(schemas, name), name) or ANY

    def _flat(self, schemas: list[Any], name: str) -> Parts:
        parts = flatten(schemas, self._targets)
        if parts.cut:
            self._cut(f"{name}: all but {MOST_TOGETHER} parts of allOf")
        return parts

    def _targets(self, schema: Schema) -> list[Schema]:
        """What a schema's reference stands for; nothing where it leads nowhere, or to one of several."""
        try:
            self._references = self._references or References(self._root, self._name)
            found = self._references.of(schema)
        except (ConfigurationError, ValueError):
            return []
        return found if len(found) == 1 else []

    def _read(self, parts: Parts, name: str) -> Form | None:
        """The form of parts; None where they contradict each other."""
        if parts.never:
            return None
        self._left -= 1
        key = parts.key
        if key in self._done:
            return self._done[key]
        if key in self._open:
            guards, called = self._open[key]
            return ANY if self._guards == guards else self._alias(key, parts, called)
        if self._left < 0 or len(self._open) > MOST_DEPTH:
            self._cut("what is nested deepest" if self._left >= 0 else f"all after the first {MOST_PARTS:,} parts")
            return ANY
        self._open[key] = (self._guards, parts.title or name)
        form = self._unread(parts, name)
        del self._open[key]
        if form is not None and (key in self._aliases or self._deserves_a_name(form, parts.referred)):
            own = self._alias(key, parts, name)
            self._types[self._aliases[key]].body = form
            form = own
        self._done[key] = form
        return form

    def _alias(self, key: tuple[Any, ...], parts: Parts, name: str) -> Form:
        if key not in self._aliases:
            self._aliases[key] = len(self._types)
            self._types.append(Type(parts.title or name, bool(parts.title), body=ANY))
        return (mark(str(self._aliases[key])),)

    def _deserves_a_name(self, form: Form, referred: bool) -> bool:
        values = [member for member in form if member.startswith("=")]
        return sum(len(value) + 1 for value in values) > _LONG_LITERAL or (
            referred and sum(1 + member.count("[") + member.count("|") for member in form) - len(values) > _WIDE
        )

    def _unread(self, parts: Parts, name: str) -> Form | None:
        if not parts.each:
            return ANY
        values = _listed_values(parts)
        if values:
            return self._literal(values, parts, name)
        unions = unions_of(parts)
        if unions:
            return self._union(parts, unions, name)
        kinds = kinds_of(parts)
        if kinds is None:
            return ANY
        if not kinds:
            return None
        return one_of([self._of_kind(kind, parts, name) for kind in kinds])

    def _union(self, parts: Parts, unions: list[list[Any]], name: str) -> Form | None:
        base = Parts(tuple(Part(part.schema, bare=True) for part in parts.each), parts.title, parts.referred)
        base_says = any(says_a_type(part) for part in base.each)
        alone = len(unions) == 1 and not base_says
        choices: list[list[Parts]] = []
        combined = 1
        for branches in unions:
            if combined * len(branches) > (MOST_VALUES if alone else MOST_BRANCHES):
                self._cut(f"{name}: {len(branches):,} alternatives")
                continue
            read = [self._flat([branch], name) for branch in branches]
            if any(says_a_type(part) for branch in read for part in branch.each):
                choices.append(read)
                combined *= len(read)
        if not choices:
            return self._read(base, name) if base_says else ANY
        forms = []
        for chosen in itertools.product(*choices):
            if alone:
                forms.append(self._read(chosen[0], name))
            else:
                titles = [each.title for each in chosen if each.title]
                together = Parts(base.each, None).and_also([Parts(each.each, never=each.never) for each in chosen])
                forms.append(self._read(together, " ".join([parts.title or name, *titles])))
        possible = [form for form in forms if form is not None]
        if possible and _nullable(parts):
            possible.append(("None",))
        return one_of(possible) if possible else None

    def _of_kind(self, kind: str, parts: Parts, name: str) -> Form:
        if kind == "array":
            return self._list(parts, name)
        if kind == "object":
            return self._object(parts, name)
        return (_TYPES[kind],) if kind in _TYPES else ANY

    def _inside(self, schemas: list[Any], name: str) -> Form:
        self._guards += 1
        form = self._form(schemas, name)
        self._guards -= 1
        return form

    def _list(self, parts: Parts, name: str) -> Form:
        places: list[Any] = []
        every: list[Any] = []
        for part in parts.each:
            items = part.schema.get("items")
            listed = part.schema.get("prefixItems", items)
            if isinstance(listed, list):
                places = places or listed
                items = part.schema.get("additionalItems") if items is listed else items
            if isinstance(items, dict):
                every.append(items)
        if len(places) > MOST_BRANCHES:
            self._cut(f"{name}: {len(places)} places of a list")
            return list_of(ANY)
        inside = [self._inside([place], f"{name} item") for place in places if place is not False]
        if every or not places:
            inside.append(self._inside(every, f"{name} item"))
        return list_of(one_of(inside))

    def _object(self, parts: Parts, name: str) -> Form:
        title = parts.title if parts.title and parts.title.casefold() != "object" else None
        wanted = title or name
        keys = _keys(parts)
        if not keys:
            rest = self._rest(parts, name, guarded=True)
            return dict_of(ANY if rest is None else rest)
        if len(keys) > MOST_FIELDS or any(len(key) > MOST_KEY_CHARACTERS for key in keys):
            self._cut(f"{wanted}: the {len(keys):,} keys of an object")
            return dict_of(ANY)
        if "" in keys:
            self._cut(f"{wanted}: the keys of an object, one of which is an empty text", self._unsaid)
            return dict_of(ANY)
        first = parts.each[0].schema if len(parts.each) == 1 else {}
        made = Type(wanted, bool(title), about({"description": first.get("description")}))
        made.plain = all(is_plain(key) and key not in HIDING for key in keys)
        self._types.append(made)
        self._objects.append((made, parts, wanted))
        return (mark(str(len(self._types) - 1)),)

    def _fields(self, parts: Parts, name: str) -> list[Field]:
        """The keys of an object, at most `MOST_FIELDS`; of more, those that are required come first."""
        listed = (key for part in parts.each for key in _listed(part.schema.get("required")))
        required = {key for key in listed if isinstance(key, str)}
        keys = _keys(parts)
        if "" in keys:
            self._cut("an argument whose name is an empty text", self._unsaid)
            del keys[""]
        told = [key for key in keys if len(key) <= MOST_KEY_CHARACTERS]
        if len(told) > MOST_FIELDS:
            told = sorted(told, key=lambda key: key not in required)[:MOST_FIELDS]
        if len(told) < len(keys):
            self._cut(f"{len(keys) - len(told):,} more {'argument' if len(keys) - len(told) == 1 else 'arguments'}")
        fields = []
        for key in told:
            own = next((schema for schema in keys[key] if isinstance(schema, dict)), {})
            form = self._inside(keys[key], _shortened(self._name, name, key)) if keys[key] else ANY
            has = "default" in own
            fields.append(Field(key, form, key in required, about(own), own["default"] if has else None, has))
        return fields

    def _rest(self, parts: Parts, name: str, *, guarded: bool = False) -> Form | None:
        """The form of the values of keys that are not named; None where no part lets them in."""
        said: list[Any] = []
        patterns: list[Any] = []
        for part in parts.each:
            more = part.schema.get("additionalProperties")
            if more is False:
                said.append(False)
            elif isinstance(more, dict) or more is True:
                said.append(more)
            matching = part.schema.get("patternProperties")
            if isinstance(matching, dict):
                patterns.extend(matching.values())
        open_by = [more for more in said if more is not False]
        if not said and not patterns:
            return None
        if False in said and not patterns:
            return None
        forms = [self._inside([pattern], f"{name} value") for pattern in patterns[:MOST_BRANCHES]]
        if len(patterns) > MOST_BRANCHES or (not said and patterns):
            return ANY
        if False not in said:
            forms.append(self._inside(open_by, f"{name} value"))
        return one_of(forms)

    def _literal(self, values: list[Any], parts: Parts, name: str) -> Form:
        nullable = [("None",)] if _nullable(parts) and None not in values else []
        exact = all(value is None or isinstance(value, (str, bool, int)) for value in values)
        values_written = list(dict.fromkeys(repr(value) for value in values)) if exact else []
        if exact and len(values_written) <= MOST_VALUES and sum(map(len, values_written)) <= MOST_VALUE_CHARACTERS:
            return one_of([tuple(f"={each}" for each in values_written), *nullable])
        if exact:
            self._cut(f"{name}: {len(values_written):,} values")
        forms = [_type_of(value) for value in values]
        return one_of([*forms, *nullable])

    def _cut(self, what: str, why: dict[str, None] | None = None) -> None:
        """Note what is left out: for its size, unless it is said why."""
        cuts = self._cuts if why is None else why
        if len(cuts) < 5:
            cuts[what[:200]] = None

    def _finish(self) -> None:
        while self._objects:
            made, parts, name = self._objects.popleft()
            if self._left > 0:
                made.fields = self._fields(parts, name)
            else:
                self._cut(f"all after the first {MOST_PARTS:,} parts")
                made.body = dict_of(ANY)
        for each in self._aliases.values():
            if self._leads_back(each):
                self._types[each].body = ANY

    def _leads_back(self, alias: int) -> bool:
        """Whether an alias is itself with no list, dict or object in between, which is no type."""
        todo = [alias]
        for each in todo:  # which grow meanwhile
            for member in self._types[each].body or ():
                if member.startswith("\0") and member != ANY[0]:
                    (number,) = uses((member,))
                    if number == alias:
                        return True
                    if number not in todo:
                        todo.append(number)
        return False


def _keys(parts: Parts) -> dict[str, list[Any]]:
    """The keys that parts name, with the schemas of each; a key without one may hold anything."""
    found: dict[str, list[Any]] = {}
    for part in parts.each:
        properties = part.schema.get("properties")
        for key, schema in properties.items() if isinstance(properties, dict) else ():
            found.setdefault(key, []).append(schema)
    if not found:
        return found
    for part in parts.each:
        conditional = [part.schema.get(keyword) for keyword in _CONDITIONAL]
        dependent = part.schema.get("dependentSchemas")
        conditional += dependent.values() if isinstance(dependent, dict) else ()
        for each in conditional:
            named = each.get("properties") if isinstance(each, dict) else None
            for key in named if isinstance(named, dict) else ():
                found.setdefault(key, [])
        for key in _listed(part.schema.get("required")):
            if isinstance(key, str):
                more = part.schema.get("additionalProperties")
                found.setdefault(
                    key, [more] if isinstance(more, dict) and "patternProperties" not in part.schema else []
                )
    return found


def _nullable(parts: Parts) -> bool:
    """OpenAPI's ``nullable``."""
    return any(part.schema.get("nullable") is True for part in parts.each)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _shortened(whole: str, place: str, key: str) -> str:
    """What a key's type is called where nothing else names it: its path, or when that is long, where it ends."""
    path = f"{place} {key}"
    return path if len(path) <= 60 else f"{whole} {key}"[-100:]


def _listed_values(parts: Parts) -> list[Any]:
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


def _type_of(value: Any) -> Form:
    """The form of a value that no literal can be written for."""
    if isinstance(value, list):
        return list_of(ANY)
    if isinstance(value, dict):
        return dict_of(ANY)
    return ("None" if value is None else type(value).__name__,)
