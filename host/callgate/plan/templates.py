"""Compile values with references into templates, which `values` resolves.

1. Values are walked as values: nothing is put into text and then parsed, and what is inserted is never looked at
   again.
2. Keys are never references. `{"$literal": …}` is not looked into; `$$ref:`, `$$item`, `$$index` and `$${` lose a `$`.
   Before `{` and `ref:` two `$` stand for one: `$$${id}` is a dollar sign and a value.
3. A text that is a reference in another system's notation is a fault, see `notations`.

Which steps a step waits for follows from the references that a `Scope` collects.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import is_
from typing import Any

from callgate.tools.faults import described, path_text

from .expressions import Expression, ExpressionFault, parse_expression
from .faults import Spot
from .notations import meant_by
from .paths import Path, PathFault, read_path
from .references import INDEX, ITEM, Names, Reference, read_reference
from .schemas import takes_only_text
from .values import Array, AsText, At, Broken, Computed, Literal, Object, Template, Text

__all__ = ["MAX_DEPTH", "Expressions", "Scope", "compile_template", "literal_members", "place_text"]

MAX_DEPTH = 100
"""Levels of nesting of a plan. pydantic reads 200, of which the tool's schema takes some."""

_MOST_EXPRESSIONS = 1024 * 1024
"""Characters of all expressions of a plan together; equal expressions count once."""
_EXPRESSION_BYTES = 350
"""Memory for each character of a compiled expression, at most; measured. 100 bytes are common."""
_LEAST_EXPRESSIONS = 48 * 1024
"""Characters that are allowed however small `memory_bytes` is."""
_SHOWN = 80
_OPENING = re.compile(r"(?<!\$)(\$++)(\{|ref:)")  # every run of `$` is looked at once, whatever its length
_OWN = re.compile(r"\$(item(?=$|[.\[])|index$)")
_ESCAPED = re.compile(r"\$\$+(?:item(?=$|[.\[])|index$)")
_MARK = re.compile(r"[{<%@#\[]|^\s*(?:ref:|steps?[.\[])")
"""Marks, beside `$`, of a text that may be a reference in another notation."""
_NAMED = re.compile(r"(?<!\$)\$([^\W\d]\w*)")

_NOT_PYTHON = (
    ("&&", "write `and`, as in Python"),
    ("||", "write `or`, as in Python"),
    ("===", "write `==`, as in Python"),
    ("$", "step ids stand bare in an expression: `s1.field`, without `$ref:` or `${}`"),
    ("?", "write `a if condition else b`, as in Python"),
    ("!", "write `not`, as in Python"),
)
"""Signs of other languages, with the Python to write instead."""
_NOT_NAMES = {
    "true": "write True, as in Python",
    "false": "write False, as in Python",
    "null": "write None, as in Python",
    "steps": "in an expression steps are named by id: give the step an id",
}

Place = tuple[str | int, ...]


class Expressions:
    """The compiled expressions of one plan, each once.

    Args:
        max_memory_bytes: memory that they may take, about; None: no bound.
    """

    def __init__(self, max_memory_bytes: int | None = None) -> None:
        self.size = 0
        """Characters parsed so far."""
        self.most = _MOST_EXPRESSIONS
        """Characters that may be parsed."""
        if max_memory_bytes is not None:
            self.most = min(self.most, max(max_memory_bytes // _EXPRESSION_BYTES, _LEAST_EXPRESSIONS))
        self._parsed: dict[str, Expression] = {}

    def parsed(self, text: str) -> Expression | None:
        """Parse an expression; None if the plan has too many characters of them. Raises `ExpressionFault`."""
        found = self._parsed.get(text)
        if found is None:
            self.size += len(text)
            if self.size > self.most:
                return None
            found = self._parsed[text] = parse_expression(text)
        return found


def place_text(place: Place, root: str = "") -> str:
    """Write a place, e.g. ``steps[1].arguments.city``; of a long one the beginning."""
    return path_text([part[:60] if isinstance(part, str) else part for part in place[:20]], root)


@dataclass(slots=True)
class Scope:
    """What is known of the step whose values are compiled, and what was found in them."""

    spot: Spot
    """The step."""
    names: Names
    missing: str | None
    """The plan's rule for paths that lead nowhere: "null", "error", or None for the rule of the dialect."""
    input_schema: Mapping[str, Any] | None = None
    """Of the tool, where references to anything else are written as JSON for arguments that take only text."""
    only_text: dict[Place, bool] = field(default_factory=dict)
    """Whether such an argument takes only text, as far as it was asked, by place; steps of one tool share it."""
    expressions: Expressions = field(default_factory=lambda: Expressions())
    references: list[Reference] = field(default_factory=list)
    bare: list[tuple[str, Place]] = field(default_factory=list)
    """Texts that begin with a step's id and a dot, with their places."""
    place: Place = ()
    """Place of the value that is compiled now."""

    def below(self, place: Place) -> str:
        """Write a place in the step, without the place of the step itself."""
        return place_text(place, self.spot.place)[len(self.spot.place) :]

    def refer(self, source: int, path: Path, text: str, default: str) -> At:
        """Add a reference."""
        made = At(source, path, text[:_SHOWN], self.place, (self.missing or default) == "null")
        self.references.append(made)
        return made


def compile_template(value: Any, scope: Scope, place: Place) -> Template:
    """Compile a JSON value of at most `MAX_DEPTH` levels. Faults are noted in the scope."""
    kind = type(value)
    if kind is list:
        return _array(value, [compile_template(item, scope, (*place, index)) for index, item in enumerate(value)])
    if kind is not str and kind is not dict:
        return Literal(value)
    scope.place = place
    try:
        if kind is str:
            return _text(value, scope)
        if any(key[:1] == "$" for key in value) and (special := _special(value, scope)) is not None:
            return special
        _doubt_keys(value, scope)
    except PathFault as fault:
        scope.spot.fault(fault.message, fault.hint, scope.below(place), code=fault.code)
        return Broken()
    return _object(value, [compile_template(member, scope, (*place, key)) for key, member in value.items()])


def _object(written: dict[str, Any], members: list[Template]) -> Template:
    if all(type(member) is Literal for member in members):
        values = [member.value for member in members]  # type: ignore[attr-defined]
        if all(map(is_, values, written.values())):
            return Literal(written)
        return Literal(dict(zip(written, values, strict=True)))
    return Object(tuple(written), tuple(members))


def _array(written: list[Any], items: list[Template]) -> Template:
    if all(type(item) is Literal for item in items):
        values = [item.value for item in items]  # type: ignore[attr-defined]
        return Literal(written if all(map(is_, values, written)) else values)
    return Array(tuple(items))


def literal_members(template: Template) -> tuple[dict[str, Any] | None, frozenset[str]]:
    """Return an object's members, with None for those that depend on results, and the names of those.

    The members are None if the template as a whole depends on results.
    """
    if isinstance(template, Literal):
        return template.value, frozenset()
    if not isinstance(template, Object):
        return None, frozenset()
    members = list(zip(template.keys, template.members, strict=True))
    literal = {key: member.value if isinstance(member, Literal) else None for key, member in members}
    return literal, frozenset(key for key, member in members if not isinstance(member, Literal))


def _special(value: dict[str, Any], scope: Scope) -> Template | None:
    key = next((key for key in ("$ref", "$literal", "$expr") if key in value), None)
    if key is None:
        return None
    if len(value) > 1:
        hint = 'leave the other keys out, or write {"$literal": {…}} for an object that is meant as it stands'
        raise PathFault(f"an object with {key!r} holds nothing else", hint)
    inside = value[key]
    if key == "$literal":
        return Literal(inside)
    if key == "$expr":
        return _expression(inside, scope)
    if not isinstance(inside, str):
        hint = 'write {"$ref": "s1.field"}, or {"$literal": …} for an object that is meant as it stands'
        raise PathFault(f"'$ref' must be text, got {described(inside)}", hint)
    bare = inside[1:] if _OWN.match(inside) else inside.removeprefix("$ref:")
    return _whole_reference(inside, bare, scope, "error")


def _expression(text: Any, scope: Scope) -> Template:
    if not isinstance(text, str):
        raise PathFault(f"'$expr' must be text, got {described(text)}", 'write {"$expr": "s1.n * 2"}', "expression")
    try:
        expression = scope.expressions.parsed(text)
    except ExpressionFault as fault:
        column = fault.column or 1
        there = text[max(column - 3, 0) : column + 2]
        hint = next((hint for mark, hint in _NOT_PYTHON if mark in there), fault.hint)
        raise PathFault(f"{fault.message} (column {fault.column})", hint, "expression") from None
    if expression is None:
        message = f"the expressions of this plan have more than {scope.expressions.most} characters, all together"
        raise PathFault(message, "compute less of it in the plan, or use a program", "too-large")
    sources: dict[str, int] = {}
    for name in sorted(expression.names):
        own = {"item": ITEM, "index": INDEX}.get(name) if scope.names.item else None
        source = own if own is not None else scope.names.ids.get(name)
        if source is None:
            unknown = scope.names.unknown(name)
            hint = _NOT_NAMES.get(name) or f"{unknown.hint}; only steps whose id is a Python name can be named here"
            raise PathFault(f"the expression names {name!r}: {unknown.message}", hint, "unknown-step")
        sources[name] = source
        scope.refer(source, (), f"$expr {name}", "error")
    return Computed(expression, sources)


def _whole_reference(written: str, text: str, scope: Scope, default: str) -> At:
    try:
        source, path, end = read_reference(text, 0, scope.names)
    except PathFault as fault:
        raise PathFault(f"{written[:80]!r}: {fault.message}", fault.hint, fault.code) from None
    if end < len(text):
        name = text[:end][:60]
        raise PathFault(
            f"{written[:80]!r} is a reference with text after it",
            f"to insert a value into text write ${{{name}}}; to reach a key with a space or sign in it, "
            f'{name}["the key"]; to compute, {{"$expr": "…"}}',
        )  # fmt: skip
    return scope.refer(source, path, written, default)


def _text(text: str, scope: Scope) -> Template:
    if "$" not in text:
        if _MARK.search(text):
            _check_notation(text, scope)
        if "." in text and text.partition(".")[0] in scope.names.ids:
            scope.bare.append((text, scope.place))
        return Literal(text)
    own = _OWN.match(text)
    if text.startswith("$ref:") or (own is not None and scope.names.item):
        value = _whole_reference(text, text[5:] if own is None else text[1:], scope, "null")
        place, schema = scope.place[1:], scope.input_schema
        if schema is None or scope.place[0] != "arguments":
            return value
        only_text = scope.only_text.get(place)
        if only_text is None:
            only_text = scope.only_text[place] = takes_only_text(schema, place)
        return AsText(value, place_text(place)) if only_text else value
    if own is not None and _end_of_path(text, own.end()) == len(text):
        if scope.place[0] in ("when", "for_each"):
            what = "and means something in 'arguments' alone"
            hint = 'choose the items in for_each: {"$expr": "[each for each in list if each.open]"}'
        else:
            what = "and there is no `for_each`"
            hint = f"give the step a `for_each`, or write ${text[:60]} for the text itself"
        raise PathFault(f"{text[:80]!r} stands for an item, {what}", hint)
    _check_notation(text, scope)
    parts: list[str | At] = []
    start = 1 if _ESCAPED.match(text) else 0
    for opening in _OPENING.finditer(text):
        if opening.start() < start:
            continue
        dollars, mark = opening.groups()
        parts.append(text[start : opening.start()] + "$" * (len(dollars) // 2))
        start = opening.end()
        if len(dollars) % 2 == 0:
            parts.append(mark)
        elif mark == "ref:":
            hint = "inside text write ${id.field}; `$ref:` stands for a whole value; `$$ref:` for the text itself"
            raise PathFault(f"'$ref:' stands inside longer text: {text[:80]!r}", hint)
        else:
            inserted, start = _inserted(text, start, scope)
            parts.append(inserted)
    parts.append(text[start:])
    if all(isinstance(part, str) for part in parts):
        _doubt_names(text, scope)
        return Literal("".join(part for part in parts if isinstance(part, str)))
    return Text(tuple(part for part in parts if part != ""))


def _inserted(text: str, start: int, scope: Scope) -> tuple[At, int]:
    """Read the `${…}` whose inside begins at `start`. Returns the reference and where the text goes on."""
    end = text.find("}", start)
    shown = text[start - 2 : end + 1 if end >= 0 else None][:60]
    while text[start : start + 1] == " ":
        start += 1
    try:
        source, path, after = read_reference(text, start, scope.names)
        written = text[start:after]
        while text[after : after + 1] == " ":
            after += 1
        if text[after : after + 1] != "}":
            raise PathFault(f"there is no }} after {written[:60]!r}", "close it: ${id.field}")
    except PathFault as fault:
        hint = f"{fault.hint}; for the text itself write $${{"
        raise PathFault(f"{shown!r} in text: {fault.message}", hint, fault.code) from None
    return scope.refer(source, path, f"${{{written}}}", "error"), after + 1


def _end_of_path(text: str, start: int) -> int:
    """Return where the path at `start` ends; `start` itself if there is no path."""
    try:
        return read_path(text, start)[1]
    except PathFault:
        return start


def _check_notation(text: str, scope: Scope) -> None:
    """Raise `PathFault` for a reference in another system's notation, which would be sent as text."""
    meant = meant_by(text, scope.names, str(scope.spot.step))
    if meant is None:
        return
    if meant.is_whole:
        written = f'"${meant.reference}"' if meant.of_item else f'"$ref:{meant.reference}"'
        what = f"{text[:_SHOWN]!r} is a reference in another notation"
    else:
        written = f"${{{meant.reference}}}"
        what = f"{meant.shown[:_SHOWN]!r} in text is a reference in another notation"
    hint = f'write {written[:_SHOWN]}; for the text itself {{"$literal": "…"}}'
    raise PathFault(f"{what}, and would be sent as that text", hint, "looks-like-a-reference")


def _doubt_keys(value: dict[str, Any], scope: Scope) -> None:
    """Warn of the first key that is a reference in another notation: keys are always text."""
    for key in value:
        if "{" in key and meant_by(key, scope.names, str(scope.spot.step)) is not None:
            message = f"the key {key[:_SHOWN]!r} is text: keys are never references"
            hint = "name the key as it is to be called; a reference stands for a value; if the text is meant, leave it"
            scope.spot.warn("looks-like-a-reference", message, hint, scope.below(scope.place))
            return


def _doubt_names(text: str, scope: Scope) -> None:
    """Warn of the first ``$name`` that names a step."""
    for match in _NAMED.finditer(text):
        if match[1] in scope.names.ids:
            path = text[match.start(1) : _end_of_path(text, match.end())][:60]
            hint = f"to insert its result write ${{{path}}}; if the text is meant, leave it"
            message = f"{text[:80]!r} names the step {match[1]!r} but is not a reference"
            scope.spot.warn("looks-like-a-reference", message, hint, scope.below(scope.place))
            return
