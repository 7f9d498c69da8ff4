"""JSON Schema in, forms out. What Python's types cannot say is left out, never guessed.

1. What a schema allows, its form takes: constraints may be lost, values may not. Where nothing can be said: `ANY`.
   Three liberties: an object that names keys is a `TypedDict` of those, and a list is of what its `items` say; these
   keywords mean an object and a list; an argument that only some alternatives name has the types that they give it.
2. An object that names keys is a definition; so are a list of many values, and a reference that leads back to itself or
   to something wide. Everything else stands in place.
3. Objects are read from a queue, so depth is bounded by what stands between them; a schema comes from outside, and the
   work for one is bounded: `MOST_PARTS` and the other limits below. What they cut is told in `Reader.cuts`, and what no
   type can say in `Reader.unsaid`.
"""

from __future__ import annotations

import itertools
from collections import deque
from typing import Any

from .about import about
from .conjunction import MOST_TOGETHER, Part, Parts, flatten, kinds_of, says_a_type, unions_of
from .forms import ANY, Definition, Field, Form, Listed, Literals, Mapped, Named, OneOf, Plain, one_of
from .references import Document, Schema
from .values import listed_values, type_of

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
        scope: whose it is; see `Definition.scope`.
    """

    def __init__(self, root: Schema, name: str, scope: str) -> None:
        self._document = Document(root)
        self._root = root
        self._name = name
        self._scope = scope
        self._definitions: list[Definition] = []
        self._cuts: dict[str, None] = {}
        self._unsaid: dict[str, None] = {}
        self._left = MOST_PARTS
        self._depth = 0
        self._guards = 0
        self._done: dict[tuple[Any, ...], Form | None] = {}
        self._open: dict[tuple[Any, ...], tuple[int, str]] = {}
        """Parts being read, with how many lists and dicts were open when that began, and what they are called."""
        self._aliases: dict[tuple[Any, ...], Definition] = {}
        self._objects: deque[tuple[Definition, Parts, str]] = deque()

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
            for key in dict.fromkeys(field.key for each in read for field in each if field.key not in known):
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

    def packed(self, fields: list[Field]) -> Definition:
        """A `TypedDict` of keyword arguments whose names cannot stand in a signature."""
        return Definition("object", self._name, self._scope, fields=tuple(fields))

    def _form(self, schemas: list[Any], name: str) -> Form:
        """The form of what fits all these schemas."""
        return self._read(self._flat(schemas, name), name) or ANY

    def _flat(self, schemas: list[Any], name: str) -> Parts:
        parts = flatten(self._document, schemas)
        if parts.cut:
            self._cut(f"{name}: all but {MOST_TOGETHER} parts of allOf")
        return parts

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
            if self._guards == guards:
                return ANY  # it is what it is
            return Named(self._alias(key, parts, called))
        if self._left < 0 or self._depth > MOST_DEPTH:
            self._cut("what is nested deepest" if self._left >= 0 else f"all after the first {MOST_PARTS:,} parts")
            return ANY
        self._open[key] = (self._guards, parts.title or name)
        self._depth += 1
        form = self._unread(parts, name)
        self._depth -= 1
        del self._open[key]
        if form is not None and (key in self._aliases or self._deserves_a_name(form, parts.referred)):
            definition = self._alias(key, parts, name)
            definition.body = form
            self._definitions.append(definition)
            form = Named(definition)
        self._done[key] = form
        return form

    def _alias(self, key: tuple[Any, ...], parts: Parts, name: str) -> Definition:
        made = self._aliases.get(key)
        if made is None:
            made = self._aliases[key] = Definition("alias", parts.title or name, "" if parts.title else self._scope)
        return made

    def _deserves_a_name(self, form: Form, referred: bool) -> bool:
        if isinstance(form, Literals):
            return sum(len(value) + 2 for value in form.written) > _LONG_LITERAL
        return referred and _atoms(form) > _WIDE

    def _unread(self, parts: Parts, name: str) -> Form | None:
        if not parts.each:
            return ANY
        values = listed_values(parts)
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
            possible.append(Plain("None"))
        return one_of(possible) if possible else None

    def _of_kind(self, kind: str, parts: Parts, name: str) -> Form:
        if kind == "array":
            return self._list(parts, name)
        if kind == "object":
            return self._object(parts, name)
        return Plain(_TYPES[kind]) if kind in _TYPES else ANY

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
            return Listed(ANY)
        inside = [self._inside([place], f"{name} item") for place in places if place is not False]
        if every or not places:
            inside.append(self._inside(every, f"{name} item"))
        return Listed(one_of(inside))

    def _object(self, parts: Parts, name: str) -> Form:
        title = parts.title if parts.title and parts.title.casefold() != "object" else None
        wanted = title or name
        keys = _keys(parts)
        if not keys:
            rest = self._rest(parts, name, guarded=True)
            return Mapped(ANY if rest is None else rest)
        if len(keys) > MOST_FIELDS or any(len(key) > MOST_KEY_CHARACTERS for key in keys):
            self._cut(f"{wanted}: the {len(keys):,} keys of an object")
            return Mapped(ANY)
        if "" in keys:
            self._cut(f"{wanted}: the keys of an object, one of which is an empty text", self._unsaid)
            return Mapped(ANY)
        made = Definition("object", wanted, "" if title else self._scope)
        first = parts.each[0].schema if len(parts.each) == 1 else {}
        made.about = about({"description": first.get("description")})
        self._definitions.append(made)
        self._objects.append((made, parts, wanted))
        return Named(made)

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
        nullable = [Plain("None")] if _nullable(parts) and None not in values else []
        exact = all(value is None or isinstance(value, (str, bool, int)) for value in values)
        written = list(dict.fromkeys(repr(value) for value in values)) if exact else []
        if exact and len(written) <= MOST_VALUES and sum(map(len, written)) <= MOST_VALUE_CHARACTERS:
            return one_of([Literals(tuple(written)), *nullable])
        if exact:
            self._cut(f"{name}: {len(written):,} values")
        forms = [type_of(value) for value in values]
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
                made.fields = tuple(self._fields(parts, name))
            else:
                self._cut(f"all after the first {MOST_PARTS:,} parts")
                made.kind, made.body = "alias", Mapped(ANY)
        for definition in self._definitions:
            if definition.kind == "alias" and _leads_back(definition):
                definition.body = ANY


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


def _atoms(form: Form) -> int:
    match form:
        case Listed(inner) | Mapped(inner):
            return 1 + _atoms(inner)
        case OneOf(members):
            return sum(map(_atoms, members))
        case Literals(written):
            return len(written)
        case _:
            return 1


def _leads_back(definition: Definition) -> bool:
    """Whether an alias is itself with no list, dict or object in between, which is no type."""
    seen: set[int] = set()
    todo: list[Form] = [definition.body]
    while todo:
        form = todo.pop()
        if isinstance(form, OneOf):
            todo.extend(form.members)
        elif isinstance(form, Named) and form.definition.kind == "alias":
            if form.definition is definition:
                return True
            if id(form.definition) not in seen:
                seen.add(id(form.definition))
                todo.append(form.definition.body)
    return False
