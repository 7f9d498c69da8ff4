"""The rounds of loops as clauses of a comprehension, and the results of the calls made in them.

A step within loops makes one call for each row, in order, so that its result has one item for each row: ``zip`` puts
the two together again. Knows expressions; no operations.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Final

from callgate.plan.expressions.trees import children_of, nodes_of

from .symbols import Symbol

__all__ = ["Rows", "Unaligned", "clauses", "free_names", "is_known", "levels", "list_of", "pattern", "visible"]

_MOST_TARGETS: Final = 6


class Unaligned(Exception):
    """Results of an inner loop are wanted for each row of an outer one."""


@dataclass(slots=True, eq=False)
class Rows:
    """The rows of a loop, or those of them that a condition chooses."""

    outer: Rows | None
    values: Symbol
    """What the loop goes over; or the condition."""
    target: ast.expr | None = None
    """The variables of the loop; None for a condition."""
    variables: tuple[str, ...] = ()
    results: dict[str, str] = field(default_factory=dict)
    """Calls made for each of these rows: the variable for one result, and the step."""


def is_known(rows: Rows | None, outer: Rows | None = None) -> Symbol | None:
    """The first of the rows' expressions that is not known; None where all are."""
    while rows is not outer and rows is not None:
        if rows.values.node is None:
            return rows.values
        rows = rows.outer
    return None


def levels(rows: Rows | None) -> int:
    """How many there are, one around the other."""
    count = 0
    while rows is not None:
        rows, count = rows.outer, count + 1
    return count


def list_of(element: ast.expr, names: frozenset[str], rows: Rows | None, outer: Rows | None) -> ast.expr:
    """The list of an expression's values, one for each row.

    Args:
        element: the expression.
        names: its free names.
        rows: for which it is evaluated.
        outer: rows around these, whose variables have values already.

    Raises:
        Unaligned: it cannot be written so.
    """
    if rows is outer:
        return ast.List([element], ast.Load())
    made = clauses(rows, names, outer)
    (first, *others) = made
    target = first.target.id if isinstance(first.target, ast.Name) else None
    if not others and not first.ifs and isinstance(element, ast.Name) and element.id == target:
        return first.iter if _is_list(first.iter, rows) else _call("list", first.iter)
    return ast.ListComp(element, made)


def clauses(rows: Rows | None, names: frozenset[str], outer: Rows | None) -> list[ast.comprehension]:
    """The clauses that give the rows with those of their variables that are among `names`, and others perhaps."""
    if rows is outer or rows is None:
        return []
    results = [variable for variable in rows.results if variable in names]
    if not results:
        return _plain(rows, names, outer)
    if outer is not None:
        raise Unaligned
    before = [name for name in visible(rows) if name in names and name not in results]
    columns: list[tuple[ast.expr, ast.expr]] = [
        (ast.Name(name, ast.Store()), ast.Name(rows.results[name], ast.Load())) for name in results
    ]
    if before and rows.target is not None and rows.outer is None:
        assert rows.values.node is not None
        columns.insert(0, (rows.target, rows.values.node))
    elif before:
        values = ast.ListComp(pattern(before, ast.Load()), _plain(rows, frozenset(before), None))
        columns.insert(0, (pattern(before, ast.Store()), values))
    return [_zipped(columns)]


def _plain(rows: Rows, names: frozenset[str], outer: Rows | None) -> list[ast.comprehension]:
    """The same without the results of calls made for these rows."""
    assert rows.values.node is not None
    before = clauses(rows.outer, names | rows.values.names, outer)
    if rows.target is not None:
        return [*before, ast.comprehension(rows.target, rows.values.node, [], 0)]
    last = before.pop()
    return [*before, ast.comprehension(last.target, last.iter, [*last.ifs, rows.values.node], 0)]


def visible(rows: Rows | None) -> list[str]:
    """All variables of these rows and those around them."""
    found: list[str] = []
    while rows is not None:
        found = [*rows.variables, *rows.results, *found]
        rows = rows.outer
    return found


def _zipped(columns: list[tuple[ast.expr, ast.expr]]) -> ast.comprehension:
    while len(columns) > _MOST_TARGETS:
        columns = [_together(columns[start : start + _MOST_TARGETS]) for start in range(0, len(columns), _MOST_TARGETS)]
    target, values = _together(columns)
    return ast.comprehension(target, values, [], 0)


def _together(columns: list[tuple[ast.expr, ast.expr]]) -> tuple[ast.expr, ast.expr]:
    if len(columns) == 1:
        return columns[0]
    targets, values = zip(*columns, strict=True)
    return ast.Tuple(list(targets), ast.Store()), _call("zip", *values)


def pattern(names: list[str], context: ast.expr_context) -> ast.expr:
    """The names as a tuple, of tuples where they are many; a name alone as it is."""
    parts: list[ast.expr] = [ast.Name(name, context) for name in names]
    while len(parts) > _MOST_TARGETS:
        groups = [parts[start : start + _MOST_TARGETS] for start in range(0, len(parts), _MOST_TARGETS)]
        parts = [group[0] if len(group) == 1 else ast.Tuple(group, context) for group in groups]
    return parts[0] if len(parts) == 1 else ast.Tuple(parts, context)


def free_names(node: ast.AST) -> frozenset[str]:
    """The names that an expression reads and does not bind. Functions are among them."""
    found: set[str] = set()
    _note_free(node, frozenset(), found)
    return frozenset(found)


def _note_free(node: ast.AST, bound: frozenset[str], found: set[str]) -> None:
    if isinstance(node, ast.Name):
        if node.id not in bound and isinstance(node.ctx, ast.Load):
            found.add(node.id)
        return
    if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
        first = node.generators[0]
        _note_free(first.iter, bound, found)
        targets = nodes_of(clause.target for clause in node.generators)
        bound |= {each.id for each in targets if isinstance(each, ast.Name)}
        for each in children_of(node):
            if each is not first:
                _note_free(each, bound, found)
        for test in first.ifs:
            _note_free(test, bound, found)
        return
    if isinstance(node, ast.Lambda):
        bound |= {argument.arg for argument in node.args.args}
    for each in children_of(node):
        _note_free(each, bound, found)


def _is_list(node: ast.expr, rows: Rows | None) -> bool:
    """Whether the value is a list for certain."""
    if isinstance(node, ast.List | ast.ListComp):
        return True
    if isinstance(node, ast.Name):
        return rows is not None and node.id in rows.results.values()
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("list", "sorted")


def _call(name: str, *arguments: ast.expr) -> ast.expr:
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])
