"""A program: source to code, code to value or error. Knows Python's rules for both and nothing of the wire.

Top-level ``await`` is compiled as CPython's own flag allows it. A top-level ``return`` is not legal anywhere in
Python, so a program that has one is wrapped in a function whose names are all declared global: it behaves as a module
does.
"""

from __future__ import annotations

import ast
import asyncio
import linecache
import sys
import traceback
import types
from collections.abc import Callable, Iterable, Iterator
from inspect import CO_COROUTINE
from typing import Any

from .explain import advice
from .json_forms import NotFinite, NotJson, Unordered
from .link import encode
from .records import HiddenField
from .tool_calls import ToolCall, ToolError
from .wire import ERRORS, PROGRAM_NAME, cut

VALUE = "__callgate_value__"
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


class Program:
    """One program, compiled. Raises `SyntaxError` as Python does.

    Attributes:
        code: evaluates to a coroutine when `is_async`.
        returns: what it evaluates to is the program's value; otherwise the value is the variable `VALUE`.
    """

    def __init__(self, source: str, name: str = PROGRAM_NAME) -> None:
        source = source.removeprefix("\ufeff")
        # as the parser counts them, which other line separators do not end; traceback expects the last newline too
        lines = [f"{line}\n" for line in source.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
        linecache.cache[name] = (len(source), None, lines, name)
        try:
            tree = ast.parse(source, name)
            self.returns = any(isinstance(node, ast.Return) for node in _own_nodes(tree.body))
            last = tree.body[-1] if tree.body else None
            if isinstance(last, ast.Expr):
                target = ast.copy_location(ast.Name(VALUE, ast.Store()), last)
                valued = ast.Return(last.value) if self.returns else ast.Assign([target], last.value)
                tree.body[-1] = ast.copy_location(valued, last)
            if self.returns:
                self.code = _as_function(tree, name)
            else:
                self.code = compile(tree, name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        except (MemoryError, RecursionError):  # CPython's parser says MemoryError when its own stack is full
            raise SyntaxError("the program is nested too deeply", (name, 1, 0, "")) from None
        except ValueError as error:  # a null byte; half of a surrogate pair
            raise SyntaxError(str(error), (name, 1, 0, "")) from None
        self.is_async = bool(self.code.co_flags & CO_COROUTINE)


def _own_nodes(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Every node of `body` that is not inside a function, class or lambda of its own."""
    stack = list(body)
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, _FUNCTIONS):
            stack.extend(ast.iter_child_nodes(node))
        else:  # its parts that are evaluated outside
            stack.extend(getattr(node, "decorator_list", ()))
            stack.extend(getattr(node, "bases", ()))
            if not isinstance(node, ast.ClassDef):
                stack.extend(value for value in (*node.args.defaults, *node.args.kw_defaults) if value is not None)


class _ForFunction(ast.NodeTransformer):
    """Rewrites statements that only the top level of a module may have, for a function whose names are all global."""

    def visit_Global(self, node: ast.Global) -> Any:
        return ast.copy_location(ast.Pass(), node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> Any:
        if node.names[0].name != "*":
            return node
        text = f"__import__('builtins').exec({ast.unparse(node)!r}, globals())"
        return ast.copy_location(ast.parse(text).body[0], node)

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
        if isinstance(node, (ast.Yield, ast.YieldFrom)):
            raise SyntaxError("'yield' outside function", (name, node.lineno, node.col_offset + 1, None))
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
    _ForFunction().visit(tree)
    outer = ast.parse(("async " if waits else "") + "def _program(): pass")
    function = outer.body[0]
    assert isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
    future = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    function.body = [ast.Global(sorted(names)), *(node for node in tree.body if node not in future)]
    outer.body[:0] = future
    module = compile(ast.fix_missing_locations(outer), name, "exec", dont_inherit=True)
    code = next(constant for constant in module.co_consts if isinstance(constant, types.CodeType))
    return code.replace(co_name="<module>", co_qualname="<module>")


def value_of(namespace: dict[str, Any], text_of: Callable[[Any], str]) -> str:
    """Members of the reply with the program's value: as JSON, or as its text by `text_of` if the value is not JSON."""
    value = namespace.pop(VALUE, None)
    if type(value) is ToolCall:
        raise value._not_awaited()
    try:
        return f'"value":{encode(value)}'
    except (TypeError, ValueError, RecursionError) as error:
        inner = error.value if isinstance(error, NotJson) else None
        if type(inner) is ToolCall:
            raise inner._not_awaited() from None
        if type(inner) is HiddenField:
            raise inner.misused() from None
        if asyncio.isfuture(inner):
            raise TypeError("the value holds something not awaited: write `await` in front of it") from None
        if isinstance(error, (Unordered, NotFinite)):
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"the program's value: {error}") from None
        return f'"value":null,"value_repr":{encode(cut(text_of(value)))}'


def safe_repr(value: object) -> str:
    try:
        return str(repr(value))
    except BaseException as error:
        return f"<{type(value).__name__} whose repr() raised {type(error).__name__}>"


def describe(error: BaseException) -> dict[str, Any]:
    """An error that ended the program, as the host receives it: kind, message, line, the program's own frames."""
    more = None
    try:
        _show_calls(error)
        more = advice(error)
        if more is not None:
            error.add_note(more)
        shown = traceback.TracebackException.from_exception(error, limit=None, compact=True)
        line = _prune(shown)
        if line is None and isinstance(error, ToolError) and error._place is not None:  # of a call never awaited
            line = _place(shown, *error._place)
        text = "".join(shown.format())
    except BaseException as failure:  # an exception made to break its own formatting
        line, text = None, f"{type(error).__name__}: (its traceback could not be formatted: {type(failure).__name__})\n"
    try:
        message = "".join(str(error))
    except BaseException:
        message = "<exception whose str() raised>"
    if isinstance(error, SyntaxError):
        line, message = error.lineno, error.msg or message
    if more is not None:
        message = f"{message}; {more}"
    kind = "".join(c for c in type(error).__name__ if c.isidentifier() or c.isdigit())[:200] or "Exception"
    report: dict[str, Any] = {"kind": kind, "message": cut(message), "line": line, "traceback": cut(text)}
    if isinstance(error, OSError):
        report["errno"] = error.errno
    for field in ("tool", "code", "data", "retryable"):
        if kind in ("ToolError", *ERRORS.values()) and hasattr(error, field):
            report[field] = getattr(error, field)
    return report


def _show_calls(error: BaseException) -> None:
    """Show calls that were not awaited, and stand in an exception's arguments, by their repr."""
    if any(type(each) is ToolCall for each in error.args):
        error.args = tuple(repr(each) if type(each) is ToolCall else each for each in error.args)


def _place(shown: traceback.TracebackException, code: types.CodeType, instruction: int) -> int | None:
    """Show the place of the failed call as the traceback. Returns the line."""
    line = next((line for start, end, line in code.co_lines() if start <= instruction < end), None)
    if line is None or not code.co_filename.startswith("<program"):
        return None
    shown.stack = traceback.StackSummary.from_list([(code.co_filename, line, code.co_name, None)])
    return line


def _prune(shown: traceback.TracebackException) -> int | None:
    """Leave only the program's own frames, in this exception and all it was chained to. Returns the innermost line."""
    seen: list[traceback.TracebackException] = []
    stack = [shown]
    while stack:
        each = stack.pop()
        if any(each is known for known in seen):
            continue
        seen.append(each)
        own = [frame for frame in each.stack if frame.filename.startswith("<program")]
        each.stack = traceback.StackSummary.from_list(own)
        stack.extend(chained for chained in (each.__cause__, each.__context__) if chained is not None)
        stack.extend(each.exceptions or () if sys.version_info >= (3, 11) else ())
    return shown.stack[-1].lineno if shown.stack else None
