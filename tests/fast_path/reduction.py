"""Making a program smaller that shows a difference, as long as it still shows it. Knows Python's trees, no paths."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from functools import partial

__all__ = ["reduced"]

_MOST_TRIES = 400


def reduced(source: str, still_shows: Callable[[str], bool]) -> str:
    """A program that cannot be made smaller by one more step, or by so many tries.

    Args:
        source: a program for which `still_shows` is true.
        still_shows: runs a program.
    """
    tries = 0
    smaller = True
    while smaller:
        smaller = False
        for candidate in _candidates(source):
            if tries >= _MOST_TRIES:
                return source
            if len(candidate) < len(source) and _is_program(candidate):
                tries += 1
                if still_shows(candidate):
                    source, smaller = candidate, True
                    break
    return source


def _is_program(source: str) -> bool:
    try:
        compile(source, "<program>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST)
    except (SyntaxError, ValueError):
        return False
    return True


def _candidates(source: str) -> Iterator[str]:
    lines = source.splitlines(keepends=True)
    for size in (len(lines) // 2, len(lines) // 4, 1):
        for start in range(0, len(lines), max(size, 1)):
            yield "".join(lines[:start] + lines[start + max(size, 1) :])
    tree = ast.parse(source)
    for count in range(sum(1 for _ in _fewer(copy.deepcopy(tree)))):
        changed = copy.deepcopy(tree)
        edits = _fewer(changed)
        for _ in range(count + 1):
            edit = next(edits)
        edit()
        try:
            yield ast.unparse(ast.fix_missing_locations(changed)) + "\n"
        except (ValueError, RecursionError):
            continue


def _fewer(tree: ast.AST) -> Iterator[Callable[[], object]]:
    """What could be left out of a tree: each statement and element, and whatever is around an inner expression."""
    for node in ast.walk(tree):
        for name, value in ast.iter_fields(node):
            if isinstance(value, ast.expr):
                for inner in _simpler(value):
                    yield partial(setattr, node, name, inner)
            for place, item in enumerate(value if isinstance(value, list) else ()):
                if isinstance(item, ast.stmt):
                    yield partial(value.__delitem__, place)
                    for block in (getattr(item, "body", None), getattr(item, "orelse", None)):
                        if block:
                            yield partial(value.__setitem__, slice(place, place + 1), block)
                elif isinstance(item, ast.expr):
                    if not isinstance(node, ast.Dict | ast.Compare):
                        yield partial(value.__delitem__, place)
                    for inner in _simpler(item):
                        yield partial(value.__setitem__, place, inner)


def _simpler(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.Constant | ast.Name):
        return
    yield ast.Constant(1)
    for child in ast.walk(node):
        if child is not node and isinstance(child, ast.expr) and not isinstance(child, ast.Slice | ast.Starred):
            yield child
