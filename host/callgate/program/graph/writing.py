"""A flow written as a plan, where it is straight calls, gathers, and loops of one call each. Runs nothing.

A variable stands for an expression over the ids of steps. What comes of a branch, and what is changed in place, is not
known beforehand; a program with a call that needs such a value is in no plan that could be written.
"""

from __future__ import annotations

import ast
import copy
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from callgate.plan.expressions.parse import warnings_are_off
from callgate.plan.expressions.trees import nodes_of
from callgate.plan.sizes import json_size

from .flow import (
    Assign,
    Augment,
    Block,
    CallTool,
    Change,
    Finish,
    Flow,
    For,
    Gather,
    Hold,
    If,
    Item,
    Operation,
    Pure,
    Site,
    Target,
    operations_of,
    pures_of,
    variables_of,
)
from .order import Order
from .reasons import NotAGraph, Refusal

__all__ = ["Written", "json_argument", "write_plan"]

_MOST_ITEMS: Final = 100_000
_MOST_NODES: Final = 1_000
"""Of an expression; nobody reads a longer one."""
_MOST_WORK: Final = 50_000
"""Nodes of all expressions together."""
_MOST_INPUT: Final = 2_048
_ITEM: Final = "item"
_RESERVED: Final = ("steps", _ITEM, "index")


@dataclass(slots=True)
class Written:
    """A plan, and the line of the program for each of its steps."""

    steps: list[dict[str, Any]] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)


def write_plan(flow: Flow, inputs: Mapping[str, Any]) -> Written | NotAGraph:
    """The plan that a program is, or the first thing in it that no plan says.

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
    """A JSON value as it stands in a plan: nothing in it is taken for a reference."""
    return {"$literal": value} if "$" in json.dumps(value, ensure_ascii=False) else value


class _Writer:
    def __init__(self, flow: Flow, inputs: Mapping[str, Any]) -> None:
        self.written = Written()
        self._known: dict[str, ast.expr | None] = {name: _literal(inputs[name]) for name in flow.inputs}
        """What each variable stands for; None where that is not known."""
        self._slots: dict[str, ast.expr | None] = {}
        """What comes of a call, or of a list of calls."""
        self._wanted = _step_names(flow)
        self._taken = {*_RESERVED, *_functions_and_bound(flow)}
        self._seen_by = _seen_by(flow)
        self._steps_of: dict[str, list[str]] = {}
        """The steps of each slot."""
        self._order = Order()
        self._work = 0

    def write(self, operation: Operation) -> None:
        if isinstance(operation, Assign):
            self._bind(operation.target, operation.value)
        elif isinstance(operation, CallTool):
            self._slots[operation.slot] = self._call(operation, {})
        elif isinstance(operation, Finish):
            self._known[operation.variable] = self._slots[operation.slot]
            self._order.end(self._steps_of[operation.slot])
        elif isinstance(operation, Gather):
            self._gather(operation)
        elif isinstance(operation, Hold):
            self._hold(operation)
        elif isinstance(operation, For):
            self._loop(operation)
        elif isinstance(operation, If) and any(isinstance(each, CallTool) for each in operations_of((operation,))):
            raise _refusal(operation, "if", "a branch makes calls")
        elif isinstance(operation, If | Augment | Change):
            self._lose((operation,))

    # values

    def _expression(self, pure: Pure) -> ast.expr | None:
        """The expression over step ids; None where something in it is not known."""
        names = pure.expression.names
        found = {name: self._known.get(name) for name in names}
        known = [node for node in found.values() if node is not None]
        put_in = names.union(*map(_names, known))
        if len(known) < len(names) or not put_in.isdisjoint(_bound_in(pure)):
            return None
        size = len(nodes_of([pure.node], _MOST_NODES))
        size += sum(len(nodes_of([node], _MOST_NODES)) for node in known)
        self._work += size
        if size > _MOST_NODES or self._work > _MOST_WORK:
            return None
        made = _Substitution(found).visit(copy.deepcopy(pure.node))
        return made if isinstance(made, ast.expr) else None

    def _bind(self, target: Target, value: Pure) -> None:
        self._take_apart(target, self._expression(value))

    def _take_apart(self, target: Target, value: ast.expr | None) -> None:
        if isinstance(target, str):
            self._known[target] = value
        elif isinstance(target, tuple):
            parts = value.elts if isinstance(value, ast.List | ast.Tuple) and len(value.elts) == len(target) else None
            for index, each in enumerate(target):
                part = value and (parts[index] if parts else ast.Subscript(value, ast.Constant(index), ast.Load()))
                self._take_apart(each, part)
        else:
            self._forget(target.object.expression.names)

    def _lose(self, block: Block) -> None:
        """What a block stores, or changes, is not known from here on."""
        for each in operations_of(block):
            self._known.update(dict.fromkeys(variables_of(each)))
            if isinstance(each, Change):
                self._forget(each.object.expression.names)
            elif isinstance(each, Augment):
                self._forget([each.name])
            elif isinstance(each, Assign | For):
                self._take_apart(each.target, None)

    def _forget(self, names: Iterable[str]) -> None:
        """One of these was changed in place."""
        todo, seen = list(names), set()
        while todo:
            name = todo.pop()
            if name not in seen:
                seen.add(name)
                self._known[name] = None
                todo.extend(self._seen_by.get(name, ()))

    # calls

    def _call(self, operation: CallTool, more: dict[str, Any]) -> ast.expr:
        site = operation.site
        wanted = self._wanted.get(operation.slot, site.name)
        name, number = wanted, 1
        while name in self._taken:
            number += 1
            name = f"{wanted}_{number}"
        self._taken.add(name)
        step: dict[str, Any] = {"id": name, "tool": site.tool, "arguments": {}, "description": _described(site)}
        needs: set[str] = set()
        for argument, pure in operation.arguments:
            expression = self._expression(pure)
            if expression is None:
                raise _refusal(operation, site.text, f"its argument {argument} is not known before the program runs")
            step["arguments"][argument] = _argument(expression)
            needs |= _names(expression)
        step |= more
        if after := self._order.begin(name, early=site.early, needs=needs):
            step["depends_on"] = after
        self.written.steps.append(step)
        self.written.lines[name] = site.line
        self._steps_of[operation.slot] = [name]
        return ast.Name(name, ast.Load())

    def _gather(self, operation: Gather) -> None:
        parts: list[ast.expr] | None = []
        for part in operation.parts:
            results = self._slots[part.slot]
            self._order.end(self._steps_of[part.slot])
            if results is None or parts is None:
                parts = None
            elif part.spread and isinstance(results, ast.List):
                parts += results.elts
            else:
                parts.append(ast.Starred(results, ast.Load()) if part.spread else results)
        whole = parts[0].value if parts and len(parts) == 1 and isinstance(parts[0], ast.Starred) else None
        self._known[operation.variable] = whole or (None if parts is None else ast.List(parts, ast.Load()))

    def _hold(self, operation: Hold) -> None:
        if operation.slot is None:
            self._slots[operation.slots] = ast.List([], ast.Load())
            self._steps_of[operation.slots] = []
            return
        self._steps_of[operation.slots] = self._steps_of[operation.slots] + self._steps_of[operation.slot]
        held, result = self._slots[operation.slots], self._slots[operation.slot]
        if isinstance(held, ast.List) and result is not None:
            self._slots[operation.slots] = ast.List([*held.elts, result], ast.Load())
        else:
            self._slots[operation.slots] = None

    # loops

    def _loop(self, operation: For) -> None:
        body, test = operation.body, None
        calls = [each for each in operations_of(body) if isinstance(each, CallTool)]
        if not calls:
            return self._lose((operation,))
        if len(body) == 1 and isinstance(body[0], If) and not body[0].orelse:
            test, body = body[0].test, body[0].body
        if len(calls) > 1 or any(isinstance(each, For | If) for each in body):
            raise _refusal(operation, "for", "a loop makes several calls a round, or has others in it")
        before = dict(self._known)
        self._lose((operation,))  # what a round leaves behind, another one finds
        after = dict(self._known)
        values = self._expression(operation.values)
        if values is None:
            raise _refusal(operation, "for", "what it goes over is not known before the program runs")
        own, result = self._fresh(f"{_ITEM}_"), self._fresh("result_")
        if test is not None:
            self._take_apart(operation.target, ast.Name(own, ast.Load()))
            kept = self._expression(test)
            if kept is None:
                raise _refusal(operation, "if", "what it asks for is not known before the program runs")
            clause = ast.comprehension(ast.Name(own, ast.Store()), values, [kept], 0)
            values = ast.ListComp(ast.Name(own, ast.Load()), [clause])
        self._take_apart(operation.target, ast.Name(_ITEM, ast.Load()))
        gone_over = _argument(values if isinstance(values, ast.List | ast.ListComp) else _list_of(values))
        call: ast.expr | None = None
        held: str | None = None
        grown: tuple[str, ast.expr] | None = None
        for each in body:
            if isinstance(each, CallTool):
                call = self._call(each, {"for_each": gone_over, "max_items": _MOST_ITEMS})
                self._known = dict(after)  # what was worked out of the item belongs to the step
                self._take_apart(operation.target, ast.Name(own, ast.Load()))
            elif isinstance(each, Finish):
                self._known[each.variable] = ast.Name(result, ast.Load())
                self._order.end(self._steps_of[each.slot])
            elif isinstance(each, Hold):
                assert each.slot is not None
                held = each.slots
                self._steps_of[held] = self._steps_of[held] + self._steps_of[each.slot]
            elif isinstance(each, Assign):
                self._bind(each.target, each.value)
            elif call is not None and grown is None and (made := self._appended(each, before)) is not None:
                grown = made
                self._known[made[0]] = made[1]
            else:
                self._lose((each,))
        assert call is not None
        if grown is not None and self._known.get(grown[0]) is not None:
            rounds = ast.Call(ast.Name("zip", ast.Load()), [values, call], [])
            names = ast.Tuple([ast.Name(own, ast.Store()), ast.Name(result, ast.Store())], ast.Store())
            same = isinstance(grown[1], ast.Name) and grown[1].id == result
            clause = ast.comprehension(names, rounds, [], 0)
            after[grown[0]] = call if same else ast.ListComp(grown[1], [clause])
        self._known = after
        if held is not None:
            calls_before = self._slots.get(held)
            is_first = isinstance(calls_before, ast.List) and not calls_before.elts
            self._slots[held] = call if is_first else None
        return None

    def _appended(self, operation: Operation, before: Mapping[str, ast.expr | None]) -> tuple[str, ast.expr] | None:
        """The list that was empty before the loop, and what each round appends to it."""
        if not isinstance(operation, Change) or operation.method != "append" or len(operation.arguments) != 1:
            return None
        if not isinstance(operation.object.node, ast.Name):
            return None
        name, value = operation.object.node.id, self._expression(operation.arguments[0])
        start = before.get(name)
        is_empty = isinstance(start, ast.List) and not start.elts
        return (name, value) if is_empty and value is not None else None

    def _fresh(self, name: str) -> str:
        number = 1
        while f"{name}{number}" in self._taken:
            number += 1
        self._taken.add(f"{name}{number}")
        return f"{name}{number}"


class _Substitution(ast.NodeTransformer):
    def __init__(self, known: Mapping[str, ast.expr | None]) -> None:
        self._known = known

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """A variable: what it stands for."""
        return self._known.get(node.id) or node


def _refusal(operation: Operation, construct: str, message: str) -> Refusal:
    return Refusal(NotAGraph(operation.line, construct, message))


def _described(site: Site) -> str:
    return f"line {site.line}: {site.text}"


def _names(node: ast.expr) -> set[str]:
    return {each.id for each in nodes_of([node]) if isinstance(each, ast.Name)}


def _list_of(values: ast.expr) -> ast.expr:
    return ast.Call(ast.Name("list", ast.Load()), [values], [])


def _literal(value: Any) -> ast.expr | None:
    """An input as an expression; None where it is too large to be written."""
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


def _bound_in(pure: Pure) -> Iterator[str]:
    """Names that an expression binds itself."""
    for node in nodes_of([pure.node]):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id


def _functions_and_bound(flow: Flow) -> Iterator[str]:
    """Names that mean something else within expressions."""
    for operation in operations_of(flow.body):
        for pure in pures_of(operation):
            yield from pure.expression.functions
            yield from _bound_in(pure)


def _step_names(flow: Flow) -> dict[str, str]:
    """What the program calls that which comes of each slot."""
    called: dict[str, Target] = {}
    found: dict[str, str] = {}
    for each in reversed(list(operations_of(flow.body))):
        if isinstance(each, Assign) and isinstance(each.value.node, ast.Name):
            called[each.value.node.id] = each.target
        elif isinstance(each, Finish):
            named: dict[str, Target] = {each.slot: called.get(each.variable, each.variable)}
            found |= {slot: name for slot, name in named.items() if isinstance(name, str) and name[0] != "$"}
        elif isinstance(each, Gather):
            target = called.get(each.variable)
            targets = target if isinstance(target, tuple) and len(target) == len(each.parts) else (target,)
            for part, name in zip(each.parts, targets, strict=False):
                if isinstance(name, str) and (part.spread or isinstance(target, tuple)):
                    found[part.slot] = name
        elif isinstance(each, Hold) and each.slot is not None and each.slots in found:
            found.setdefault(each.slot, found[each.slots])
    return found


def _seen_by(flow: Flow) -> dict[str, set[str]]:
    """For each variable those in which it shows when its value is changed in place."""
    seen: dict[str, set[str]] = {}

    def link(shown: Iterable[str], where: Iterable[str]) -> None:
        where = set(where)
        for name in shown:
            seen.setdefault(name, set()).update(where - {name})

    for each in operations_of(flow.body):
        stored = set(variables_of(each))
        if isinstance(each, Assign):
            read = each.value.expression.names
            if isinstance(each.target, Item):
                link(read, each.target.object.expression.names)
            elif not isinstance(each.value.node, ast.Constant | ast.BinOp | ast.Compare | ast.JoinedStr):
                link(read, stored)
                link(stored, read)
        elif isinstance(each, For):
            link(stored, each.values.expression.names)
        elif isinstance(each, Change):
            for argument in each.arguments:
                link(argument.expression.names, each.object.expression.names)
        elif isinstance(each, Finish):
            link(stored, [each.slot])
            link([each.slot], stored)
        elif isinstance(each, Gather):
            for part in each.parts:
                link(stored, [part.slot])
                link([part.slot], stored)
    return seen
