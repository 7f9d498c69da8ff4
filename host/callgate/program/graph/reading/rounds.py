"""Comprehensions that make calls, read as loops. Their variables are renamed: they do not exist outside."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace

from callgate.program.graph.flow import Assign, Change, For, If, Item

from .lift import Lifter
from .renaming import renamed
from .scope import refusal

__all__ = ["comprehension", "rounds"]

Comprehension = ast.ListComp | ast.DictComp | ast.GeneratorExp


def comprehension(lifter: Lifter, node: Comprehension) -> ast.expr:
    if isinstance(node, ast.GeneratorExp):
        raise refusal(node, "a generator that awaits is asynchronous", "write a list, [...]")
    name = lifter.scope.fresh()
    made = ast.copy_location(ast.Name(name, ast.Load()), node)
    is_dict = isinstance(node, ast.DictComp)
    empty: ast.expr = ast.Dict([], []) if is_dict else ast.List([], ast.Load())
    elements = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
    lifter.block.append(Assign(name, lifter.pure(ast.copy_location(empty, node)), node.lineno))

    def add(element: list[ast.expr]) -> None:
        lifted = lifter.in_order(element)
        values = [lifter.pure(each, original=was) for each, was in zip(lifted, element, strict=True)]
        target = lifter.pure(made)
        line = element[-1].lineno
        if is_dict:
            lifter.block.append(Assign(Item(target, values[0]), values[1], line))
        else:
            lifter.block.append(Change(target, "append", (values[0],), line))

    rounds(lifter, node, elements, add)
    return made


def rounds(
    lifter: Lifter, node: Comprehension, elements: list[ast.expr], add: Callable[[list[ast.expr]], None]
) -> None:
    """Make the loops of a comprehension, with its variables renamed. `add` makes the innermost operations."""
    lifter.pay(node)
    names: dict[str, str] = {}
    clauses = node.generators
    for clause in clauses:
        if clause.is_async:
            raise refusal(node, "`async for` is not part of a graph")
        for each in ast.walk(clause.target):
            if isinstance(each, ast.Name):
                name = names.setdefault(each.id, lifter.scope.fresh(each.id))
                lifter.scope.variables.discard(name)  # until its clause binds it

    def clause_of(index: int) -> None:
        if index == len(clauses):
            add([renamed(element, names) for element in elements])
            return
        clause = clauses[index]
        values = lifter.value(clause.iter if index == 0 else renamed(clause.iter, names))
        if clause.iter.lineno != node.lineno:
            values = replace(values, exact=False)
        target = lifter.target(renamed(clause.target, names))
        with lifter.nested(node.lineno) as body:
            conditions(index, [renamed(test, names) for test in clause.ifs])
        lifter.block.append(For(target, values, tuple(body), clause.target.lineno))

    def conditions(index: int, tests: list[ast.expr]) -> None:
        if not tests:
            clause_of(index + 1)
            return
        test = lifter.value(tests[0])
        with lifter.nested(node.lineno) as body:
            conditions(index, tests[1:])
        lifter.block.append(If(test, tuple(body), (), test.line))

    clause_of(0)
