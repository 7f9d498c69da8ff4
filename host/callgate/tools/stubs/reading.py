"""JSON Schema in, annotations out. What Python's types cannot say is left out, never guessed.

1. What a schema allows, its annotation takes: constraints may be lost, values may not. Where nothing can be said, or
   more would be needed than unions, lists, dicts and `TypedDict`: `ANY`. Three liberties: an object that names keys is
   a `TypedDict` of those, and a list is of what its `items` say; these keywords mean an object and a list; an argument
   that only some alternatives name has the types that they give it.
2. A schema, what its references lead to and its ``allOf`` hold together: they are read as one, and so is each
   alternative with what stands beside it. Conditions (`if`, `not`, `dependentSchemas`, ...) are left out: without them
   an annotation takes more, never less.
3. An object that names keys is a `Type`; so is a long annotation, and one that leads back to itself. Everything else
   stands in place.
4. A schema comes from outside, and the work for one is bounded. What the limits below cut is told in `Reader.notes`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from callgate.errors import ConfigurationError
from callgate.tools.schema_references import References

from .texts import Schema, about, is_plain
from .types import ANY, BUILT_IN, TYPING, Field, Form, Type, Types, mark, named, one_of, written

__all__ = ["MOST_FIELDS", "MOST_VALUES", "Reader"]

MOST_PARTS = 2_000
"""Parts of one schema that are read, each as often as it is named; the rest is `Any`."""
MOST_TOGETHER = 64
"""Parts that hold at once; further ones are not looked at."""
MOST_FIELDS = 200
"""Keys of one object; an object of more is a `dict`."""
MOST_VALUES = 300
"""Values of one enum, and `MOST_VALUE_CHARACTERS` of them; of more, only the types. And alternatives of a union."""
MOST_VALUE_CHARACTERS = 6_000
MOST_KEY_CHARACTERS = 200
"""Characters of a key, and it may not be empty: pyright refuses a `TypedDict` with such a key."""
MOST_DEPTH = 40
_LONG = 150
"""Characters of an annotation that has no name of its own."""
_HIDING = BUILT_IN | {*TYPING, "OMITTED"}
"""In the body of a class, a key of such a name would hide what annotations mean."""

_UNIONS = ("anyOf", "oneOf")
_TELLING = frozenset({"type", "enum", "const", "properties", "patternProperties", "additionalProperties"}
                     | {"items", "prefixItems", *_UNIONS})  # fmt: skip
"""Keywords that say something of a type; and `required` says what is seen to where keys are."""
_ELSEWHERE = ("$ref", "$dynamicRef", "$recursiveRef", "allOf", *_UNIONS)
_KINDS = {"string": str, "integer": int, "number": float, "boolean": bool, "null": type(None)}
_KINDS |= {"array": list, "object": dict}


class _Parts(NamedTuple):
    """All that holds at once."""

    each: tuple[Schema, ...]
    title: str | None
    """What the schema calls itself; else the last word of the first reference that led here."""
    never: bool
    """Whether ``false`` is among them: no value fits."""

    @property
    def key(self) -> tuple[int, ...]:
        """The same for the same parts of a document."""
        return tuple(map(id, self.each))

    def all(self, word: str, kind: type = object) -> list[Any]:
        """What the parts that have a keyword say by it, where that is of the right kind."""
        return [part[word] for part in self.each if word in part and isinstance(part[word], kind)]


class Reader:
    """Reads one schema document.

    Args:
        root: the document; it must not change.
        tool: the Python name of the tool.
        name: what the document describes, in words; types without a title are called after it.
        types: those of the module; what is read is added to them.
    """

    def __init__(self, root: Schema, tool: str, name: str, types: Types) -> None:
        self.notes: dict[str, None] = {}
        """What was left out, a line each."""
        self._root = root
        self._references: References | None = None
        self._tool = tool
        self._name = name
        self._types = types
        self._left = MOST_PARTS
        self._done: dict[tuple[int, ...], Form] = {}
        self._open: dict[tuple[int, ...], Type] = {}
        """Parts being read, and what they become if they need a name."""
        self._alone: dict[int, Schema] = {}

    def form(self) -> Form:
        """The form of the document's values."""
        return self._annotation([self._root], self._name)

    def arguments(self) -> tuple[list[Field], Form | None]:
        """The document's values as keyword arguments: the keys, and the form of other keys where it lets them in."""
        parts = self._together([self._root], self._name)
        fields = {each.key: each for each in self._fields(parts, self._name)}
        rest = self._rest(parts, self._name) if len(fields) == len(_keys(parts)) else ANY
        for branches in _unions(parts):
            named: dict[str, list[Field]] = {}
            for branch in branches[:MOST_VALUES]:
                for one in self._fields(self._together([branch], self._name), self._name):
                    named.setdefault(one.key, []).append(one)
            for key, same in named.items():
                needed = len(same) == len(branches) and all(one.required for one in same)
                fields.setdefault(key, Field(key, one_of([one.form for one in same]), needed, same[0].about))
        if len(fields) > MOST_FIELDS:
            self._note(f"{len(fields) - MOST_FIELDS:,} more arguments")
            rest = ANY
        return list(fields.values())[:MOST_FIELDS], rest

    def _annotation(self, schemas: list[Any], name: str) -> Form:
        """The form of what fits all these schemas; `ANY` where nothing can be said."""
        return self._read(self._together(schemas, name), name) or ANY

    def _together(self, schemas: list[Any], name: str) -> _Parts:
        """All that holds where these schemas hold."""
        found: dict[int, Schema] = {}
        seen: set[int] = set()
        title = reference_word = None
        todo = list(reversed(schemas))
        never = False
        while todo and len(found) < MOST_TOGETHER:
            schema = todo.pop()
            never = never or schema is False
            if not isinstance(schema, dict) or id(schema) in seen:
                continue
            seen.add(id(schema))
            if title is None and isinstance(schema.get("title"), str) and schema["title"].strip():
                title = schema["title"]
            if not _TELLING.isdisjoint(schema) or "required" in schema:
                found[id(schema)] = schema
            if isinstance(several := schema.get("allOf"), list):
                todo.extend(reversed(several))
            for word in _ELSEWHERE[:3]:
                if isinstance(schema.get(word), str):
                    reference_word = reference_word or schema[word].rpartition("/")[2].strip("#")
                    todo.extend(self._referred(schema))
        if todo:
            self._note(f"{name}: all but {MOST_TOGETHER} parts of allOf")
        return _Parts(tuple(found.values()), title or reference_word, never)

    def _referred(self, schema: Schema) -> list[Schema]:
        """What a schema's reference stands for; nothing where it leads nowhere, or to one of several."""
        try:
            self._references = self._references or References(self._root, self._name)
            found = self._references.of(schema)
        except (ConfigurationError, ValueError):
            return []
        return found if len(found) == 1 else []

    def _read(self, parts: _Parts, name: str) -> Form:
        """The form of parts; empty where they contradict each other."""
        if parts.never or not parts.each:
            return () if parts.never else ANY
        self._left -= 1
        key = parts.key
        if key in self._done:
            return self._done[key]
        if key in self._open:
            return self._again(self._open[key])
        if self._left < 0 or len(self._open) > MOST_DEPTH:
            self._note("what is nested deepest" if self._left >= 0 else f"all after the first {MOST_PARTS:,} parts")
            return ANY
        made = self._open[key] = Type(parts.title or name, bool(parts.title))
        form = self._unread(parts, name, made)
        if form and any(nullable is True for nullable in parts.all("nullable")):
            form = one_of([form, ("None",)])
        del self._open[key]
        if not made.is_object and (made.name is not None or len(written(form)) > _LONG):
            made.body = form
            form = self._types.add(made, self._tool)
        self._done[key] = form
        return form

    def _again(self, made: Type) -> Form:
        """A type that leads back to itself. For pyright, one of odd keys must not, but through a class in between."""
        if not (made.is_object and made.plain) and not all(each.plain for each in self._open.values()):
            return ANY
        return (mark(self._types.reserve(made)),)

    def _unread(self, parts: _Parts, name: str, made: Type) -> Form:
        kinds = _kinds(parts)
        if values := _values(parts, kinds):
            return self._literal(values, name)
        for branches in _unions(parts):
            if len(branches) > MOST_VALUES:
                self._note(f"{name}: {len(branches):,} alternatives")
                continue
            read = [self._together([branch], name) for branch in branches]
            if any(not _TELLING.isdisjoint(part) for each in read for part in each.each):
                return self._union(parts, read, name)
        if kinds is None:
            return ANY
        made.is_object = kinds == ["object"] and True not in parts.all("nullable", bool)
        forms = []
        for kind in kinds:
            if kind == "object":
                forms.append(self._object(parts, made))
            else:
                forms.append(self._list(parts, name) if kind == "array" else _name_of(_KINDS[kind]))
        return one_of(forms)

    def _union(self, parts: _Parts, branches: list[_Parts], name: str) -> Form:
        """The alternatives, each together with what stands beside them; other alternatives there are left out."""
        beside = [self._alone_of(part) for part in parts.each]
        if all(_TELLING.isdisjoint(part) for part in beside):
            return one_of([self._read(branch, name) for branch in branches])
        forms = []
        for branch in branches:
            called = f"{parts.title or name} {branch.title or ''}"
            together = self._together([*beside, *branch.each], name)
            forms.append(self._read(together._replace(title=None, never=branch.never), called))
        return one_of(forms)

    def _alone_of(self, part: Schema) -> Schema:
        """A part without what it has elsewhere: its alternatives, and what it holds together with."""
        if part.keys().isdisjoint(_ELSEWHERE):
            return part
        return self._alone.setdefault(id(part), {word: part[word] for word in part if word not in _ELSEWHERE})

    def _list(self, parts: _Parts, name: str) -> Form:
        places = next(iter(parts.all("prefixItems", list) + parts.all("items", list)), list[Any]())
        every = parts.all("items", dict) + (parts.all("additionalItems", dict) if places in parts.all("items") else [])
        inside = [self._annotation([place], f"{name} item") for place in places if place is not False]
        if every or not places:
            inside.append(self._annotation(every, f"{name} item"))
        return (f"list[{written(one_of(inside))}]",)

    def _object(self, parts: _Parts, made: Type) -> Form:
        keys = _keys(parts)
        sizes_fit = len(keys) <= MOST_FIELDS and all(0 < len(key) <= MOST_KEY_CHARACTERS for key in keys)
        if not keys or not sizes_fit:
            made.is_object = False
            if not keys:
                return _dict_of(self._rest(parts, made.wanted) or ANY)
            self._note(f"{made.wanted}: the {len(keys):,} keys of an object")
            return _dict_of(ANY)
        made.plain = all(is_plain(key) and key not in _HIDING for key in keys)
        own = made if made.is_object else Type(made.wanted, made.titled, is_object=True, plain=made.plain)
        own.about = about({"description": parts.each[0].get("description") if len(parts.each) == 1 else None})
        own.fields = self._fields(parts, own.wanted)
        if not own.plain:
            own.fields = [replace(each, form=ANY) if self._leads_on(each.form) else each for each in own.fields]
        return self._types.add(own, self._tool)

    def _leads_on(self, form: Form) -> bool:
        """Whether an alias in it names other types: pyright cannot follow these from an object of odd keys."""
        aliases = [known for name in named(form) if (known := self._types.known.get(name)) and not known.is_object]
        return any(name in self._types.known for alias in aliases for name in named(alias.body))

    def _fields(self, parts: _Parts, name: str) -> list[Field]:
        """The keys of an object, at most `MOST_FIELDS`; of more, those that are required come first."""
        required, keys = _required(parts), _keys(parts)
        told = [key for key in keys if 0 < len(key) <= MOST_KEY_CHARACTERS]
        if len(told) > MOST_FIELDS:
            told = sorted(told, key=lambda key: key not in required)[:MOST_FIELDS]
        if len(told) < len(keys):
            self._note(f"{len(keys) - len(told):,} more {'argument' if len(keys) - len(told) == 1 else 'arguments'}")
        fields = []
        for key in told:
            schemas = keys[key]
            own = next((schema for schema in schemas if isinstance(schema, dict)), {})
            path = f"{name} {key}" if len(name) + len(key) < 60 else f"{self._name} {key}"[-100:]
            form = self._annotation(schemas, path)
            fields.append(Field(key, form, key in required, about(own), own.get("default", ...)))
        return fields

    def _rest(self, parts: _Parts, name: str) -> Form | None:
        """The form of the values of keys that are not named; None where no part lets them in."""
        patterns = [each for named in parts.all("patternProperties", dict) for each in named.values()]
        more = parts.all("additionalProperties")
        if not more or (False in more and not patterns):
            return ANY if patterns else None
        forms = [self._annotation([pattern], f"{name} value") for pattern in patterns]
        return one_of(forms if False in more else [*forms, self._annotation(more, f"{name} value")])

    def _literal(self, values: list[Any], name: str) -> Form:
        if all(value is None or isinstance(value, (str, bool, int)) for value in values):
            form = tuple(dict.fromkeys(f"={value!r}" for value in values))
            if len(form) <= MOST_VALUES and len("".join(form)) <= MOST_VALUE_CHARACTERS:
                return form
            self._note(f"{name}: {len(form):,} values")
        return one_of([_name_of(type(value)) for value in values])

    def _note(self, left_out: str) -> None:
        if len(self.notes) < 5:
            self.notes[left_out[:200]] = None


def _unions(parts: _Parts) -> list[list[Any]]:
    """Lists of alternatives; of each list, one holds."""
    return [each for word in _UNIONS for each in parts.all(word, list) if each]


def _kinds(parts: _Parts) -> list[str] | None:
    """The JSON types that all parts allow, in the order of the first that says; None where none says."""
    allowed: list[str] | None = None
    for said in parts.all("type"):
        kinds = [each for each in (said if isinstance(said, list) else [said]) if each in _KINDS]
        if allowed is None:
            allowed = kinds
        else:
            both = [{a, b} for a in allowed for b in kinds if a == b or {a, b} == {"integer", "number"}]
            allowed = ["integer" if len(each) > 1 else each.pop() for each in both]
    if allowed is not None:
        return list(dict.fromkeys(allowed))
    if any(parts.all(word, dict) for word in ("properties", "patternProperties", "additionalProperties")):
        return ["object"]
    return ["array"] if parts.all("items") + parts.all("prefixItems") else None


def _values(parts: _Parts, kinds: list[str] | None) -> list[Any]:
    """The values that are listed, if any are: of several lists, what is in all; only those of the right type."""
    lists = [[value] for value in parts.all("const")] + parts.all("enum", list)
    if not lists:
        return []
    texts = [set(map(repr, values)) for values in lists[1:]]
    common = [value for value in lists[0] if all(repr(value) in each for each in texts)] or lists[0]
    allowed = [*map(_KINDS.get, kinds), int if "number" in kinds else None] if parts.all("type") and kinds else []
    return [value for value in common if type(value) in allowed] or common


def _required(parts: _Parts) -> dict[str, None]:
    return {key: None for listed in parts.all("required", list) for key in listed if isinstance(key, str)}


def _keys(parts: _Parts) -> dict[str, list[Any]]:
    """The keys that parts name, with the schemas of each; a key without one may hold anything."""
    found: dict[str, list[Any]] = {}
    for properties in parts.all("properties", dict):
        for key, schema in properties.items():
            found.setdefault(key, []).append(schema)
    conditional = [each for word in ("then", "else") for each in parts.all(word, dict)] if found else []
    for keys in (*(each.get("properties", {}) for each in conditional), _required(parts) if found else {}):
        for key in keys:
            found.setdefault(key, [])
    return found


def _dict_of(value: Form) -> Form:
    return (f"dict[str, {written(value)}]",)


def _name_of(kind: type) -> Form:
    """The form of all values of a type."""
    if kind is list:
        return (f"list[{written(ANY)}]",)
    return _dict_of(ANY) if kind is dict else ("None" if kind is type(None) else kind.__name__,)
