"""Values with references in them, as they are written, made into templates; `values` resolves them.

1. Values are walked as values: nothing is put into text and then parsed, and what is inserted is never looked at
   again.
2. Keys are never references. `{"$literal": …}` is not looked into; `$$ref:`, `$$item`, `$$index` and `$${` lose a `$`.
   Before `{` and `ref:` two `$` stand for one: `$$${id}` is a dollar sign and a value.
3. A text that is a reference in another system's notation is a fault, see `notations`.

Knows how things are written; which steps a step waits for follows from the references it collects.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import is_
from typing import Any

from callgate.tools.faults import described
from callgate.tools.faults import path_text as place_text

from .expressions import Expression, ExpressionFault, parse_expression
from .faults import MAX_ERRORS, PlanFault
from .notations import Meant, meant_by
from .paths import PathFault, read_path
from .references import INDEX, ITEM, Names, Reference, UnknownStep, read_reference
from .values import Array, At, Broken, Computed, Literal, Object, Template, Text, Whole

__all__ = ["MAX_DEPTH", "Expressions", "Scope", "compile_template", "literal_members"]

MAX_DEPTH = 100
"""Levels of nesting of a plan; a deeper one is refused. pydantic reads 200, of which the tool's schema takes some."""

_MOST_EXPRESSIONS = 1024 * 1024
"""Characters of all expressions of a plan together; of equal ones, those of one."""
_EXPRESSION_BYTES = 350
"""What a character of an expression takes at most when it is compiled; measured. 100 are common."""
_LEAST_EXPRESSIONS = 48 * 1024
"""Characters that are taken however small `memory_bytes` is."""
_SHOWN = 80
_OPENING = re.compile(r"(?<!\$)(\$++)(\{|ref:)")  # every run of `$` is looked at once, whatever its length
_OWN = re.compile(r"\$(item(?=$|[.\[])|index$)")
_ESCAPED = re.compile(r"\$\$+(?:item(?=$|[.\[])|index$)")
_MARK = re.compile(r"[{<%@#\[]|^\s*(?:ref:|steps?[.\[])")
"""What a text holds, beside `$`, that is a reference in another notation."""
_FOREIGN = re.compile(r"(?:\{\{ {0,4}|\$ref\{|\$\{\{ {0,4})([^\W\d]\w*)")
_NAMED = re.compile(r"(?<!\$)\$([^\W\d]\w*)")

_NOT_PYTHON = (
    ("&&", "write `and`, as in Python"),
    ("||", "write `or`, as in Python"),
    ("===", "write `==`, as in Python"),
    ("$", "step ids stand bare in an expression: `s1.field`, without `$ref:` or `${}`"),
    ("?", "write `a if condition else b`, as in Python"),
    ("!", "write `not`, as in Python"),
)
"""What is often written instead of Python, and what to write."""
_NOT_NAMES = {
    "true": "write True, as in Python",
    "false": "write False, as in Python",
    "null": "write None, as in Python",
    "steps": "in an expression steps are named by id: give the step an id",
}

Place = tuple[str | int, ...]


class Expressions:
    """The expressions of one plan by their text; one of each is enough.

    Args:
        max_memory_bytes: what they may take, about; None: no bound of its own.
    """

    def __init__(self, max_memory_bytes: int | None = None) -> None:
        self.size = 0
        """Characters that were parsed."""
        self.most = _MOST_EXPRESSIONS
        """Characters that may be parsed."""
        if max_memory_bytes is not None:
            self.most = min(self.most, max(max_memory_bytes // _EXPRESSION_BYTES, _LEAST_EXPRESSIONS))
        self._parsed: dict[str, Expression] = {}

    def parsed(self, text: str) -> Expression | None:
        """The expression; None where there are too many. Raises `ExpressionFault`."""
        found = self._parsed.get(text)
        if found is None:
            self.size += len(text)
            if self.size > self.most:
                return None
            found = self._parsed[text] = parse_expression(text)
        return found


@dataclass(slots=True)
class Scope:
    """Where a value stands while it is compiled; collects what is found."""

    step: str
    names: Names
    missing: str | None
    """The plan's own rule for paths that lead nowhere: "null", "error", or None for that of the dialect."""
    at: str
    """The step's place in the plan."""
    faults: list[PlanFault]
    expressions: Expressions = field(default_factory=lambda: Expressions())
    references: list[Reference] = field(default_factory=list)
    bare: list[tuple[str, Place]] = field(default_factory=list)
    """Texts that begin with a step's id and a dot, and where they stand."""

    def fault(self, code: str, place: Place, message: str, hint: str = "", *, warning: bool = False) -> None:
        """Note one, unless there are far too many already."""
        if len(self.faults) > 10 * MAX_ERRORS:
            return
        where = place_text([part[:60] if isinstance(part, str) else part for part in place[:20]], self.at)
        self.faults.append(PlanFault(code, self.step, where, message, hint, "warning" if warning else "error"))

    def refer(self, source: int, path: Any, text: str, place: Place, default: str) -> Reference:
        """Note a reference."""
        made = Reference(source, path, text[:_SHOWN], place, (self.missing or default) == "null")
        self.references.append(made)
        return made


def compile_template(value: Any, scope: Scope, place: Place) -> Template:
    """A JSON value, at most `MAX_DEPTH` levels deep, as a template. Faults are noted in the scope."""
    kind = type(value)
    if kind is str:
        if "$" in value:
            return _compile_text(value, scope, place)
        if _MARK.search(value) and (meant := meant_by(value, scope.names, scope.step)) is not None:
            return _other_notation(value, meant, scope, place)
        if "." in value and value.partition(".")[0] in scope.names.ids:
            scope.bare.append((value, place))
        return Literal(value)
    if kind is dict:
        if any(key[:1] == "$" for key in value) and (special := _special(value, scope, place)) is not None:
            return special
        _warn_of_keys(value, scope, place)
        return _object(value, [compile_template(member, scope, (*place, key)) for key, member in value.items()])
    if kind is list:
        return _array(value, [compile_template(item, scope, (*place, index)) for index, item in enumerate(value)])
    return Literal(value)


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
    """Of an object: its members, None for those that depend on results; and the names of these.

    None instead of an object where all of it depends on results.
    """
    if isinstance(template, Literal):
        return template.value, frozenset()
    if not isinstance(template, Object):
        return None, frozenset()
    members = list(zip(template.keys, template.members, strict=True))
    literal = {key: member.value if isinstance(member, Literal) else None for key, member in members}
    return literal, frozenset(key for key, member in members if not isinstance(member, Literal))


def _special(value: dict[str, Any], scope: Scope, place: Place) -> Template | None:
    for key, compiled in _SPECIAL.items():
        if key not in value:
            continue
        if len(value) > 1:
            scope.fault(
                "reference-syntax", place, f"an object with {key!r} holds nothing else",
                'leave the other keys out, or write {"$literal": {…}} for an object that is meant as it stands',
            )  # fmt: skip
            return Broken()
        return compiled(value[key], scope, place)
    return None


def _literal(value: Any, scope: Scope, place: Place) -> Template:
    return Literal(value)


def _reference(value: Any, scope: Scope, place: Place) -> Template:
    if not isinstance(value, str):
        hint = 'write {"$ref": "s1.field"}, or {"$literal": …} for an object that is meant as it stands'
        scope.fault("reference-syntax", place, f"'$ref' must be text, got {described(value)}", hint)
        return Broken()
    bare = value[1:] if _OWN.match(value) else value.removeprefix("$ref:")
    return _whole_reference(value, bare, scope, place, "error")


def _expression(value: Any, scope: Scope, place: Place) -> Template:
    if not isinstance(value, str):
        scope.fault("expression", place, f"'$expr' must be text, got {described(value)}", 'write {"$expr": "s1.n * 2"}')
        return Broken()
    try:
        expression = scope.expressions.parsed(value)
        if expression is None:
            most = scope.expressions.most
            message = f"the expressions of this plan have more than {most} characters, all together"
            scope.fault("too-large", place, message, "compute less of it in the plan, or use a program")
            return Broken()
    except ExpressionFault as fault:
        column = fault.column or 1
        there = value[max(column - 3, 0) : column + 2]
        hint = next((hint for mark, hint in _NOT_PYTHON if mark in there), fault.hint)
        scope.fault("expression", place, f"{fault.message} (column {fault.column})", hint)
        return Broken()
    sources: dict[str, int] = {}
    for name in sorted(expression.names):
        own = {"item": ITEM, "index": INDEX}.get(name) if scope.names.item else None
        source = own if own is not None else scope.names.ids.get(name)
        if source is None:
            unknown = scope.names.unknown(name)
            hint = _NOT_NAMES.get(name) or f"{unknown.hint}; only steps whose id is a Python name can be named here"
            scope.fault("unknown-step", place, f"the expression names {name!r}: {unknown.message}", hint)
            return Broken()
        sources[name] = source
        scope.refer(source, (), f"$expr {name}", place, "error")
    return Computed(expression, sources)


_SPECIAL: Mapping[str, Callable[[Any, Scope, Place], Template]] = {
    "$ref": _reference,
    "$literal": _literal,
    "$expr": _expression,
}


def _whole_reference(written: str, text: str, scope: Scope, place: Place, default: str) -> Template:
    try:
        source, path, end = read_reference(text, 0, scope.names)
    except PathFault as fault:
        code = "unknown-step" if isinstance(fault, UnknownStep) else "reference-syntax"
        scope.fault(code, place, f"{written[:80]!r}: {fault.message}", fault.hint)
        return Broken()
    if end < len(text):
        name = text[:end][:60]
        scope.fault(
            "reference-syntax", place, f"{written[:80]!r} is a reference with text after it",
            f"to insert a value into text write ${{{name}}}; to reach a key with a space or sign in it, "
            f'{name}["the key"]; to compute, {{"$expr": "…"}}',
        )  # fmt: skip
        return Broken()
    reference = scope.refer(source, path, written, place, default)
    return At(reference) if source < 0 or path else Whole(source)


def _compile_text(text: str, scope: Scope, place: Place) -> Template:
    if text.startswith("$ref:"):
        return _whole_reference(text, text[5:], scope, place, "null")
    own = _OWN.match(text)
    if own is not None:
        if scope.names.item:
            return _whole_reference(text, text[1:], scope, place, "null")
        if _is_path(text, own.end()):
            if place[0] in ("when", "for_each"):
                message = f"{text[:80]!r} stands for an item, and means something in 'arguments' alone"
                hint = 'choose the items in for_each: {"$expr": "[each for each in list if each.open]"}'
            else:
                message = f"{text[:80]!r} stands for an item, and there is no `for_each`"
                hint = f"give the step a `for_each`, or write ${text[:60]} for the text itself"
            scope.fault("reference-syntax", place, message, hint)
            return Broken()
    if (meant := meant_by(text, scope.names, scope.step)) is not None:
        return _other_notation(text, meant, scope, place)
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
            _warn_of_dollars(text, opening, scope, place)
        elif mark == "ref:":
            hint = "inside text write ${id.field}; `$ref:` stands for a whole value; `$$ref:` for the text itself"
            scope.fault("reference-syntax", place, f"'$ref:' stands inside longer text: {text[:80]!r}", hint)
            return Broken()
        else:
            inserted = _inserted(text, start, scope, place)
            if inserted is None:
                return Broken()
            parts.append(inserted[0])
            start = inserted[1]
    parts.append(text[start:])
    if all(isinstance(part, str) for part in parts):
        _warn_of_names(text, scope, place)
        return Literal("".join(part for part in parts if isinstance(part, str)))
    return Text(tuple(part for part in parts if part != ""))


def _inserted(text: str, start: int, scope: Scope, place: Place) -> tuple[At, int] | None:
    """The reference of `${…}` whose inside begins at `start`, and where the text goes on."""
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
        code = "unknown-step" if isinstance(fault, UnknownStep) else "reference-syntax"
        hint = f"{fault.hint}; for the text itself write $${{"
        scope.fault(code, place, f"{shown!r} in text: {fault.message}", hint)
        return None
    return At(scope.refer(source, path, f"${{{written}}}", place, "error")), after + 1


def _is_path(text: str, start: int) -> bool:
    try:
        return read_path(text, start)[1] == len(text)
    except PathFault:
        return False


def _warn_of_names(text: str, scope: Scope, place: Place) -> None:
    for match in _FOREIGN.finditer(text):
        if match[1] in scope.names.ids:
            hint = f"to insert its result write ${{{match[1]}}}; if the text is meant, leave it"
            message = f"{text[:80]!r} names the step {match[1]!r} in another notation and is no reference"
            scope.fault("looks-like-a-reference", place, message, hint, warning=True)
            return
    for match in _NAMED.finditer(text):
        if match[1] in scope.names.ids:
            try:
                end = read_path(text, match.end())[1]
            except PathFault:
                end = match.end()
            hint = f"to insert its result write ${{{text[match.start(1) : end][:60]}}}; if the text is meant, leave it"
            message = f"{text[:80]!r} names the step {match[1]!r} and is no reference"
            scope.fault("looks-like-a-reference", place, message, hint, warning=True)
            return


def _warn_of_dollars(text: str, opening: re.Match[str], scope: Scope, place: Place) -> None:
    """`$${price}` is text; whoever writes it may have meant a dollar sign before a price."""
    if opening.group() != "$${":
        return
    try:
        _, _, end = read_reference(text, opening.end(), scope.names)
    except PathFault:
        return
    if text[end : end + 1] == "}":
        written = text[opening.start() : end + 1][:60]
        message = f"{written!r} is text: two dollar signs stand for one, and no reference follows"
        hint = f"for a dollar sign and the value write ${written}; if the text is meant, leave it"
        scope.fault("looks-like-a-reference", place, message, hint, warning=True)


def _other_notation(text: str, meant: Meant, scope: Scope, place: Place) -> Template:
    """The fault of a text that would be sent as it is, with what to write instead."""
    if meant.is_whole:
        written = f'"${meant.reference}"' if meant.of_item else f'"$ref:{meant.reference}"'
        what = f"{text[:_SHOWN]!r} is a reference in another notation"
    else:
        written = f"${{{meant.reference}}}"
        what = f"{meant.shown[:_SHOWN]!r} in text is a reference in another notation"
    hint = f'write {written[:_SHOWN]}; for the text itself {{"$literal": "…"}}'
    scope.fault("looks-like-a-reference", place, f"{what}, and would be sent as that text", hint)
    return Broken()


def _warn_of_keys(value: dict[str, Any], scope: Scope, place: Place) -> None:
    for key in value:
        if "{" in key and meant_by(key, scope.names, scope.step) is not None:
            message = f"the key {key[:_SHOWN]!r} is text: keys are never references"
            hint = "name the key as it is to be called; a reference stands for a value"
            scope.fault("looks-like-a-reference", place, message, hint, warning=True)
            return
