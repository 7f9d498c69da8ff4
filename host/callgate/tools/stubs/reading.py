"""Makes annotations of a JSON Schema. Leaves out what Python's types cannot express, and never guesses.

1. The annotation takes every value that the schema takes; it may take more. It is `ANY` if the schema does not name a
   type, or needs more than unions, lists, dicts and `TypedDict`. Three liberties: an object with named keys is a
   `TypedDict` of these keys, and a list holds what its `items` say; these keywords mean an object and a list; an
   argument that only some alternatives name has the types that they give it.
2. A schema, the targets of its references and its ``allOf`` are merged into one; where two give the same keyword, the
   first counts. Alternatives beside keys, items or values are ignored, and so are conditions (`if`, `not`,
   `dependentSchemas`, ...): without them the annotation takes more, never less.
3. An object with named keys is a `Type`. Everything else stands in place. An annotation longer than `MOST_ANNOTATION`
   characters, or one that would contain itself other than through a class, is `ANY`.
4. A schema comes from outside, and the work for it is bounded. `Reader.notes` names whatever the limits below cut.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from callgate.errors import ConfigurationError
from callgate.tools.schema_references import References

from .texts import Schema, about, is_plain
from .types import ANY, BUILT_IN, TYPING, Field, Form, Type, Types, mark, one_of, written

__all__ = ["MOST_FIELDS", "MOST_VALUES", "Reader"]

MOST_PARTS = 2_000
"""Parts of one schema that are read; the rest is `Any`. A part counts once for each reference to it."""
MOST_TOGETHER = 64
"""Parts that are merged into one; further parts are ignored."""
MOST_FIELDS = 200
"""Most keys of a `TypedDict`; an object with more is a `dict`."""
MOST_VALUES = 300
"""Most values of a `Literal`, with `MOST_VALUE_CHARACTERS`; more values become their types. Also the most alternatives
of a union."""
MOST_VALUE_CHARACTERS = 2_000
MOST_KEY_CHARACTERS = 200
"""Most characters of a key of a `TypedDict`. The key may not be empty: pyright refuses that."""
MOST_DEPTH = 40
MOST_ANNOTATION = 2_500
"""Characters of one annotation."""
_HIDING = BUILT_IN | {*TYPING, "OMITTED"}
"""Names that annotations use: in the body of a class, a key of such a name would hide it."""

_UNIONS = ("anyOf", "oneOf")
_TELLING = frozenset({"type", "enum", "const", "properties", "patternProperties", "additionalProperties"}
                     | {"items", "prefixItems", "required", *_UNIONS})  # fmt: skip
"""Keywords that name a type or a part of one."""
_SHAPES = ("enum", "const", "properties", "items", "prefixItems")
"""Keywords that take precedence over alternatives beside them."""
_ELSEWHERE = ("$ref", "$dynamicRef", "$recursiveRef")
_OBJECTS = ("properties", "patternProperties", "additionalProperties")
_KINDS = {"string": str, "integer": int, "number": float, "boolean": bool, "null": type(None)}
_KINDS |= {"array": list, "object": dict}


class _Whole(NamedTuple):
    """A schema, the targets of its references and its ``allOf``, merged into one."""

    merged: Schema
    """Of two values of one keyword the first counts; keys of objects add up."""
    key: tuple[int, ...]
    """Equal for the same parts of a document."""
    title: str | None
    """The schema's title; else the last word of the first reference that led here."""


class Reader:
    """Reads one schema document.

    Args:
        root: the document; it must not change.
        tool: the Python name of the tool.
        name: what the document describes, in words; types without a title get their name from it.
        types: the types of the module; the reader adds to them.
    """

    def __init__(self, root: Schema, tool: str, name: str, types: Types) -> None:
        self.notes: dict[str, None] = {}
        """What was left out, in one line each."""
        self._root = root
        self._references: References | None = None
        self._tool = tool
        self._name = name
        self._types = types
        self._left = MOST_PARTS
        self._wholes: dict[int, _Whole] = {}
        self._done: dict[tuple[int, ...], Form] = {}
        self._open: dict[tuple[int, ...], Type] = {}
        """The schemas around the one being read, and their types."""

    def form(self) -> Form:
        """The form of the document's values."""
        return self._annotation(self._root, self._name)

    def arguments(self) -> tuple[list[Field], Form | None]:
        """The document's keys as keyword arguments, and the form of other keys if the document allows them."""
        merged = self._whole(self._root).merged
        keys = {key: each for key, each in _keys(merged).items() if 0 < len(key) <= MOST_KEY_CHARACTERS}
        more: dict[str, list[Form]] = {}
        for branch in _alternatives(merged)[:MOST_VALUES]:
            for key, each in _keys(self._whole(branch).merged).items() if isinstance(branch, dict) else ():
                if key not in keys and 0 < len(key) <= MOST_KEY_CHARACTERS:
                    more.setdefault(key, []).append(self._annotation(each, f"{self._name} {key}"))
        left_out = len(_keys(merged)) - len(keys) + max(0, len(keys) + len(more) - MOST_FIELDS)
        if left_out:
            self._note(f"{left_out:,} more {'argument' if left_out == 1 else 'arguments'}")
        fields = self._fields(merged, keys, self._name)
        fields += [Field(key, one_of(forms), required=False) for key, forms in more.items()]
        return fields[:MOST_FIELDS], ANY if left_out else self._rest(merged, self._name)

    def _annotation(self, schema: Any, name: str) -> Form:
        """The form of a schema; `ANY` if the schema does not name a type."""
        return self._read(schema, name) or ANY

    def _whole(self, schema: Schema) -> _Whole:
        """The schema merged with the targets of its references and its ``allOf``."""
        if id(schema) in self._wholes:
            return self._wholes[id(schema)]
        parts: dict[int, Schema] = {}
        title = word = None
        todo: list[Any] = [schema]
        while todo and len(parts) < MOST_TOGETHER:
            part = todo.pop()
            if not isinstance(part, dict) or id(part) in parts:
                continue
            parts[id(part)] = part
            if title is None and isinstance(part.get("title"), str) and part["title"].strip():
                title = part["title"]
            if isinstance(several := part.get("allOf"), list):
                todo.extend(reversed(several))
            for reference in _ELSEWHERE:
                if isinstance(part.get(reference), str):
                    word = word or part[reference].rpartition("/")[2].strip("#")
                    todo.extend(self._referred(part))
        if todo:
            self._note(f"{self._name}: all but {MOST_TOGETHER} parts of allOf")
        telling = {number: part for number, part in parts.items() if not _TELLING.isdisjoint(part)}
        merged: Schema = {}
        for part in telling.values():
            for keyword, value in part.items():
                if keyword == "properties" and isinstance(value, dict):
                    before = merged.get(keyword, {})
                    merged[keyword] = {**before, **{key: each for key, each in value.items() if key not in before}}
                elif keyword == "required" and isinstance(value, list):
                    merged[keyword] = [*merged.get(keyword, []), *value]
                else:
                    merged.setdefault(keyword, value)
        whole = self._wholes[id(schema)] = _Whole(merged, tuple(telling), title or word)
        return whole

    def _referred(self, schema: Schema) -> list[Schema]:
        """The target of a schema's reference; empty if there is none, or more than one."""
        try:
            self._references = self._references or References(self._root, self._name)
            found = self._references.of(schema)
        except (ConfigurationError, ValueError):
            return []
        return found if len(found) == 1 else []

    def _read(self, schema: Any, name: str) -> Form:
        """The form of a schema; empty if no value fits."""
        if not isinstance(schema, dict):
            return () if schema is False else ANY
        merged, key, title = self._whole(schema)
        if not key:
            return ANY
        self._left -= 1
        if key in self._done:
            return self._done[key]
        if (
            above := self._open.get(key)
        ) is not None:  # pyright takes a type that contains itself as plain classes alone
            plain = above.is_object and all(each.plain for each in self._open.values())
            return (mark(self._types.reserve(above)),) if plain else ANY
        if self._left < 0 or len(self._open) > MOST_DEPTH:
            self._note("what is nested deepest" if self._left >= 0 else f"all after the first {MOST_PARTS:,} parts")
            return ANY
        made = self._open[key] = Type(title or name, bool(title))
        form = self._unread(merged, name, made)
        if form and merged.get("nullable") is True:
            form = one_of([form, ("None",)])
        del self._open[key]
        if len(written(form)) > MOST_ANNOTATION:
            self._note(f"{name}: a long annotation")
            form = ANY
        self._done[key] = form
        return form

    def _unread(self, merged: Schema, name: str, made: Type) -> Form:
        kinds = _kinds(merged)
        if values := _values(merged, kinds):
            return self._literal(values, name)
        branches = _alternatives(merged)
        if len(branches) > MOST_VALUES:
            self._note(f"{name}: {len(branches):,} alternatives")
        elif branches and merged.keys().isdisjoint(_SHAPES):
            form = one_of([self._read(branch, name) for branch in branches])
            if form != ANY or not kinds:
                return form
        if not kinds:
            return ANY
        made.is_object = kinds == ["object"] and merged.get("nullable") is not True
        forms = []
        for kind in kinds:
            if kind == "object":
                forms.append(self._object(merged, made))
            else:
                forms.append(self._list(merged, name) if kind == "array" else _name_of(_KINDS[kind]))
        return one_of(forms)

    def _list(self, merged: Schema, name: str) -> Form:
        items = [merged[word] for word in ("prefixItems", "items", "additionalItems") if word in merged]
        schemas = [each for some in items for each in (some if isinstance(some, list) else [some])]
        inside = one_of([self._annotation(each, f"{name} item") for each in schemas if each is not False])
        return (f"list[{written(inside)}]",)

    def _object(self, merged: Schema, made: Type) -> Form:
        keys = _keys(merged)
        branches = [self._whole(each).merged for each in _alternatives(merged)[:MOST_VALUES] if isinstance(each, dict)]
        if keys:
            keys = {**{key: {} for branch in branches for key in _keys(branch)}, **keys}
        sizes_fit = len(keys) <= MOST_FIELDS and all(0 < len(key) <= MOST_KEY_CHARACTERS for key in keys)
        if not keys or not sizes_fit:
            made.is_object = False
            if not keys:
                return _dict_of(self._rest(merged, made.wanted) or ANY)
            self._note(f"{made.wanted}: the {len(keys):,} keys of an object")
            return _dict_of(ANY)
        made.plain = all(is_plain(key) and key not in _HIDING for key in keys)
        own = made if made.is_object else Type(made.wanted, made.titled, is_object=True, plain=made.plain)
        own.about = about({"description": merged.get("description")})
        own.fields = self._fields(merged, keys, own.wanted)
        return self._types.add(own, self._tool)

    def _fields(self, merged: Schema, keys: Schema, name: str) -> list[Field]:
        """The keys of an object, at most `MOST_FIELDS`; required ones come first if there are more."""
        required = set(_required(merged))
        chosen = list(keys)
        if len(chosen) > MOST_FIELDS:
            chosen = sorted(chosen, key=lambda key: key not in required)[:MOST_FIELDS]
        fields = []
        for key in chosen:
            own = keys[key] if isinstance(keys[key], dict) else {}
            path = f"{name} {key}" if len(name) + len(key) < 60 else f"{self._name} {key}"[-100:]
            form = self._annotation(keys[key], path)
            fields.append(Field(key, form, key in required, about(own), own.get("default", ...)))
        return fields

    def _rest(self, merged: Schema, name: str) -> Form | None:
        """The form of the values of other keys; None if the schema does not allow other keys."""
        patterns = merged.get("patternProperties")
        forms = [self._annotation(each, f"{name} value") for each in patterns.values()] if patterns else []
        more = merged.get("additionalProperties", bool(patterns))
        if more is not False:
            forms.append(self._annotation(more, f"{name} value"))
        return one_of(forms) if forms else None

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


def _alternatives(merged: Schema) -> list[Any]:
    return next((merged[word] for word in _UNIONS if isinstance(merged.get(word), list) and merged[word]), [])


def _kinds(merged: Schema) -> list[str]:
    """The JSON types of the values; empty if the schema does not name them."""
    kinds = merged.get("type")
    listed = [each for each in (kinds if isinstance(kinds, list) else [kinds]) if each in _KINDS]
    if listed or kinds is not None:
        return list(dict.fromkeys(listed))
    if any(isinstance(merged.get(word), dict) for word in _OBJECTS):
        return ["object"]
    return ["array"] if "items" in merged or "prefixItems" in merged else []


def _values(merged: Schema, kinds: list[str]) -> list[Any]:
    """The listed values of the right type; empty if the schema lists none."""
    values = [merged["const"]] if "const" in merged else merged.get("enum")
    if not isinstance(values, list):
        return []
    allowed = {*map(_KINDS.get, kinds), int if "number" in kinds else None} if "type" in merged else set()
    return [value for value in values if type(value) in allowed] or values


def _required(merged: Schema) -> list[str]:
    return [key for key in merged.get("required", ()) if isinstance(key, str)]


def _keys(merged: Schema) -> Schema:
    """The schemas of the named keys; a key that is only required takes any value."""
    named = merged.get("properties")
    if not isinstance(named, dict):
        return {}
    return {**named, **{key: {} for key in _required(merged) if key not in named}} if named else {}


def _dict_of(value: Form) -> Form:
    return (f"dict[str, {written(value)}]",)


def _name_of(kind: type) -> Form:
    """The form of all values of a type."""
    if kind is list:
        return (f"list[{written(ANY)}]",)
    return _dict_of(ANY) if kind is dict else ("None" if kind is type(None) else kind.__name__,)
