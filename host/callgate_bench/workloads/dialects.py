"""Programs as other interpreters want them: without coroutines, with `call_tool`, ending in `return`.

It rewrites what the workloads' programs have: calls of tools with named arguments, `asyncio.gather`, coroutines. A
test runs every program without coroutines, and holds what it gives against the right answer.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Collection

__all__ = ["DIALECTS", "rewrite"]

DIALECTS = ("callgate", "final", "call-tool", "sync-final")
"""``callgate``: as written. ``final``: the same, and the answer, but nothing else, is given to ``final_answer``.
``call-tool``: ``await call_tool("name", {...})``, and `return` at the end. ``sync-final``: no `await`, `asyncio.gather`
is a list, and the answer is given to ``final_answer``."""


def rewrite(program: str, dialect: str, tools: Collection[str]) -> str:
    """A program of a workload in another dialect.

    Args:
        program: as `ProgramScript` has it.
        dialect: one of `DIALECTS`.
        tools: the names of the tools that it may call.

    Raises:
        ValueError: there is no such dialect, or the program has another function of asyncio, or no last expression.
    """
    if dialect not in DIALECTS:
        raise ValueError(f"there is no dialect {dialect!r}; there are: {', '.join(DIALECTS)}")
    if dialect == "callgate":
        return program
    rewriting = {"call-tool": _CallTool(tools), "sync-final": _Sync(), "final": ast.NodeTransformer()}[dialect]
    tree: ast.Module = rewriting.visit(ast.parse(program))
    last = tree.body[-1]
    if not isinstance(last, ast.Expr):
        raise ValueError(f"line {last.lineno}: the program does not end in an expression")
    if dialect == "call-tool":
        tree.body[-1] = ast.Return(last.value)
    elif "answer: " in ast.unparse(last):
        last.value = ast.Call(ast.Name("final_answer", ast.Load()), [last.value], [])
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


class _CallTool(ast.NodeTransformer):
    def __init__(self, tools: Collection[str]) -> None:
        self._tools = tools

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if not (isinstance(node.func, ast.Name) and node.func.id in self._tools):
            return self.generic_visit(node)
        self.generic_visit(node)
        if node.args or any(keyword.arg is None for keyword in node.keywords):
            raise ValueError(f"line {node.lineno}: {node.func.id} is called with arguments that have no name")
        names: list[ast.expr | None] = [ast.Constant(keyword.arg) for keyword in node.keywords]
        arguments = ast.Dict(names, [keyword.value for keyword in node.keywords])
        return ast.Call(ast.Name("call_tool", ast.Load()), [ast.Constant(node.func.id), arguments], [])


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
        made = [each.value for each in node.args if isinstance(each, ast.Starred)]
        lists: list[ast.expr] = [
            ast.ListComp(each.elt, each.generators) for each in made if isinstance(each, ast.GeneratorExp)
        ]
        if node.func.attr != "gather" or not lists or len(lists) != len(node.args):
            raise ValueError(f"line {node.lineno}: {ast.unparse(node)} has no form without coroutines")
        return functools.reduce(lambda left, right: ast.BinOp(left, ast.Add(), right), lists[1:], lists[0])
