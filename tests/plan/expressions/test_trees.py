"""Trees gone through by tables: the same nodes that `ast.walk` finds, whatever the syntax."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from callgate.plan.expressions.trees import nodes_of

LIBRARY = Path(ast.__file__).parent
FILES = ["ast.py", "asyncio/tasks.py", "dataclasses.py", "enum.py", "typing.py"]
LEFT_OUT = (ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop)
SOURCES = {
    "match": "match x:\n    case {'a': [1, *rest], **others}: pass\n    case A(b=c) | None: pass\n    case True: pass",
    "names": "def f():\n    global a, b\n    import c as d\n"
    "    from e import f as g\ntry:\n    pass\nexcept* E as e:\n    raise",
    "texts": "f'{a!r:>{b}} {c}'\nd: int = {**e, 'f': lambda *g, h=1, **i: (yield)}",
}
if sys.version_info >= (3, 12):
    SOURCES["types"] = "type A[T: int, *U, **V] = list[T]\ndef f[T](x: T): pass"


@pytest.mark.parametrize("name", [*FILES, *SOURCES])
def test_the_nodes_are_those_of_ast_walk(name: str) -> None:
    tree = ast.parse(SOURCES[name] if name in SOURCES else (LIBRARY / name).read_text())
    expected = {id(node) for node in ast.walk(tree) if not isinstance(node, LEFT_OUT)}
    found = nodes_of([tree])
    assert {id(node) for node in found} == expected
    assert len(found) == len(expected)


def test_of_a_large_tree_only_so_many_are_found() -> None:
    tree = ast.parse("x = 1\n" * 1000)
    assert 100 < len(nodes_of([tree], 100)) < 1200
