"""Awaits of plain functions that have waited already. Knows `def` from `async def`.

In a plain `def` the call of a tool blocks and gives its result: to await what such a function returns is an error for
certain where every value that it may return is such a result, or a value of Python's that is never awaitable. What is
passed through other functions, attributes and containers is not followed, except a name that is bound once, `map`, and
a comprehension.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Final

from .awaiting import in_generator
from .callees import Callees
from .findings import Finding
from .survey import Scope, Survey

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


def already_waited(seen: Survey, known: Callees) -> Iterator[Finding]:
    """A finding for each await of what a plain function has waited for already."""
    plain = [(node, scope) for node, scope in seen.functions if isinstance(node, ast.FunctionDef)]
    if not plain:
        return
    names = _Plain(seen, known, plain)
    if not names.waited and not names.calls_in_def:
        return
    reported = {id(each) for each, _ in seen.awaits_in_def}
    asks = any(map(_asks, ast.walk(seen.module.node)))
    for node in ast.walk(seen.module.node):
        if id(node) in reported:
            continue
        found: tuple[str, str] | None = None
        dropped = "drop the `await`"
        if isinstance(node, ast.Await):
            found = names.waits(node.value)
        elif isinstance(node, ast.Call) and (function := names.of_asyncio(node.func)) is not None:
            found = next(filter(None, map(names.gives_waited, node.args)), None)
            dropped = f"drop `{function}` and take its result as it is"
        if found is not None and isinstance(node, ast.expr):
            where, tool = found
            message = f"`{where}` is a plain def, its call has already waited and gives the result of {tool}"
            hint = f"write `async def {where}` and `await {tool}(...)` in it, or {dropped}"
            severity = "warning" if asks else seen.severity(node.lineno)
            yield Finding.at(node, "already-waited", message, hint, severity)


def _asks(node: ast.AST) -> bool:
    """Whether a node asks whether a value can be awaited: an `await` may depend on the answer."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in _ASK
        case ast.Constant(value="__await__"):
            return True
    return False


def _is_task_group(node: ast.AST) -> bool:
    return "TaskGroup" in getattr(node, "attr", getattr(node, "id", ""))


class _Plain:
    """The plain functions of a program that give results of tools, and what is a call of one."""

    def __init__(self, seen: Survey, known: Callees, plain: list[tuple[ast.FunctionDef, Scope]]) -> None:
        self._once = {name for name, count in seen.counts.items() if count == 1}
        self._known = known
        inner = {id(scope.node): scope for scope in seen.scopes}
        scopes = {id(inner[id(node)]): node.name for node, _ in plain if id(node) in inner}
        tools: dict[str, str] = {}
        self.calls_in_def: dict[int, tuple[str, str]] = {}
        """Calls of tools in plain functions: which function, and which tool."""
        for call, scope in seen.calls:
            where = scopes.get(id(scope))
            if where is not None and scope.has_generator_expression and in_generator(call, scope):
                continue  # it runs where the generator is read, and in one that awaits it is not waited for
            if where is not None and (callee := known.tool_of(call)) is not None:
                tools.setdefault(where, callee.shape.name)
                self.calls_in_def[id(call)] = (where, callee.shape.name)
        self._modules: set[str] = set()
        """Names of the module asyncio."""
        self._functions: set[str] = set()
        """Names of its functions that take awaitables."""
        for statement, _ in seen.imports:
            for alias in statement.names:
                name = alias.asname or alias.name
                if name in self._once and isinstance(statement, ast.Import) and alias.name == "asyncio":
                    self._modules.add(name)
                elif name in self._once and isinstance(statement, ast.ImportFrom) and statement.module == "asyncio":
                    self._functions |= {name} if alias.name in _TAKE_AWAITABLES else set()
        self._groups = {
            item.optional_vars.id
            for node in (ast.walk(seen.module.node) if tools else ())
            if isinstance(node, ast.AsyncWith)
            for item in node.items
            if isinstance(item.optional_vars, ast.Name) and any(map(_is_task_group, ast.walk(item.context_expr)))
        }
        """Names of task groups."""
        self._values: Mapping[str, ast.expr] = {
            node.targets[0].id: node.value
            for node in (ast.walk(seen.module.node) if tools else ())
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)
            if node.targets[0].id in self._once
        }
        self.waited = {
            node.name: tools[node.name]
            for node, scope in plain
            if node.name in tools and node.name in self._once and scope.kind != "class" and not node.decorator_list
            if not inner[id(node)].has_yield and all(map(self._is_plain, _returned(node)))
        }

    def of_asyncio(self, function: ast.expr) -> str | None:
        """What a function that takes awaitables is called, or None for any other."""
        if isinstance(function, ast.Name):
            return function.id if function.id in self._functions else None
        if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
            module, name = function.value.id, function.attr
            known = name in _TAKE_AWAITABLES if module in self._modules else name == "create_task"
            return f"{module}.{name}" if known and module in self._modules | self._groups else None
        return None

    def waits(self, node: ast.expr, depth: int = 0) -> tuple[str, str] | None:
        """The plain function that an expression calls, and the tool that it waits for."""
        if isinstance(node, ast.Call):
            if id(node) in self.calls_in_def:
                return self.calls_in_def[id(node)]
            if isinstance(node.func, ast.Name) and node.func.id in self.waited:
                return node.func.id, self.waited[node.func.id]
        if isinstance(node, ast.Name) and node.id in self._values and depth < _DEEPEST:
            return self.waits(self._values[node.id], depth + 1)
        return None

    def gives_waited(self, node: ast.expr, depth: int = 0) -> tuple[str, str] | None:
        """As `waits`, for an argument that is such a call, or several of them."""
        if depth > _DEEPEST:
            return None
        if isinstance(node, ast.Starred):
            return self.gives_waited(node.value, depth + 1)
        if isinstance(node, ast.ListComp | ast.GeneratorExp | ast.SetComp):
            return self.waits(node.elt)
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            return next(filter(None, (self.gives_waited(each, depth + 1) for each in node.elts)), None)
        if isinstance(node, ast.Name) and node.id in self._values:
            return self.gives_waited(self._values[node.id], depth + 1)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "map" and node.args:
            mapped = node.args[0]
            if isinstance(mapped, ast.Name) and mapped.id in self.waited:
                return mapped.id, self.waited[mapped.id]
        return self.waits(node)

    def _is_plain(self, node: ast.expr | None, depth: int = 0) -> bool:
        """Whether a value is certainly no awaitable: a result of a tool, a part of one, or made by Python's syntax."""
        if node is None or isinstance(node, _PLAIN):
            return True
        if depth > _DEEPEST:
            return False
        if isinstance(node, ast.Subscript | ast.Attribute):
            inner = node.value
            while isinstance(inner, ast.Subscript | ast.Attribute):
                inner = inner.value
            return not isinstance(inner, _PLAIN) and self._is_plain(inner, depth + 1)
        if isinstance(node, ast.Name):
            return node.id in self._values and self._is_plain(self._values[node.id], depth + 1)
        if isinstance(node, ast.IfExp):
            return self._is_plain(node.body, depth + 1) and self._is_plain(node.orelse, depth + 1)
        if isinstance(node, ast.BoolOp):
            return all(self._is_plain(each, depth + 1) for each in node.values)
        return id(node) in self.calls_in_def


def _returned(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.expr | None]:
    """What the `return` statements of a function give, those of functions inside it left out."""
    stack: list[ast.AST] = list(function.body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Return):
            yield node.value
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.expr):
            stack.extend(ast.iter_child_nodes(node))
