"""Awaits of plain functions that have waited already. Knows `def` from `async def`.

In a plain `def` a tool call blocks and gives its result. So awaiting the value of such a function is an error for
certain if each value that the function may return is such a result, or a value of Python's that is never awaitable.
Values are not followed through other functions, attributes and containers. They are followed through a name that is
bound once, through `map` and through a comprehension.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from .findings import Finding
from .not_awaited import in_generator
from .survey import Scope, Survey
from .tool_names import ToolNames

__all__ = ["already_waited"]

_TAKE_AWAITABLES: Final = frozenset({
    "gather", "create_task", "ensure_future", "wait_for", "shield", "wait", "as_completed", "run",
})  # fmt: skip
_PLAIN: Final = (
    ast.Constant, ast.JoinedStr, ast.List, ast.Tuple, ast.Dict, ast.Set, ast.ListComp, ast.SetComp, ast.DictComp,
    ast.Compare,
)  # fmt: skip
_ASK: Final = frozenset({
    "isawaitable", "iscoroutine", "isfuture", "Awaitable", "Coroutine", "Future", "Task", "__await__",
})  # fmt: skip
_DEEPEST: Final = 20

Waited = tuple[str, str]
"""A plain function, and the tool whose call it waits for."""


def already_waited(seen: Survey, known: ToolNames) -> Iterator[Finding]:
    """A finding for each await of a value for which a plain function has waited already."""
    if not any(isinstance(node, ast.FunctionDef) for node, _ in seen.functions):
        return
    names = _PlainFunctions(seen, known)
    if not names.calls_in_def:
        return
    reported = {id(each) for each, _ in seen.awaits_in_def}
    nodes = list(ast.walk(seen.module.node))
    asks = any(map(_asks, nodes))
    for node in nodes:
        if id(node) in reported:
            continue
        found: Waited | None = None
        dropped = "drop the `await`"
        if isinstance(node, ast.Await):
            found = names.waits(node.value)
        elif isinstance(node, ast.Call) and names.takes_awaitables(node.func):
            found = next(filter(None, map(names.gives_waited, node.args)), None)
            dropped = f"drop `{ast.unparse(node.func)}` and take its result as it is"
        if found is not None and isinstance(node, ast.expr):
            where, tool = found
            message = f"`{where}` is a plain def, its call has already waited and gives the result of {tool}"
            hint = f"write `async def {where}` and `await {tool}(...)` in it, or {dropped}"
            severity = "warning" if asks else seen.severity(node.lineno)
            yield Finding.at(node, "already-waited", message, hint, severity)


def _asks(node: ast.AST) -> bool:
    """Whether a node asks if a value can be awaited: an `await` may depend on the answer."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in _ASK
        case ast.Constant(value="__await__"):
            return True
    return False


class _PlainFunctions:
    """The plain functions of a program that return results of tools."""

    def __init__(self, seen: Survey, known: ToolNames) -> None:
        self._seen = seen
        self.calls_in_def: dict[int, Waited] = {}
        """Calls of tools in plain functions, by identity."""
        self._given: dict[int, Waited | None] = {}
        self._plain: dict[int, bool] = {}
        """Answers of `gives_waited` and `_is_plain` by identity, so that no value is followed twice."""
        tools: dict[str, str] = {}
        for call, scope in seen.calls:
            if not isinstance(scope.node, ast.FunctionDef) or in_generator(seen, call):
                continue  # the reader of a generator runs the call, and one that awaits does not wait for it
            if (called := known.tool_of(call)) is not None:
                tools.setdefault(scope.name, called.shape.name)
                self.calls_in_def[id(call)] = (scope.name, called.shape.name)
        self._waited = {
            scope.name: (scope.name, tools[scope.name])
            for scope in seen.scopes
            if scope.name in tools and isinstance(scope.node, ast.FunctionDef) and self._returns_results(scope)
        }

    def _returns_results(self, function: Scope) -> bool:
        """Whether a function has one meaning, and each value that it returns is certainly not an awaitable."""
        node, around = function.node, function.parent
        assert isinstance(node, ast.FunctionDef)
        assert around is not None
        if self._seen.counts[node.name] != 1 or around.kind == "class" or node.decorator_list or function.has_yield:
            return False
        return all(map(self._is_plain, _returned(node)))

    def takes_awaitables(self, function: ast.expr) -> bool:
        """Whether a function is one of asyncio's, or of a task group's, that takes awaitables."""
        if self._seen.asyncio_function(function) in _TAKE_AWAITABLES:
            return True
        match function:
            case ast.Attribute(value=ast.Name(id=group), attr="create_task"):
                return group in self._seen.task_groups
        return False

    def waits(self, node: ast.expr) -> Waited | None:
        """The plain function that an expression calls, and the tool whose call it waits for."""
        node = self._followed(node)
        if isinstance(node, ast.Call):
            if id(node) in self.calls_in_def:
                return self.calls_in_def[id(node)]
            return self._waited.get(node.func.id) if isinstance(node.func, ast.Name) else None
        return None

    def gives_waited(self, node: ast.expr, depth: int = 0) -> Waited | None:
        """`waits` for an argument of asyncio: one such call, or a collection of them."""
        node = self._followed(node)
        if depth <= _DEEPEST and id(node) not in self._given:
            self._given[id(node)] = None  # for a value that contains itself
            self._given[id(node)] = self._find_waited(node, depth)
        return self._given.get(id(node))

    def _find_waited(self, node: ast.expr, depth: int) -> Waited | None:
        match node:
            case ast.Starred(value=value):
                return self.gives_waited(value, depth + 1)
            case ast.ListComp(elt=elt) | ast.GeneratorExp(elt=elt) | ast.SetComp(elt=elt):
                return self.waits(elt)
            case ast.List(elts=elts) | ast.Tuple(elts=elts) | ast.Set(elts=elts):
                return next(filter(None, (self.gives_waited(each, depth + 1) for each in elts)), None)
            case ast.Call(func=ast.Name(id="map"), args=[ast.Name(id=mapped), *_]) if mapped in self._waited:
                return self._waited[mapped]
        return self.waits(node)

    def _followed(self, node: ast.expr) -> ast.expr:
        """The value of a name that is bound once, or of one bound to such a name; any other expression itself."""
        for _ in range(_DEEPEST):
            if not isinstance(node, ast.Name) or node.id not in self._seen.assigned:
                break
            node = self._seen.assigned[node.id]
        return node

    def _is_plain(self, node: ast.expr | None, depth: int = 0) -> bool:
        """Whether a value is certainly not an awaitable: a result of a tool, a part of one, or a value of Python's."""
        if node is None or isinstance(node, _PLAIN):
            return True
        if depth <= _DEEPEST and id(node) not in self._plain:
            self._plain[id(node)] = False  # for a name that is bound to itself
            self._plain[id(node)] = self._find_plain(node, depth)
        return self._plain.get(id(node), False)

    def _find_plain(self, node: ast.expr, depth: int) -> bool:
        match node:
            case ast.Subscript(value=inner) | ast.Attribute(value=inner):
                return not isinstance(inner, _PLAIN) and self._is_plain(inner, depth + 1)
            case ast.Name(id=name):
                return name in self._seen.assigned and self._is_plain(self._seen.assigned[name], depth + 1)
            case ast.IfExp(body=body, orelse=orelse):
                return self._is_plain(body, depth + 1) and self._is_plain(orelse, depth + 1)
            case ast.BoolOp(values=values):
                return all(self._is_plain(each, depth + 1) for each in values)
        return id(node) in self.calls_in_def


def _returned(function: ast.FunctionDef) -> Iterator[ast.expr | None]:
    """The values of the `return` statements of a function, without those of functions inside it."""
    stack: list[ast.AST] = list(function.body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Return):
            yield node.value
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.expr):
            stack.extend(ast.iter_child_nodes(node))
