"""Programs as other interpreters want them: without coroutines, with `call_tool`, ending in `return` or `print`.

It rewrites what the workloads' programs have, and refuses what it does not know rather than change its meaning.
"""

from __future__ import annotations

import ast
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

__all__ = ["DIALECTS", "rewrite"]

_Ending = Literal["value", "return", "print", "final_answer"]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Dialect:
    """Whether calls are awaited, how tools are called, the object whose methods they are, and what becomes of the last
    expression."""

    awaits: bool = True
    call_tool: bool = False
    namespace: str = ""
    ending: _Ending = "value"


DIALECTS: dict[str, _Dialect] = {
    "callgate": _Dialect(),
    "return": _Dialect(ending="return"),
    "print": _Dialect(ending="print"),
    "call-tool": _Dialect(call_tool=True, ending="return"),
    "sync": _Dialect(awaits=False),
    "sync-return": _Dialect(awaits=False, ending="return"),
    "sync-print": _Dialect(awaits=False, ending="print"),
    "sync-final": _Dialect(awaits=False, ending="final_answer"),
    "utcp": _Dialect(awaits=False, ending="return", namespace="tools"),
}
"""By name. `callgate`: as written. `call-tool`: ``await call_tool("name", {...})``, and `return`. `sync`: no `await`;
`asyncio.gather` is a list. `final`: the answer, but nothing else, is given to ``final_answer``. `utcp`:
`sync-return` with the tools as methods of ``tools``."""


def rewrite(program: str, dialect: str, tools: Collection[str]) -> str:
    """A program of a workload in another dialect.

    Args:
        program: as `ProgramScript` has it.
        dialect: a name of `DIALECTS`.
        tools: the names of the tools that it may call.

    Raises:
        ValueError: there is no such dialect, or the program has something that cannot be said in it.
    """
    wanted = DIALECTS.get(dialect)
    if wanted is None:
        raise ValueError(f"there is no dialect {dialect!r}; there are: {', '.join(DIALECTS)}")
    if wanted == DIALECTS["callgate"]:
        return program
    tree: ast.AST = ast.parse(program)
    if wanted.call_tool:
        tree = _CallTool(frozenset(tools)).visit(tree)
    if wanted.namespace:
        tree = _Namespace(frozenset(tools), wanted.namespace).visit(tree)
    if not wanted.awaits:
        tree = _Sync().visit(tree)
    assert isinstance(tree, ast.Module)
    _end(tree, wanted.ending)
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def _end(tree: ast.Module, ending: _Ending) -> None:
    last = tree.body[-1]
    if not isinstance(last, ast.Expr):
        raise ValueError(f"line {last.lineno}: the program does not end in an expression")
    if ending == "return":
        tree.body[-1] = ast.Return(last.value)
    elif ending == "print" or (ending == "final_answer" and "answer: " in ast.unparse(last)):
        last.value = ast.Call(ast.Name(ending, ast.Load()), [last.value], [])


class _CallTool(ast.NodeTransformer):
    def __init__(self, tools: frozenset[str]) -> None:
        self._tools = tools

    def visit_Name(self, node: ast.Name) -> ast.Name:
        if node.id in self._tools:
            raise ValueError(f"line {node.lineno}: {node.id} stands for itself, and is not called")
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if not (isinstance(node.func, ast.Name) and node.func.id in self._tools):
            return self.generic_visit(node)
        for keyword in node.keywords:
            self.visit(keyword)
        if node.args or any(keyword.arg is None for keyword in node.keywords):
            raise ValueError(f"line {node.lineno}: {node.func.id} is called with arguments that have no name")
        names: list[ast.expr | None] = [ast.Constant(keyword.arg) for keyword in node.keywords]
        arguments = ast.Dict(names, [keyword.value for keyword in node.keywords])
        return ast.Call(ast.Name("call_tool", ast.Load()), [ast.Constant(node.func.id), arguments], [])


class _Namespace(ast.NodeTransformer):
    def __init__(self, tools: frozenset[str], namespace: str) -> None:
        self._tools, self._namespace = tools, namespace

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id not in self._tools:
            return node
        if not isinstance(node.ctx, ast.Load):
            raise ValueError(f"line {node.lineno}: {node.id} is a tool, and is given another meaning")
        return ast.Attribute(ast.Name(self._namespace, ast.Load()), node.id, ast.Load())


class _Sync(ast.NodeTransformer):
    def visit_Await(self, node: ast.Await) -> ast.expr:
        value: ast.expr = self.visit(node.value)
        return value

    def visit_Import(self, node: ast.Import) -> ast.Import | None:
        node.names = [name for name in node.names if name.name != "asyncio"]
        return node if node.names else None

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        return ast.FunctionDef(node.name, node.args, node.body, node.decorator_list, node.returns)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if not (isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) == "asyncio"):
            return node
        if node.func.attr != "gather" or node.keywords:
            raise ValueError(f"line {node.lineno}: {ast.unparse(node)} has no form without coroutines")
        return _listed(node.args)

    def visit_AsyncFor(self, node: ast.AsyncFor) -> ast.AST:
        raise ValueError(f"line {node.lineno}: `async for` has no form without coroutines")

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        if node.is_async:
            raise ValueError(f"line {node.target.lineno}: `async for` has no form without coroutines")
        return self.generic_visit(node)

    def visit_AsyncWith(self, node: ast.AsyncWith) -> ast.AST:
        raise ValueError(f"line {node.lineno}: `async with` has no form without coroutines")


def _listed(arguments: list[ast.expr]) -> ast.expr:
    """``[a, b]`` of ``a, b``; a list comprehension of a starred generator, which every interpreter has."""
    if len(arguments) == 1 and isinstance(arguments[0], ast.Starred):
        items = arguments[0].value
        if isinstance(items, ast.GeneratorExp):
            return ast.ListComp(items.elt, items.generators)
        return ast.Call(ast.Name("list", ast.Load()), [items], [])
    return ast.List(arguments, ast.Load())
