"""Calls that must be awaited and are not. Knows which calls give an awaitable, and which uses of one are surely wrong.

The top level of a program and the body of an `async def` are async code: a tool's call there starts at once and is
awaited for its result. In a plain `def` the same call blocks and returns it. In a lambda or a class body it depends on
who runs it, so nothing is said there. A call that is assigned, passed on or returned may be awaited later: no finding,
but for what `dropping` knows.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from .callees import Callees
from .dropping import dropped
from .findings import Finding
from .survey import Scope, Survey

__all__ = ["TAKE_A_VALUE", "Awaitables", "awaits_in_def", "in_generator", "never_awaited"]

_ASYNC: Final = ("module", "async")
_OF_ASYNCIO: Final = frozenset({"gather", "sleep", "wait_for", "wait", "to_thread"})
_OF_AN_AWAITABLE: Final = frozenset({
    "send", "throw", "close", "result", "done", "cancel", "cancelled", "cancelling", "uncancel", "exception",
    "add_done_callback", "remove_done_callback", "get_name", "set_name", "get_coro", "get_loop", "get_context",
    "get_stack", "print_stack",
})  # fmt: skip
TAKE_A_VALUE: Final = frozenset({
    "print", "len", "str", "int", "float", "sum", "sorted", "list", "tuple", "set", "dict", "min", "max", "any", "all",
    "enumerate", "zip", "reversed", "abs", "round", "bool", "range", "frozenset", "format",
})  # fmt: skip


def awaits_in_def(seen: Survey) -> Iterator[Finding]:
    """A finding for each plain function that awaits."""
    first: dict[int, tuple[ast.expr, Scope]] = {}
    for node, scope in sorted(seen.awaits_in_def, key=lambda found: (found[0].lineno, found[0].col_offset)):
        if first.setdefault(id(scope), (node, scope))[0] is node:
            yield Finding(
                "await-in-def",
                node.lineno,
                node.col_offset + 1,
                f"`await` inside the plain function `{scope.name}`",
                f"make it `async def {scope.name}` and await its calls, or drop the `await`: "
                "in a plain `def` a tool call waits for its result by itself",
            )


def never_awaited(seen: Survey, known: Callees, *, goes_on: bool = False) -> Iterator[Finding]:
    """A finding for each awaitable that is thrown away, put away, or used as if it were the result.

    Args:
        seen: the program.
        known: its calls.
        goes_on: whether another program may follow that has the variables of this one.
    """
    names = Awaitables(seen, known)
    pending: dict[str, tuple[ast.Call, Scope, str]] = {}
    for call, scope in seen.calls:
        parent = seen.parents.get(call)
        if parent is None or parent.__class__ is ast.Await or (label := names.label(call, scope)) is None:
            continue
        if isinstance(parent, ast.Expr):
            yield _thrown_away(call, label, scope)
        elif scope.kind in _ASYNC:
            if (wrong := _wrong_use(call, parent, scope, names)) is not None:
                yield _misused(call, scope, label, wrong)
            elif isinstance(parent, ast.Assign) and len(parent.targets) == 1:
                target = parent.targets[0]
                if isinstance(target, ast.Name) and names.count(target.id) == 1:
                    pending[target.id] = (call, scope, label)
    if pending and not names.opaque:
        yield from _pending(seen, pending, names)
    yield from dropped(seen, names, goes_on=goes_on)


class Awaitables:
    """Which calls of a program give an awaitable."""

    def __init__(self, seen: Survey, known: Callees) -> None:
        self._known = known
        self._counts: dict[str, int] = {}
        for scope in seen.scopes:
            for name in scope.stores:
                self._counts[name] = self._counts.get(name, 0) + 1
        self.opaque = seen.star_import or any(
            use.id in ("globals", "locals", "vars", "exec", "eval") for scope in seen.scopes for use in scope.uses
        )
        generators = {id(scope.node) for scope in seen.scopes if scope.has_yield}
        self._own = {
            node.name
            for node, scope in seen.functions
            if isinstance(node, ast.AsyncFunctionDef)
            and not node.decorator_list
            and id(node) not in generators
            and scope.kind != "class"
            and self.count(node.name) == 1
        }
        self._asyncio: dict[str, str] = {}
        self._asyncio_modules = set()
        for statement, _ in seen.imports:
            for alias in statement.names:
                name = alias.asname or alias.name
                if self.count(name) != 1:
                    continue
                if isinstance(statement, ast.Import):
                    if alias.name == "asyncio":
                        self._asyncio_modules.add(name)
                elif statement.module == "asyncio" and alias.name in _OF_ASYNCIO:
                    self._asyncio[name] = f"asyncio.{alias.name}"

    def count(self, name: str) -> int:
        """How often the program binds a name, in whatever scope."""
        return self._counts.get(name, 0)

    def label(self, call: ast.Call, scope: Scope) -> str | None:
        """What to call an awaitable call in a message, or None for any other."""
        function = call.func
        if isinstance(function, ast.Name) and function.id in self._own:
            return function.id if scope.kind in ("module", "async", "def") else None
        if scope.kind not in _ASYNC:
            return None
        if (found := self._known.tool_of(call)) is not None:
            return found.shape.name if found.by_name else found.written
        if isinstance(function, ast.Name):
            return self._asyncio.get(function.id)
        if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
            known = function.value.id in self._asyncio_modules and function.attr in _OF_ASYNCIO
            return f"asyncio.{function.attr}" if known else None
        return None


def _wrong_use(node: ast.expr, parent: ast.AST, scope: Scope, names: Awaitables) -> str | None:
    """What is done to an awaitable that only its result can stand, or None where it may be right."""
    match parent:
        case ast.Subscript(value=value) if value is node:
            return "subscripted"
        case ast.Attribute(attr=attribute):
            right = attribute in _OF_AN_AWAITABLE or attribute.startswith("_")
            return None if right else f"asked for `.{attribute[:60]}`"
        case ast.BinOp() | ast.AugAssign():
            return "used in arithmetic"
        case ast.UnaryOp(op=ast.Not()):
            return "tested"
        case ast.UnaryOp():
            return "used in arithmetic"
        case ast.Compare():
            return "compared"
        case ast.BoolOp(values=values) if values[-1] is not node:
            return "tested"
        case ast.FormattedValue():
            return "put into text"
        case ast.For(iter=iterated) | ast.comprehension(iter=iterated, is_async=0) if iterated is node:
            return "iterated over"
        case ast.Starred():
            return "unpacked"
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) | ast.Assert(test=test) if test is node:
            return "tested"
        case ast.Assign(targets=targets) if any(isinstance(target, (ast.Tuple, ast.List)) for target in targets):
            return "unpacked"
        case ast.Call(func=ast.Name(id=function)) if function in TAKE_A_VALUE and not names.count(function):
            return f"passed to {function}(...)"
        case ast.Return() if scope.kind == "module" and isinstance(node, ast.Call):
            return "returned from the program"
    return None


def _pending(seen: Survey, pending: dict[str, tuple[ast.Call, Scope, str]], names: Awaitables) -> Iterator[Finding]:
    """Names that hold an awaitable and nothing else, ever: those never used, and uses as if they held its result."""
    uses: dict[str, int] = dict.fromkeys(pending, 0)
    relevant: dict[ast.AST, tuple[str, Scope]] = {}
    for scope in seen.scopes:
        for use in scope.uses:
            if use.id in pending:
                uses[use.id] += 1
                if scope is pending[use.id][1]:
                    relevant[use] = (use.id, scope)
    for name, (call, _, label) in pending.items():
        if uses[name] == 0:
            yield Finding(
                "not-awaited",
                call.lineno,
                call.col_offset + 1,
                f"{label}(...) is assigned to `{name}`, which is never awaited",
                f"write `{name} = await {_written(call, label)}`",
                "warning",
            )
    if not relevant:
        return
    reported = set()
    for parent in ast.walk(seen.module.node):
        for child in ast.iter_child_nodes(parent):
            if child in relevant:
                name, scope = relevant[child]
                call, _, label = pending[name]
                wrong = _wrong_use(child, parent, scope, names)  # type: ignore[arg-type]
                if wrong is not None and wrong != "compared" and wrong != "tested" and name not in reported:
                    reported.add(name)
                    yield Finding(
                        "not-awaited",
                        child.lineno,  # type: ignore[attr-defined]
                        child.col_offset + 1,  # type: ignore[attr-defined]
                        f"`{name}` is {wrong}, but holds the call {label}(...) and not its result",
                        f"write `{name} = await {_written(call, label)}` on line {call.lineno}",
                    )


def _thrown_away(call: ast.Call, label: str, scope: Scope) -> Finding:
    if scope.kind in _ASYNC:
        hint = f"write `await {_written(call, label)}`"
    else:
        hint = f"make `{scope.name}` an `async def` and write `await {_written(call, label)}`"
    return Finding(
        "not-awaited",
        call.lineno,
        call.col_offset + 1,
        f"{label}(...) is never awaited, so its result is not used",
        hint,
    )


def _misused(call: ast.Call, scope: Scope, label: str, wrong: str) -> Finding:
    hint = f"write `(await {_written(call, label)})` there"
    if scope.has_generator_expression and in_generator(call, scope):
        hint += ", and `[...]` around the generator: one that awaits cannot be read here"
    return Finding(
        "not-awaited",
        call.lineno,
        call.col_offset + 1,
        f"{label}(...) is {wrong} without `await`, so there is no result yet",
        hint,
    )


def in_generator(call: ast.Call, scope: Scope) -> bool:
    """Whether a call stands in a generator expression, elsewhere than in what it goes over first."""
    for node in ast.walk(scope.node):
        if isinstance(node, ast.GeneratorExp):
            parts: list[ast.AST] = [node.elt, *node.generators[0].ifs, *node.generators[1:]]
            if any(each is call for part in parts for each in ast.walk(part)):
                return True
    return False


def _written(call: ast.Call, label: str) -> str:
    """The call as the program has it, or its name alone where it is long."""
    if call.end_lineno == call.lineno and (call.end_col_offset or 0) - call.col_offset <= 100:
        return ast.unparse(call)
    return f"{label}(...)"
