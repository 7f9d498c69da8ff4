"""Copies of expressions with other names for some variables. Follows Python's scopes: an inner variable of the same
name keeps its name."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Final, TypeVar

from callgate.plan.expressions.trees import nodes_of

__all__ = ["renamed", "with_lambdas"]

Node = TypeVar("Node", bound=ast.AST)
_KEY: Final = "a_key"


def renamed(node: Node, names: Mapping[str, str]) -> Node:
    """A copy of the tree with other names; the original stays as it is."""
    made = _Renaming(names).visit(_copy(node))
    assert isinstance(made, type(node))
    return made


def with_lambdas(node: Node) -> tuple[Node, list[ast.Name]]:
    """A copy that writes ``key=table.get`` as ``key=lambda a_key: table.get(a_key)``, and the tables."""
    made, holders = _copy(node), []
    for each in nodes_of([made]):
        for keyword in each.keywords if isinstance(each, ast.Call) else ():
            method = keyword.value
            if keyword.arg == "key" and isinstance(method, ast.Attribute) and isinstance(method.value, ast.Name):
                if method.attr != "get" or method.value.id == _KEY:
                    continue
                holders.append(method.value)
                given = ast.arguments([], [ast.arg(_KEY)], None, [], [], None, [])
                body = ast.Call(method, [ast.Name(_KEY, ast.Load())], [])
                keyword.value = ast.copy_location(ast.Lambda(given, body), method)
    return made, holders


def _copy(node: Node) -> Node:
    """A deep copy, without `copy.deepcopy`'s cost."""
    if isinstance(node, ast.expr_context | ast.operator | ast.unaryop | ast.boolop | ast.cmpop):
        return node
    fields = {}
    for name, value in ast.iter_fields(node):
        if isinstance(value, ast.AST):
            value = _copy(value)
        elif isinstance(value, list):
            value = [_copy(each) if isinstance(each, ast.AST) else each for each in value]
        fields[name] = value
    return ast.copy_location(type(node)(**fields), node)


class _Renaming(ast.NodeTransformer):
    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = dict(names)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self._names.get(node.id, node.id)
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        inner = self._without({argument.arg for argument in node.args.args})
        node.body = inner.visit(node.body)
        return node

    def _comprehension(self, node: ast.AST) -> ast.AST:
        assert isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp)
        bound = {
            each.id for clause in node.generators for each in ast.walk(clause.target) if isinstance(each, ast.Name)
        }
        inner = self._without(bound)
        first = node.generators[0]
        first.iter = self.visit(first.iter)  # it is evaluated outside
        for index, clause in enumerate(node.generators):
            if index:
                clause.iter = inner.visit(clause.iter)
            clause.ifs = [inner.visit(test) for test in clause.ifs]
        if isinstance(node, ast.DictComp):
            node.key, node.value = inner.visit(node.key), inner.visit(node.value)
        else:
            node.elt = inner.visit(node.elt)
        return node

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    def _without(self, names: set[str]) -> _Renaming:
        return _Renaming({name: to for name, to in self._names.items() if name not in names})
