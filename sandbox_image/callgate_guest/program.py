"""A program: source to code, code to value or error. Knows Python's rules for both and nothing of the wire.

Top-level ``await`` is compiled as CPython's own flag allows it. A top-level ``return`` is not legal anywhere in
Python, so a program that has one is wrapped in a function whose names are all declared global: it behaves as a module
does.
"""

from __future__ import annotations

import ast
import linecache
import sys
import traceback
import types
from collections.abc import Iterable, Iterator
from typing import Any

from .link import encode
from .wire import PROGRAM_NAME

VALUE = "__callgate_value__"
_TEXT_LIMIT = 65536  # characters of a message, a traceback or a repr that leave the guest
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


class Program:
    """One program, compiled. `code` evaluates to a coroutine when `is_async`. Raises `SyntaxError` as Python does."""

    def __init__(self, source: str, name: str = PROGRAM_NAME) -> None:
        source = source.removeprefix("\ufeff")
        lines = source.splitlines(keepends=True)
        linecache.cache[name] = (len(source), None, lines, name)
        tree = ast.parse(source, name)
        if tree.body and isinstance(tree.body[-1], ast.Expr):
            last = tree.body[-1]
            target = ast.copy_location(ast.Name(VALUE, ast.Store()), last)
            tree.body[-1] = ast.copy_location(ast.Assign([target], last.value), last)
        if any(isinstance(node, ast.Return) for node in _own_nodes(tree.body)):
            self.code = _as_function(tree, name)
        else:
            self.code = compile(tree, name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        self.is_async = bool(self.code.co_flags & 0x80)


def _own_nodes(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Every node of `body` that is not inside a function, class or lambda of its own."""
    stack = list(body)
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, _FUNCTIONS):
            stack.extend(ast.iter_child_nodes(node))


class _ReturnsValue(ast.NodeTransformer):
    """Top-level ``return x`` stores x as the program's value first; annotations of globals are dropped."""

    def visit_Return(self, node: ast.Return) -> Any:
        value = node.value or ast.copy_location(ast.Constant(None), node)
        store = ast.Assign([ast.Name(VALUE, ast.Store())], value)
        return [ast.copy_location(store, node), ast.copy_location(ast.Return(None), node)]

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        return ast.copy_location(ast.Assign([node.target], node.value), node)

    def _leave(self, node: ast.AST) -> ast.AST:
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = _leave


def _as_function(tree: ast.Module, name: str) -> types.CodeType:
    names = {VALUE}
    nodes = list(_own_nodes(tree.body))
    for node in nodes:
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names.update(alias.asname or alias.name.partition(".")[0] for alias in node.names if alias.name != "*")
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
            names.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            names.add(node.rest)
    waits = any(isinstance(node, (ast.Await, ast.AsyncFor, ast.AsyncWith)) for node in nodes) or any(
        isinstance(node, ast.comprehension) and node.is_async for node in nodes
    )
    _ReturnsValue().visit(tree)
    outer = ast.parse(("async " if waits else "") + "def _program(): pass")
    function = outer.body[0]
    assert isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
    function.body = [ast.Global(sorted(names)), *tree.body]
    module = compile(ast.fix_missing_locations(outer), name, "exec", dont_inherit=True)
    code = next(constant for constant in module.co_consts if isinstance(constant, types.CodeType))
    return code.replace(co_name="<module>", co_qualname="<module>")


def value_of(namespace: dict[str, Any]) -> str:
    """The members of the reply that carry the program's value: as JSON, or as text where it is none."""
    value = namespace.pop(VALUE, None)
    if type(value).__name__ == "ToolCall" and type(value).__module__.startswith("callgate_guest"):
        raise value._not_awaited()
    try:
        return f'"value":{encode(value)}'
    except (TypeError, ValueError, RecursionError):
        return f'"value":null,"value_repr":{encode(_cut(safe_repr(value)))}'


def safe_repr(value: object) -> str:
    try:
        return repr(value)
    except Exception as error:
        return f"<{type(value).__name__} whose repr() raised {type(error).__name__}>"


def _cut(text: str) -> str:
    if len(text) <= _TEXT_LIMIT:
        return text
    half = _TEXT_LIMIT // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters cut ...\n{text[-half:]}"


def describe(error: BaseException) -> dict[str, Any]:
    """What the host is told of an error that ended the program: kind, message, line, the program's own frames."""
    try:
        told = traceback.TracebackException.from_exception(error, limit=None, compact=True)
        line = _prune(told)
        text = "".join(told.format())
    except Exception as failure:  # an exception made to break its own formatting
        line, text = None, f"{type(error).__name__}: (its traceback could not be formatted: {type(failure).__name__})\n"
    try:
        message = str(error)
    except Exception:
        message = "<exception whose str() raised>"
    if isinstance(error, SyntaxError):
        line, message = error.lineno, error.msg or message
    kind = "".join(c for c in type(error).__name__ if c.isidentifier() or c.isdigit())[:200] or "Exception"
    told_of: dict[str, Any] = {"kind": kind, "message": _cut(message), "line": line, "traceback": _cut(text)}
    if isinstance(error, OSError):
        told_of["errno"] = error.errno
    for field in ("tool", "code", "data", "retryable"):
        if kind == "ToolError" and hasattr(error, field):
            told_of[field] = getattr(error, field)
    return told_of


def _prune(told: traceback.TracebackException) -> int | None:
    """Leave only the program's own frames, in this exception and all it was chained to. Returns the innermost line."""
    seen: list[traceback.TracebackException] = []
    stack = [told]
    while stack:
        each = stack.pop()
        if any(each is known for known in seen):
            continue
        seen.append(each)
        own = [frame for frame in each.stack if frame.filename.startswith("<program")]
        each.stack = traceback.StackSummary.from_list(own)
        stack.extend(chained for chained in (each.__cause__, each.__context__) if chained is not None)
        stack.extend(each.exceptions or () if sys.version_info >= (3, 11) else ())
    frames = list(told.stack)
    return frames[-1].lineno if frames else None
