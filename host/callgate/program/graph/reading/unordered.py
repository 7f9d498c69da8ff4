"""Where the order of a set could be seen: it differs from process to process, so the sandbox has to be asked.

A set, and a list or generator made by going through one, may be counted, sorted, searched, compared and combined.
Printed, looped over or handed on it would show an order. Silent about sets that come about in ways not known here.
"""

from __future__ import annotations

import ast
from itertools import islice
from typing import Final

from callgate.program.graph.reasons import MOST_REASONS, NotAGraph

from .scope import written

__all__ = ["may_have_sets", "visible_orders"]

_OPERATORS: Final = (ast.BitAnd, ast.BitOr, ast.BitXor, ast.Sub)
_VIEWS: Final = frozenset({"keys", "items"})
_BLIND: Final = frozenset({"bool", "len", "max", "min", "set", "sorted"})
"""Functions whose result is the same for every order."""
_MOST_ROUNDS: Final = 20
_CHANGES: Final = frozenset({"add", "clear", "discard", "update"})


def may_have_sets(nodes: list[ast.AST]) -> bool:
    """Whether a set could come about in a program; `nodes` are all of its tree."""
    return any(
        isinstance(node, ast.Set | ast.SetComp)
        or (isinstance(node, ast.Name) and node.id == "set")
        or (
            isinstance(node, ast.BinOp)
            and isinstance(node.op, _OPERATORS)
            and (_is_view(node.left) or _is_view(node.right))
        )
        for node in nodes
    )


def visible_orders(tree: ast.Module, nodes: list[ast.AST]) -> list[NotAGraph]:
    """A reason for each place where the order of a set could be seen; `nodes` are all of the tree."""
    names = _names_of_sets(nodes)
    if names is None:
        return [NotAGraph(1, "the program", "sets go through too many variables", "use fewer")]
    parents = {child: node for node in nodes for child in ast.iter_child_nodes(node)}
    shown = (
        node
        for node in nodes
        if isinstance(node, ast.expr) and _is_unordered(node, names) and not _hidden(node, parents, tree)
    )
    return [
        NotAGraph(node.lineno, written(node), "the order of a set differs from run to run", "write sorted(…)")
        for node in islice(shown, MOST_REASONS)
    ]


def _names_of_sets(nodes: list[ast.AST]) -> frozenset[str] | None:
    """Variables that a set is assigned to somewhere; None where that takes too long to find out."""
    assigned: list[tuple[list[str], ast.expr]] = []
    for node in nodes:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            assigned.append(([target.id for target in targets if isinstance(target, ast.Name)], node.value))
    names: frozenset[str] = frozenset()
    for _ in range(_MOST_ROUNDS):
        found = names.union(*(targets for targets, value in assigned if _is_unordered(value, names)))
        if len(found) == len(names):
            return names
        names = found
    return None


def _is_unordered(node: ast.expr, names: frozenset[str]) -> bool:
    if isinstance(node, ast.Set | ast.SetComp):
        return True
    if isinstance(node, ast.Name):
        return node.id in names and isinstance(node.ctx, ast.Load)
    if isinstance(node, ast.Call):
        function = node.func
        if any(isinstance(argument, ast.Name) and argument.id == "set" for argument in node.args):
            return True  # map(set, …)
        if isinstance(function, ast.Attribute):
            return function.attr == "copy" and _is_unordered(function.value, names)
        return isinstance(function, ast.Name) and function.id == "set"
    if isinstance(node, ast.BinOp) and isinstance(node.op, _OPERATORS):
        return any(_is_unordered(side, names) or _is_view(side) for side in (node.left, node.right))
    if isinstance(node, ast.ListComp | ast.GeneratorExp):
        return any(_is_unordered(clause.iter, names) for clause in node.generators)
    return False


def _is_view(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _VIEWS


def _hidden(node: ast.expr, parents: dict[ast.AST, ast.AST], tree: ast.Module) -> bool:
    parent = parents.get(node)
    if isinstance(parent, ast.Assign):
        return all(isinstance(target, ast.Name) for target in parent.targets)
    if isinstance(parent, ast.AnnAssign):
        return isinstance(parent.target, ast.Name)
    if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Name):
        ties = any(keyword.arg != "reverse" for keyword in parent.keywords)
        return parent.func.id in _BLIND and parent.args == [node] and not ties
    if isinstance(parent, ast.Compare):
        return True
    if isinstance(parent, ast.BinOp):
        return isinstance(parent.op, _OPERATORS)
    if isinstance(parent, ast.Attribute):
        return parent.attr in _CHANGES | {"copy"}
    if isinstance(parent, ast.comprehension):
        made = parents[parent]
        return not isinstance(made, ast.DictComp) and not any(isinstance(each, ast.Await) for each in ast.walk(made))
    if isinstance(parent, ast.If | ast.IfExp):
        return parent.test is node
    if isinstance(parent, ast.UnaryOp):
        return isinstance(parent.op, ast.Not)
    return isinstance(parent, ast.Expr) and parent is not tree.body[-1]
