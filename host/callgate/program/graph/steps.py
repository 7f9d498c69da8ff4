"""Calls as steps of a plan: their arguments, items and conditions as JSON, and what they wait for."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from .exact import Shape, as_json, is_exact
from .flow import Site
from .reasons import NotAGraph, Refusal
from .rows import Rows, free_names, list_of, visible
from .spelling import NotSpelt, condition, value
from .symbols import TOO_LARGE, Symbol

__all__ = ["Guard", "Steps"]

_MAX_ITEMS: Final = 100_000
_MOST_CHARACTERS: Final = 128 * 1024
"""Of all expressions of one plan: it takes some tenths of a second to write and read them."""
_MOST_EDGES: Final = 100_000

Guard = tuple[tuple[object, Symbol], ...]
"""The conditions around a call, outside of loops, and something that tells each side of them from any other."""


@dataclass(slots=True)
class _Step:
    site: Site
    body: dict[str, Any]
    names: frozenset[str]
    sides: tuple[object, ...]
    before: frozenset[int]
    depends_on: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)


class Steps:
    """The steps of one plan, in the order of the program.

    Args:
        ids: of each site, by its number.
        shapes: what is known of the variables of loops.
    """

    def __init__(self, ids: Mapping[int, str], shapes: Mapping[str, Shape]) -> None:
        self._ids = ids
        self._shapes = shapes
        self._steps: list[_Step] = []
        self._characters = 0

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
        before: frozenset[int],
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
        step_id = self._ids[site.number]
        names = frozenset[str]().union(*(symbol.names for _, symbol in arguments), *(test.names for _, test in guard))
        body: dict[str, Any] = {"id": step_id, "tool": site.tool, "arguments": {}}
        body["description"] = f"line {site.line}: {'await ' if awaited else ''}{site.text}"
        what = ""
        try:
            given = [(name, _as_json(symbol, self._shapes)) for name, symbol in arguments]
            items = _Items(given, rows, self._shapes)
            for name, symbol in given:
                what = f"its argument `{name}`"
                node = items.argument(name, symbol)
                body["arguments"][name] = value(node, is_place=items.is_place(node))
            if rows is not None:
                what = "the loop around it"
                whole = items.all()
                body["for_each"] = value(whole)
                body["max_items"] = _MAX_ITEMS
                names |= free_names(whole)
            if guard:
                what = "the condition for it"
                body["when"] = condition([test.node for _, test in guard if test.node is not None])
        except NotSpelt:
            hint = "let a tool give the value, or do it in several calls"
            raise Refusal(NotAGraph(site.line, site.text, f"{what} {TOO_LARGE}", hint)) from None
        self._check(site, body)
        self._steps.append(_Step(site, body, names, tuple(side for side, _ in guard), before))

    def _check(self, site: Site, body: dict[str, Any]) -> None:
        try:
            json.dumps(body, ensure_ascii=False).encode()
        except ValueError:
            message = "it holds half of a surrogate pair, which is not Unicode text"
            raise Refusal(NotAGraph(site.line, site.text, message, "remove it")) from None
        written = [body.get("for_each"), body.get("when"), *body["arguments"].values()]
        self._characters += sum(len(each["$expr"]) for each in written if isinstance(each, dict) and "$expr" in each)
        if self._characters > _MOST_CHARACTERS:
            message = "the expressions of its plan are too large, all together"
            raise Refusal(NotAGraph(site.line, "the program", message, "split it"))

    def written(self) -> list[dict[str, Any]]:
        """The steps as JSON."""
        self._join()
        last = max((index for index, step in enumerate(self._steps) if step.after), default=-1)
        found = []
        for index, step in enumerate(self._steps):
            body = dict(step.body)
            if step.depends_on:
                body["depends_on"] = step.depends_on
            if step.after:
                body["after"] = step.after
            if step.sides and index < last:
                body["critical"] = True  # what only comes after it must not begin once it has failed
            found.append(body)
        return found

    def _join(self) -> None:
        by_site = {step.site.number: step for step in self._steps}
        edges = 0
        for step in self._steps:
            step.depends_on, step.after = [], []
            for number in sorted(step.before):
                earlier = by_site[number]
                edges += 1
                if self._ids[number] in step.names:
                    continue
                certain = earlier.sides == step.sides[: len(earlier.sides)]
                (step.depends_on if certain else step.after).append(self._ids[number])
            if edges > _MOST_EDGES:
                message = "too many calls wait for too many others"
                raise Refusal(NotAGraph(step.site.line, "the program", message, "use loops, or several programs"))


class _Items:
    """What one item of a `for_each` carries: the variables of loops that arguments use, each one once."""

    def __init__(self, arguments: list[tuple[str, Symbol]], rows: Rows | None, shapes: Mapping[str, Shape]) -> None:
        self._rows = rows
        self._entries: dict[str, tuple[ast.expr, frozenset[str]]] = {}
        self._computed: dict[str, str] = {}
        known = visible(rows)
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
        element = ast.List(nodes, ast.Load()) if len(nodes) > 1 else nodes[0] if nodes else ast.Constant(None)
        return list_of(element, self._own_names(), self._rows, None)

    def _own_names(self) -> frozenset[str]:
        return frozenset[str]().union(*(names for _, names in self._entries.values()))


def _as_json(symbol: Symbol, shapes: Mapping[str, Shape]) -> Symbol:
    assert symbol.node is not None
    node = as_json(symbol.node, shapes)
    return symbol if node is symbol.node else replace(symbol, node=node)


def _replaced(node: ast.expr, places: Mapping[str, ast.expr]) -> ast.expr:
    made = _Replacement(places).visit(node)
    assert isinstance(made, ast.expr)
    return made


class _Replacement:
    """Other expressions for some names, which nothing in the tree binds."""

    def __init__(self, places: Mapping[str, ast.expr]) -> None:
        self._places = places

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.Name):
            return self._places.get(node.id, node)
        changed: dict[str, object] = {}
        for name, field_value in ast.iter_fields(node):
            if isinstance(field_value, ast.AST):
                again: object = self.visit(field_value)
                if again is not field_value:
                    changed[name] = again
            elif isinstance(field_value, list):
                items = [self.visit(each) if isinstance(each, ast.AST) else each for each in field_value]
                if any(a is not b for a, b in zip(items, field_value, strict=True)):
                    changed[name] = items
        return type(node)(**{**dict(ast.iter_fields(node)), **changed}) if changed else node
