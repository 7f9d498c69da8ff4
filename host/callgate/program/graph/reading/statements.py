"""Statements without a block: assignments, prints, changes. `read` has the others."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Final

from callgate.plan.expressions.trees import nodes_of
from callgate.program.graph.flow import (
    Assign,
    Augment,
    Change,
    Has,
    Hold,
    Item,
    Print,
    Pure,
    Target,
)
from callgate.program.graph.reasons import Refusal

from .awaits import list_of_calls, started, starts
from .lift import Lifter
from .scope import Scope, refusal, written

__all__ = ["Statements", "name_of", "plain_type"]

_ITERATORS: Final = frozenset({"enumerate", "filter", "map", "reversed", "zip"})
_CHANGES: Final = frozenset({"append", "extend", "sort", "update"})
"""Methods that change their object and return None."""
_TYPES: Final = frozenset({"bool", "dict", "float", "int", "list", "object", "set", "str", "tuple"})
_GENERIC: Final = frozenset({"dict", "list", "set", "tuple"})


class Statements:
    """Reads statements one by one; their operations go to the lifter's block."""

    scope: Scope
    lifter: Lifter
    lists_of_calls: frozenset[str]
    """Names of lists that take calls which are not awaited yet."""

    def _value_of(self, node: ast.expr) -> Pure | None:
        """An expression as a statement. Returns its value; None for `print` and for methods that return None."""
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id == "print":
                self._print(node)
                return None
            if isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGES:
                self._change(node, node.func)
                return None
        self._check_kept(node)
        return self.lifter.value(node)

    def _expression(self, statement: ast.Expr) -> None:
        if isinstance(statement.value, ast.Constant):
            return
        value = self._value_of(statement.value)
        if value is not None and not isinstance(value.node, ast.Name):
            self.lifter.block.append(Assign(self.scope.fresh(), value, statement.lineno))

    def _assign(self, statement: ast.Assign) -> None:
        value = statement.value
        names = [target.id for target in statement.targets if isinstance(target, ast.Name)]
        if len(names) == 1 == len(statement.targets) and self._holds(names[0], value):
            return
        self._check_kept(value)
        pure = self.lifter.value(value)
        targets = statement.targets
        if len(targets) > 1 or any(map(self.lifter.calls, targets)):
            kept = self.lifter.keep(pure.node)
            pure = self.lifter.pure(kept, original=value)
        for target in targets:
            self.lifter.block.append(Assign(self._target(target), pure, target.lineno))

    def _check_kept(self, node: ast.expr) -> None:
        """Raise a `Refusal` if a variable would keep an iterator, which can be read only once."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _ITERATORS:
            raise refusal(node, "it can be read only once", f"write list({written(node)})")

    def _holds(self, name: str, value: ast.expr) -> bool:
        """Read a statement that names started calls without awaiting them. Returns False for any other statement."""
        lifter = self.lifter
        line = value.lineno
        if name in self.lists_of_calls and isinstance(value, ast.List) and not value.elts:
            lifter.block.append(Hold(name, None, line))
            self.scope.hold(name, "calls", line)
            return True
        if isinstance(value, ast.GeneratorExp) and starts(lifter, value.elt):
            raise refusal(value, "a generator starts its calls when it is read", "write a list, [...]")
        if started(lifter, value, name) is not None:
            self.scope.hold(name, "call", line)
        elif list_of_calls(lifter, value, name) is not None:
            self.scope.hold(name, "calls", line)
        else:
            return False
        return True

    def _annotated(self, statement: ast.AnnAssign) -> None:
        if (
            statement.value is None
            or not isinstance(statement.target, ast.Name)
            or not plain_type(statement.annotation)
        ):
            raise refusal(statement, "this annotation is evaluated", "leave it out")
        plain = ast.copy_location(ast.Assign([statement.target], statement.value), statement)
        self._assign(plain)

    def _augmented(self, statement: ast.AugAssign) -> None:
        lifter, line = self.lifter, statement.lineno
        target = statement.target
        if isinstance(target, ast.Name):
            self.scope.check_names([target.id], line)
            if target.id not in self.scope.variables:
                raise refusal(line, "an input is changed", "give it a name of its own first", what=written(statement))
            name = target.id
            self._check_operator(statement)
            if lifter.calls(statement.value):  # Python reads the variable first
                kept = self.scope.fresh()
                lifter.block.append(Assign(kept, lifter.pure(name_of(name, statement)), line))
                value = lifter.value(statement.value)
                lifter.block.append(Augment(kept, type(statement.op), value, line))
                lifter.block.append(Assign(name, lifter.pure(name_of(kept, statement)), line))
                return
            lifter.block.append(Augment(name, type(statement.op), lifter.value(statement.value), line))
            return
        if not isinstance(target, ast.Subscript) or isinstance(target.slice, ast.Slice):
            raise refusal(line, "this cannot be changed in a graph", "use variables and items", what=written(statement))
        self._check_operator(statement)
        holder, index = lifter.keep(target.value), lifter.keep(target.slice)
        item = ast.copy_location(ast.Subscript(holder, index, ast.Load()), target)
        kept = self.scope.fresh()
        lifter.block.append(Assign(kept, lifter.pure(item), line))
        lifter.block.append(Augment(kept, type(statement.op), lifter.value(statement.value), line))
        place = Item(lifter.pure(holder, original=target), lifter.pure(index, original=target))
        lifter.block.append(Assign(place, lifter.pure(name_of(kept, statement)), line))

    def _check_operator(self, statement: ast.AugAssign) -> None:
        """Raise a `Refusal` if the operator is also refused between two values."""
        plain = ast.BinOp(ast.Constant(0), statement.op, ast.Constant(0))
        try:
            self.lifter.pure(ast.copy_location(plain, statement))
        except Refusal as refused:
            reason = refused.reason
            raise refusal(statement, reason.message, reason.hint) from None

    def _target(self, node: ast.expr) -> Target:
        if isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Slice):
            return Item(self.lifter.value(node.value), self.lifter.value(node.slice))
        if isinstance(node, ast.Tuple | ast.List) and any(isinstance(each, ast.Subscript) for each in ast.walk(node)):
            raise refusal(node, "items among several targets", "assign them one by one")
        return self.lifter.target(node)

    def _print(self, node: ast.Call) -> None:
        ends = {"sep": " ", "end": "\n"}
        for keyword in node.keywords:
            value = keyword.value.value if isinstance(keyword.value, ast.Constant) else ...
            if keyword.arg in ends and (value is None or isinstance(value, str)):
                ends[keyword.arg] = ends[keyword.arg] if value is None else value
            elif keyword.arg != "flush" or not isinstance(value, bool):
                raise refusal(
                    node, "only constant sep= and end= are part of a graph", what=f"print({keyword.arg or '**'}=…)"
                )
        given = self.lifter.in_order(node.args)
        if any(isinstance(argument, ast.Starred) for argument in given):
            each = ast.comprehension(ast.Name("text", ast.Store()), ast.List(given, ast.Load()), [], 0)
            texts: ast.expr = ast.ListComp(_texted(ast.Name("text", ast.Load())), [each])
            # Python's words about what cannot be spread name the function
            made = replace(self.lifter.pure(ast.copy_location(texts, node), original=node), exact=False)
        else:
            texts = ast.List([_texted(argument) for argument in given], ast.Load())
            made = self.lifter.pure(ast.copy_location(texts, node), original=node)
        self.lifter.block.append(Print(made, ends["sep"], ends["end"], node.lineno))

    def _change(self, node: ast.Call, function: ast.Attribute) -> None:
        if function.end_lineno != node.lineno:
            raise refusal(node, "the method stands on another line", "write it on one line")
        lifter = self.lifter
        holder = function.value
        if isinstance(holder, ast.Name) and holder.id in self.scope.slots and function.attr == "append":
            slot = started(lifter, node.args[0]) if len(node.args) == 1 else None
            held = self.scope.slots[holder.id]
            if slot is None or held.kind != "calls" or held.awaited:
                raise refusal(node, "a list of calls takes calls, before it is awaited")
            lifter.block.append(Hold(holder.id, slot, node.lineno))
            return
        if function.attr == "sort":
            self._sort(node, holder)
            return
        for keyword in node.keywords:
            raise refusal(node, f"`{keyword.arg}=` is not part of a graph here")
        if any(isinstance(argument, ast.Starred) for argument in node.args):
            raise refusal(node, "`*` hides what the arguments are", "write them out")
        given = node.args
        if any(map(lifter.calls, given)):
            holder = lifter.keep(holder)
            lifter.block.append(Has(lifter.pure(holder, original=function), function.attr, node.lineno))
        made = lifter.in_order([holder, *given])
        target = lifter.pure(made[0], original=function.value)
        arguments = tuple(lifter.pure(each, original=was) for each, was in zip(made[1:], given, strict=True))
        if isinstance(target.node, ast.Name) and target.node.id not in self.scope.variables:
            raise refusal(node, "an input is changed", "make a copy: list(rows)")
        lifter.block.append(Change(target, function.attr, arguments, node.lineno))

    def _sort(self, node: ast.Call, holder: ast.expr) -> None:
        """``rows.sort(key=…)``: the list gets the order of `sorted(rows, key=…)`."""
        lifter = self.lifter
        names = {
            each.id for keyword in node.keywords for each in nodes_of([keyword.value]) if isinstance(each, ast.Name)
        }
        known = isinstance(holder, ast.Name) and holder.id in self.scope.variables and holder.id not in names
        if not known or node.args or not {keyword.arg for keyword in node.keywords} <= {"key", "reverse"}:
            hint = "write values = sorted(values, key=…)"
            raise refusal(node, "so it is not part of a graph", hint)
        lifter.block.append(Has(lifter.pure(holder), "sort", node.lineno))
        ordered = ast.Call(ast.copy_location(ast.Name("sorted", ast.Load()), node), [holder], node.keywords)
        name = self.scope.fresh()
        value = lifter.pure(ast.copy_location(ordered, node), original=node)
        lifter.block.append(Assign(name, value, node.lineno))
        made = lifter.pure(name_of(name, node), original=node)
        lifter.block.append(Change(lifter.pure(holder), "sort", (made,), node.lineno))


def name_of(name: str, at: ast.stmt | ast.expr) -> ast.Name:
    return ast.copy_location(ast.Name(name, ast.Load()), at)


def _texted(node: ast.expr) -> ast.expr:
    """`str(node)`."""
    return ast.JoinedStr([ast.FormattedValue(node, ord("s"), None)])


def plain_type(node: ast.expr) -> bool:
    """Whether evaluating an annotation can neither fail nor do anything."""
    if isinstance(node, ast.Constant):
        return node.value is None
    if isinstance(node, ast.Name):
        return node.id in _TYPES
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in _GENERIC:
        inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return all(map(plain_type, inner))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return plain_type(node.left) and plain_type(node.right) and not isinstance(node.left, ast.Constant)
    return False
