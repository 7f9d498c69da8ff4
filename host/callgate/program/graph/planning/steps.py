"""Calls as steps of a plan: their arguments, items and conditions as JSON, and what they wait for."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from callgate.plan.expressions.trees import fields_of
from callgate.program.graph.flow import Site
from callgate.program.graph.reasons import NotAGraph, Refusal

from .exact import Shape, as_json, is_exact
from .order import numbers_in
from .rows import Rows, free_names, levels, list_of, visible
from .spelling import NotSpelt, Spelling
from .symbols import TOO_LARGE, Symbol
from .work import Work

__all__ = ["Guard", "Steps"]

_MAX_ITEMS: Final = 100_000
_MOST_CHARACTERS: Final = 128 * 1024
"""Of all expressions of one plan: it takes some tenths of a second to write and read them."""
_MOST_TEXT: Final = 512 * 1024
"""Characters of a whole plan, about."""
_MOST_EDGES: Final = 50_000
_STEP_WORK: Final = 50
_EDGE_WORK: Final = 2

Guard = tuple[tuple[object, Symbol], ...]
"""The conditions around a call, outside of loops, and something that tells each side of them from any other."""


@dataclass(slots=True, eq=False)
class _Step:
    """A call that was come to. It is written when all is known: a loop may be followed again."""

    site: Site
    arguments: list[tuple[str, Symbol]]
    rows: Rows | None
    guard: Guard
    before: int
    awaited: bool
    depends_on: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)


class Steps:
    """The steps of one plan, in the order of the program.

    Args:
        ids: of each site, by its number.
        shapes: what is known of the variables of loops.
        work: the budget.
    """

    def __init__(self, ids: Mapping[int, str], shapes: Mapping[str, Shape], work: Work) -> None:
        self._ids = ids
        self._shapes = shapes
        self._work = work
        self._spelling = Spelling(work)
        self._steps: list[_Step] = []
        self._expressions = 0
        self._text = 0

    def __len__(self) -> int:
        return len(self._steps)

    def keep(self, count: int) -> None:
        """Forget all but the first steps."""
        del self._steps[count:]

    def add(
        self,
        site: Site,
        arguments: list[tuple[str, Symbol]],
        rows: Rows | None,
        guard: Guard,
        before: int,
        *,
        awaited: bool,
    ) -> None:
        """One step.

        Args:
            site: the call.
            arguments: by the tool's names; all known.
            rows: the rounds in which it is made.
            guard: the conditions under which it is made.
            before: sites whose calls have to have ended.
            awaited: it is awaited where it is made.
        """
        self._steps.append(_Step(site, arguments, rows, guard, before, awaited))

    def written(self) -> list[dict[str, Any]]:
        """The steps as JSON."""
        bodies = []
        named = []
        for step in self._steps:
            body, names = self._body(step)
            self._check(step.site, body)
            bodies.append(body)
            named.append(names)
        self._join(named)
        last = max((index for index, step in enumerate(self._steps) if step.after), default=-1)
        for index, (step, body) in enumerate(zip(self._steps, bodies, strict=True)):
            if step.depends_on:
                body["depends_on"] = step.depends_on
            if step.after:
                body["after"] = step.after
            if step.guard and index < last:
                body["critical"] = True  # what only comes after it must not begin once it has failed
        return bodies

    def _body(self, step: _Step) -> tuple[dict[str, Any], frozenset[str]]:
        """A step without what it waits for, and the names in its expressions."""
        site, arguments, rows, guard = step.site, step.arguments, step.rows, step.guard
        tests = [test for _, test in guard]
        self._work(_STEP_WORK + 2 * len(arguments) + len(guard))
        names = self._work.union(*(symbol.names for _, symbol in arguments), *(test.names for test in tests))
        body: dict[str, Any] = {"id": self._ids[site.number], "tool": site.tool, "arguments": {}}
        body["description"] = f"line {site.line}: {'await ' if step.awaited else ''}{site.text}"
        what = ""
        try:
            for _, symbol in arguments:
                self._work(symbol.size >> 4)
            given = [(name, _as_json(symbol, self._shapes)) for name, symbol in arguments]
            items = _Items(given, rows, self._shapes, self._work)
            for name, symbol in given:
                what = f"its argument `{name}`"
                node = items.argument(name, symbol)
                body["arguments"][name] = self._spelling.value(node, is_place=items.is_place(node))
            if rows is not None:
                what = "the loop around it"
                whole = items.all()
                body["for_each"] = self._spelling.value(whole)
                body["max_items"] = _MAX_ITEMS
                names = self._work.union(names, free_names(whole))
            if guard:
                what = "the condition for it"
                body["when"] = self._spelling.condition([test.node for test in tests if test.node is not None])
        except NotSpelt:
            hint = "let a tool give the value, or do it in several calls"
            raise Refusal(NotAGraph(site.line, site.text, f"{what} {TOO_LARGE}", hint)) from None
        return body, names

    def _check(self, site: Site, body: dict[str, Any]) -> None:
        try:
            text = json.dumps(body, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            message = "it holds half of a surrogate pair, which is not Unicode text"
            raise Refusal(NotAGraph(site.line, site.text, message, "remove it")) from None
        except ValueError:
            message = "it holds a number of too many digits"
            raise Refusal(NotAGraph(site.line, site.text, message, "write it as text")) from None
        written = [body.get("for_each"), body.get("when"), *body["arguments"].values()]
        self._expressions += sum(len(each["$expr"]) for each in written if isinstance(each, dict) and "$expr" in each)
        if self._expressions > _MOST_CHARACTERS:
            message = "the expressions of its plan are too large, all together"
            raise Refusal(NotAGraph(site.line, "the program", message, "split it"))
        self._add_text(site, len(text))

    def _add_text(self, site: Site, characters: int) -> None:
        self._text += characters
        if self._text > _MOST_TEXT:
            message, hint = "its plan is too large", "let a tool give the value, or use loops"
            raise Refusal(NotAGraph(site.line, "the program", message, hint))

    def _join(self, named: list[frozenset[str]]) -> None:
        by_site = {step.site.number: step for step in self._steps}
        edges = 0
        for step, names in zip(self._steps, named, strict=True):
            edges += step.before.bit_count()
            if edges > _MOST_EDGES:
                message = "too many calls wait for too many others"
                raise Refusal(NotAGraph(step.site.line, "the program", message, "use loops, or several programs"))
            self._work(len(step.guard) + _EDGE_WORK * step.before.bit_count())
            step.depends_on, step.after = [], []
            sides = {side for side, _ in step.guard}
            for number in numbers_in(step.before):
                earlier, name = by_site[number], self._ids[number]
                if name in names:
                    continue
                certain = not earlier.guard or earlier.guard[-1][0] in sides
                (step.depends_on if certain else step.after).append(name)
            self._add_text(step.site, sum(len(name) + 4 for name in (*step.depends_on, *step.after)))


class _Items:
    """What one item of a `for_each` carries: the variables of loops that arguments use, each one once."""

    def __init__(
        self, arguments: list[tuple[str, Symbol]], rows: Rows | None, shapes: Mapping[str, Shape], work: Work
    ) -> None:
        self._rows = rows
        self._work = work
        self._entries: dict[str, tuple[ast.expr, frozenset[str]]] = {}
        self._computed: dict[str, str] = {}
        known = visible(rows) if rows is not None else []
        work(len(known) * (1 + len(arguments)) >> 2)
        used: set[str] = set()
        for name, symbol in arguments:
            assert symbol.node is not None
            of_rows = [each for each in known if each in symbol.names]
            alone = isinstance(symbol.node, ast.Name)
            if alone or all(is_exact(ast.Name(each, ast.Load()), shapes) for each in of_rows):
                used.update(of_rows)
            elif of_rows:
                self._computed[name] = f"={name}"
        for each in known:
            if each in used:
                self._entries[each] = ast.Name(each, ast.Load()), frozenset({each})
        for name, symbol in arguments:
            if name in self._computed and symbol.node is not None:
                self._entries[self._computed[name]] = symbol.node, symbol.names
        self._places: dict[str, ast.expr] = {}
        for index, key in enumerate(self._entries):
            item: ast.expr = ast.Name("item", ast.Load())
            if len(self._entries) > 1:
                item = ast.Subscript(item, ast.Constant(index), ast.Load())
            self._places[key] = item

    def argument(self, name: str, symbol: Symbol) -> ast.expr:
        """The argument over the item."""
        assert symbol.node is not None
        if name in self._computed:
            return self._places[self._computed[name]]
        return _replaced(symbol.node, self._places) if self._places else symbol.node

    def is_place(self, node: ast.expr) -> bool:
        """Whether it is a place within the item, and no more."""
        return isinstance(node, ast.Subscript) and any(node is place for place in self._places.values())

    def all(self) -> ast.expr:
        """The list of the items."""
        nodes = [node for node, _ in self._entries.values()]
        names = self._own_names()
        self._work((1 + len(names)) * levels(self._rows))
        element = ast.List(nodes, ast.Load()) if len(nodes) > 1 else nodes[0] if nodes else ast.Constant(None)
        return list_of(element, names, self._rows, None)

    def _own_names(self) -> frozenset[str]:
        return self._work.union(*(names for _, names in self._entries.values()))


def _as_json(symbol: Symbol, shapes: Mapping[str, Shape]) -> Symbol:
    assert symbol.node is not None
    node = as_json(symbol.node, shapes)
    return symbol if node is symbol.node else Symbol(node, symbol.names, symbol.size, symbol.depth)


def _replaced(node: ast.expr, places: Mapping[str, ast.expr]) -> ast.expr:
    """Other expressions for some names, which nothing in the tree binds."""
    made = _with_places(node, places)
    assert isinstance(made, ast.expr)
    return made


def _with_places(node: ast.AST, places: Mapping[str, ast.expr]) -> ast.AST:
    if isinstance(node, ast.Name):
        return places.get(node.id, node)
    changed: dict[str, object] = {}
    values = node.__dict__
    for name in fields_of(type(node)):
        value = values.get(name)
        if value is None:
            continue
        if type(value) is list:
            items = [each and _with_places(each, places) for each in value]
            if any(a is not b for a, b in zip(items, value, strict=True)):
                changed[name] = items
        else:
            again = _with_places(value, places)
            if again is not value:
                changed[name] = again
    if not changed:
        return node
    made: ast.AST = type(node).__new__(type(node))
    made.__dict__.update(values)
    made.__dict__.update(changed)
    return made
