"""Writes a flow as a plan, if it consists of straight calls, gathers, and loops of one call each. Runs nothing.

A variable stands for an expression over the ids of steps. Values that depend on a branch, or that are changed in place,
are not known beforehand. A program with a call that needs such a value cannot be written as a plan.

A change of an object shows under all its names. So each value has marks of the objects that it is made of, and a change
makes all values with one of these marks unknown.
"""

from __future__ import annotations

import ast
import copy
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from callgate.plan.expressions.parse import warnings_are_off
from callgate.plan.expressions.trees import nodes_of
from callgate.plan.sizes import json_size

from .flow import (
    Assign,
    Augment,
    CallTool,
    Change,
    Flow,
    For,
    Gather,
    Hold,
    If,
    Item,
    Operation,
    Order,
    Pure,
    Target,
    operations_of,
    pures_of,
)
from .reasons import NotAGraph, Refusal
from .walking.effects import effects_of

__all__ = ["Written", "json_argument", "write_plan"]

_MOST_ITEMS: Final = 100_000
_MOST_NODES: Final = 1_000
"""Nodes of one expression; a longer one would be unreadable."""
_MOST_WORK: Final = 50_000
"""Nodes of all expressions together."""
_MOST_INPUT: Final = 2_048
_ITEM: Final = "item"


@dataclass(slots=True)
class Written:
    """A plan, and the line of the program for each of its steps."""

    steps: list[dict[str, Any]] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Value:
    """The meaning of a variable, a call or a list of calls."""

    node: ast.expr | None
    """An expression over the ids of steps; None if the value is not known before the program runs."""
    marks: frozenset[int] = frozenset()


_Values = dict[str, _Value]
_UNKNOWN: Final = _Value(None)


def write_plan(flow: Flow, inputs: Mapping[str, Any]) -> Written | NotAGraph:
    """Write a program as a plan, or return the first reason why that is not possible.

    Args:
        flow: the program.
        inputs: JSON values; small ones are written into the plan.
    """
    try:
        writer = _Writer(flow, inputs)
        for operation in flow.body:
            writer.write(operation)
    except Refusal as refused:
        return refused.reason
    except RecursionError:
        return NotAGraph(1, "the program", "it is nested too deeply to be written as a plan")
    return writer.written


def json_argument(value: Any) -> Any:
    """A JSON value as an argument in a plan, where nothing in the value is read as a reference."""
    return {"$literal": value} if "$" in json.dumps(value, ensure_ascii=False) else value


class _Writer:
    def __init__(self, flow: Flow, inputs: Mapping[str, Any]) -> None:
        self.written = Written()
        self._marks = 0
        self._known: _Values = {name: self._new(_literal(inputs[name])) for name in flow.inputs}
        """Variables."""
        self._slots: _Values = {}
        """Results of calls, and of lists of calls."""
        self._steps_of: dict[str, list[str]] = {}
        """The steps of each slot."""
        self._wanted = _step_names(flow)
        pures = [pure for operation in operations_of(flow.body) for pure in pures_of(operation)]
        self._taken = {"steps", _ITEM, "index"}.union(*(pure.expression.functions | _bound_in(pure) for pure in pures))
        self._order = Order()
        self._work = 0

    def write(self, operation: Operation) -> None:
        if isinstance(operation, Assign):
            self._store(operation.target, self._value(operation.value))
        elif isinstance(operation, CallTool):
            self._slots[operation.slot] = self._call(operation, {})
        elif isinstance(operation, Gather):
            self._gather(operation)
        elif isinstance(operation, Hold):
            self._hold(operation)
        elif isinstance(operation, For):
            self._loop(operation)
        elif isinstance(operation, If) and any(isinstance(each, CallTool) for each in operations_of((operation,))):
            raise _refusal(operation, "if", "a branch makes calls")
        elif isinstance(operation, If | Augment | Change):
            self._lose(operation)

    # values

    def _new(self, node: ast.expr | None, *parts: _Value) -> _Value:
        """A value that may be a new object made of these parts."""
        self._marks += 1
        return _Value(node, frozenset({self._marks}).union(*(part.marks for part in parts)))

    def _value(self, pure: Pure) -> _Value:
        found = {name: self._known.get(name, _UNKNOWN) for name in pure.expression.names}
        if isinstance(pure.node, ast.Name):
            return found[pure.node.id]
        if isinstance(pure.node, ast.Constant):
            return _Value(pure.node)
        nodes = [value.node for value in found.values() if value.node is not None]
        put_in = pure.expression.names.union(*map(_names, nodes))
        made: Any = None
        if len(nodes) == len(found) and put_in.isdisjoint(_bound_in(pure)):
            size = sum(len(nodes_of([node], _MOST_NODES)) for node in (pure.node, *nodes))
            self._work += size
            if size <= _MOST_NODES and self._work <= _MOST_WORK:
                made = _Substitution(found).visit(copy.deepcopy(pure.node))
        return self._new(made, *found.values())

    def _store(self, target: Target, value: _Value) -> None:
        if isinstance(target, str):
            self._known[target] = value
        elif isinstance(target, Item):
            self._change(self._marks_of(target.object.expression.names), value.marks)
        else:
            node = value.node
            parts = node.elts if isinstance(node, ast.List | ast.Tuple) and len(node.elts) == len(target) else None
            for index, each in enumerate(target):
                part = node and (parts[index] if parts else ast.Subscript(node, ast.Constant(index), ast.Load()))
                self._store(each, _Value(part, value.marks))

    def _marks_of(self, names: Collection[str]) -> frozenset[int]:
        return frozenset().union(*(self._known.get(name, _UNKNOWN).marks for name in names))

    def _change(self, changed: frozenset[int], given: frozenset[int]) -> None:
        """Objects with these marks are changed in place; they may contain objects with the marks `given` afterwards."""
        for values in (self._known, self._slots):
            self._work += len(values)
            for name, value in values.items():
                if not value.marks.isdisjoint(changed):
                    values[name] = _Value(None, value.marks | given)

    def _lose(self, operation: Operation) -> None:
        """Make the variables that an operation stores or changes unknown from here on."""
        effects = effects_of(operation)
        read = self._marks_of(effects.reads)
        self._change(self._marks_of([name for name, _ in effects.changes]), read)
        for name, augments in effects.stores.items():
            self._known[name] = _Value(None, self._marks_of([name]) if augments else read)

    # calls

    def _call(self, operation: CallTool, more: dict[str, Any]) -> _Value:
        site = operation.site
        wanted = self._wanted.get(operation.slot, site.name)
        name, number = wanted, 1
        while name in self._taken:
            number += 1
            name = f"{wanted}_{number}"
        self._taken.add(name)
        described = f"line {site.line}: {site.text}"
        step: dict[str, Any] = {"id": name, "tool": site.tool, "arguments": {}, "description": described}
        needs: set[str] = set()
        for argument, pure in operation.arguments:
            node = self._value(pure).node
            if node is None:
                raise _refusal(operation, site.text, f"its argument {argument} is not known before the program runs")
            step["arguments"][argument] = _argument(node)
            needs |= _names(node)
        step |= more
        if after := self._order.begin(name, early=site.early, needs=needs):
            step["depends_on"] = after
        self.written.steps.append(step)
        self.written.lines[name] = site.line
        self._steps_of[operation.slot] = [name]
        return self._new(ast.Name(name, ast.Load()))

    def _gather(self, operation: Gather) -> None:
        results = [self._slots[part.slot] for part in operation.parts]
        parts: list[ast.expr] = []
        for part, value in zip(operation.parts, results, strict=True):
            self._order.end(self._steps_of[part.slot])
            if part.spread and isinstance(value.node, ast.List):
                parts += value.node.elts
            elif value.node is not None:
                parts.append(ast.Starred(value.node, ast.Load()) if part.spread else value.node)
        whole = parts[0].value if len(parts) == 1 and isinstance(parts[0], ast.Starred) else None
        if operation.alone:
            self._known[operation.variable] = results[0]
            return
        is_known = all(value.node is not None for value in results)
        made = whole or ast.List(parts, ast.Load())
        self._known[operation.variable] = self._new(made if is_known else None, *results)

    def _hold(self, operation: Hold) -> None:
        if operation.slot is None:
            self._slots[operation.slots] = self._new(ast.List([], ast.Load()))
            self._steps_of[operation.slots] = []
            return
        self._steps_of[operation.slots] = self._steps_of[operation.slots] + self._steps_of[operation.slot]
        held, result = self._slots[operation.slots], self._slots[operation.slot]
        is_known = isinstance(held.node, ast.List) and result.node is not None
        made = ast.List([*held.node.elts, result.node], ast.Load()) if is_known else None  # type: ignore[union-attr, list-item]
        self._slots[operation.slots] = self._new(made, held, result)

    # loops

    def _loop(self, operation: For) -> None:
        body, test = operation.body, None
        calls = [each for each in operations_of(body) if isinstance(each, CallTool)]
        if not calls:
            return self._lose(operation)
        if len(body) == 1 and isinstance(body[0], If) and not body[0].orelse:
            test, body = body[0].test, body[0].body
        if len(calls) > 1 or any(isinstance(each, For | If) for each in body):
            raise _refusal(operation, "for", "a loop makes several calls a round, or has others in it")
        before = dict(self._known)
        self._lose(operation)  # a round finds the values that an earlier round left behind
        after = dict(self._known)
        over = self._value(operation.values)
        values = over.node
        if values is None:
            raise _refusal(operation, "for", "what it goes over is not known before the program runs")
        own, result = self._fresh(f"{_ITEM}_"), self._fresh("result_")
        if test is not None:
            self._store(operation.target, _Value(ast.Name(own, ast.Load()), over.marks))
            kept = self._value(test).node
            if kept is None:
                raise _refusal(operation, "if", "what it asks for is not known before the program runs")
            clause = ast.comprehension(ast.Name(own, ast.Store()), values, [kept], 0)
            values = ast.ListComp(ast.Name(own, ast.Load()), [clause])
        self._store(operation.target, _Value(ast.Name(_ITEM, ast.Load()), over.marks))
        listed = isinstance(values, ast.List | ast.ListComp)
        gone_over = _argument(values if listed else ast.Call(ast.Name("list", ast.Load()), [values], []))
        call = _UNKNOWN
        held: str | None = None
        grown: tuple[str, _Value] | None = None
        for each in body:
            if isinstance(each, CallTool):
                call = self._call(each, {"for_each": gone_over, "max_items": _MOST_ITEMS})
                self._known = dict(after)  # values computed from the item belong to the step
                self._store(operation.target, _Value(ast.Name(own, ast.Load()), over.marks))
            elif isinstance(each, Gather) and each.alone:
                self._known[each.variable] = _Value(ast.Name(result, ast.Load()), call.marks)
                self._order.end(self._steps_of[each.parts[0].slot])
            elif isinstance(each, Hold):
                assert each.slot is not None
                held = each.slots
                self._steps_of[held] = self._steps_of[held] + self._steps_of[each.slot]
            elif isinstance(each, Assign):
                self._store(each.target, self._value(each.value))
            elif call.node is not None and grown is None and (made := self._appended(each, before)) is not None:
                grown = made
                self._known[made[0]] = made[1]
            else:
                self._lose(each)
        assert call.node is not None
        if grown is not None and (row := self._known[grown[0]].node) is not None:
            rounds = ast.Call(ast.Name("zip", ast.Load()), [values, call.node], [])
            names = ast.Tuple([ast.Name(own, ast.Store()), ast.Name(result, ast.Store())], ast.Store())
            same = isinstance(row, ast.Name) and row.id == result
            clause = ast.comprehension(names, rounds, [], 0)
            after[grown[0]] = self._new(call.node if same else ast.ListComp(row, [clause]), over, call)
        self._known = after
        if held is not None:
            calls_before = self._slots[held]
            is_first = isinstance(calls_before.node, ast.List) and not calls_before.node.elts
            self._slots[held] = self._new(call.node if is_first else None, calls_before, call)
        return None

    def _appended(self, operation: Operation, before: _Values) -> tuple[str, _Value] | None:
        """The list that was empty before the loop, and the value that each round appends to it."""
        if not isinstance(operation, Change) or operation.method != "append" or len(operation.arguments) != 1:
            return None
        if not isinstance(operation.object.node, ast.Name):
            return None
        name, value = operation.object.node.id, self._value(operation.arguments[0])
        start = before.get(name, _UNKNOWN).node
        is_empty = isinstance(start, ast.List) and not start.elts
        return (name, value) if is_empty and value.node is not None else None

    def _fresh(self, name: str) -> str:
        number = 1
        while f"{name}{number}" in self._taken:
            number += 1
        self._taken.add(f"{name}{number}")
        return f"{name}{number}"


class _Substitution(ast.NodeTransformer):
    def __init__(self, known: _Values) -> None:
        self._known = known

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Replace a variable by its meaning."""
        return self._known.get(node.id, _UNKNOWN).node or node


def _refusal(operation: Operation, construct: str, message: str) -> Refusal:
    return Refusal(NotAGraph(operation.line, construct, message))


def _names(node: ast.expr) -> set[str]:
    return {each.id for each in nodes_of([node]) if isinstance(each, ast.Name)}


def _literal(value: Any) -> ast.expr | None:
    """An input as an expression; None if it is too large."""
    if json_size(value, _MOST_INPUT) > _MOST_INPUT:
        return None
    try:
        with warnings_are_off:
            return ast.parse(repr(value), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):  # nested too deeply, or too long a number
        return None


def _argument(node: ast.expr) -> Any:
    """An expression as an argument of a step."""
    if isinstance(node, ast.Name):
        return "$item" if node.id == _ITEM else f"$ref:{node.id}"
    text = ast.unparse(ast.fix_missing_locations(node))
    try:
        return json_argument(json.loads(json.dumps(ast.literal_eval(node), allow_nan=False)))
    except (ValueError, TypeError):
        return {"$expr": text}


def _bound_in(pure: Pure) -> set[str]:
    """Names that an expression binds itself."""
    nodes = nodes_of([pure.node])
    stored = {node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    return stored | {node.arg for node in nodes if isinstance(node, ast.arg)}


def _step_names(flow: Flow) -> dict[str, str]:
    """The program's own name for the result of each slot."""
    called: dict[str, Target] = {}
    found: dict[str, str] = {}

    def name(slot: str, target: Target | None) -> None:
        if isinstance(target, str) and target[0] != "$":
            found[slot] = target

    for each in reversed(list(operations_of(flow.body))):
        if isinstance(each, Assign) and isinstance(each.value.node, ast.Name):
            called[each.value.node.id] = each.target
        elif isinstance(each, Gather) and each.alone:
            name(each.parts[0].slot, called.get(each.variable, each.variable))
        elif isinstance(each, Gather):
            target = called.get(each.variable)
            if isinstance(target, tuple) and len(target) == len(each.parts):
                for part, own in zip(each.parts, target, strict=True):
                    name(part.slot, own)
            elif each.parts and each.parts[0].spread:
                name(each.parts[0].slot, target)
        elif isinstance(each, Hold) and each.slot is not None and each.slots in found:
            found.setdefault(each.slot, found[each.slots])
    return found
