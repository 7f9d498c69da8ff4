"""Calls that must be awaited and are not. Knows which calls give an awaitable, and which uses of an awaitable are
certainly wrong.

The top level of a program and the body of an `async def` are async code: a tool's call there starts at once and is
awaited for its result. In a plain `def` the same call blocks and returns it. In a lambda or a class body it depends on
the caller, so there is no finding there. A call that is assigned, passed on or returned may be awaited later: no
finding, but for what `dropped_calls` knows.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from .dropped_calls import dropped
from .findings import Finding
from .survey import Scope, Survey
from .tool_names import ToolNames

__all__ = ["TAKE_A_VALUE", "Awaitables", "awaits_in_def", "in_generator", "never_awaited", "never_called"]

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
            hint = (
                f"make it `async def {scope.name}` and await its calls, or drop the `await`: "
                "in a plain `def` a tool call waits for its result by itself"
            )
            yield Finding.at(node, "await-in-def", f"`await` inside the plain function `{scope.name}`", hint)


def never_awaited(seen: Survey, known: ToolNames, *, session: bool = False) -> Iterator[Finding]:
    """A finding for each awaitable that is thrown away, stored, or used as if it were the result.

    Args:
        seen: the program.
        known: its calls.
        session: another program with the variables of this one may follow.
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
                yield _misused(seen, call, label, wrong)
            elif isinstance(parent, ast.Assign) and len(parent.targets) == 1:
                target = parent.targets[0]
                if isinstance(target, ast.Name) and names.count(target.id) == 1:
                    pending[target.id] = (call, scope, label)
    if pending and not names.opaque:
        yield from _pending(seen, pending, names)
    yield from dropped(seen, names, session=session)


class Awaitables:
    """The calls of a program that give an awaitable."""

    def __init__(self, seen: Survey, known: ToolNames) -> None:
        self._seen = seen
        self._known = known
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

    def count(self, name: str) -> int:
        """How often the program binds a name, in all scopes together."""
        return self._seen.counts[name]

    def label(self, call: ast.Call, scope: Scope) -> str | None:
        """How messages name a call that gives an awaitable; None for any other call."""
        function = call.func
        if isinstance(function, ast.Name) and function.id in self._own:
            return function.id if scope.kind in ("module", "async", "def") else None
        if scope.kind not in _ASYNC:
            return None
        if (found := self._known.tool_of(call)) is not None:
            return found.shape.name if found.by_name else found.written
        name = self._seen.asyncio_function(function)
        return f"asyncio.{name}" if name in _OF_ASYNCIO else None


def _wrong_use(node: ast.expr, parent: ast.AST | None, scope: Scope, names: Awaitables) -> str | None:
    """A use of an awaitable that needs its result instead; None if the use may be right."""
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
    """Findings for names that only ever hold an awaitable: never used, or used as if they held its result."""
    uses = [(use, scope) for scope in seen.scopes for use in scope.uses if use.id in pending]
    for name in pending.keys() - {use.id for use, _ in uses}:
        call, _, label = pending[name]
        message = f"{label}(...) is assigned to `{name}`, which is never awaited"
        yield Finding.at(call, "not-awaited", message, f"write `{name} = await {_written(call, label)}`", "warning")
    for use, scope in sorted(uses, key=lambda found: (found[0].lineno, found[0].col_offset)):
        if use.id not in pending or scope is not pending[use.id][1]:
            continue
        call, _, label = pending[use.id]
        wrong = _wrong_use(use, seen.parents.get(use), scope, names)
        if wrong is not None and wrong not in ("compared", "tested"):
            del pending[use.id]
            message = f"`{use.id}` is {wrong}, but holds the call {label}(...) and not its result"
            hint = f"write `{use.id} = await {_written(call, label)}` on line {call.lineno}"
            yield Finding.at(use, "not-awaited", message, hint)


def _thrown_away(call: ast.Call, label: str, scope: Scope) -> Finding:
    hint = f"write `await {_written(call, label)}`"
    if scope.kind not in _ASYNC:
        hint = f"make `{scope.name}` an `async def` and {hint}"
    return Finding.at(call, "not-awaited", f"{label}(...) is never awaited, so its result is not used", hint)


def _misused(seen: Survey, call: ast.Call, label: str, wrong: str) -> Finding:
    hint = f"write `(await {_written(call, label)})` there"
    if in_generator(seen, call):
        hint += ", and `[...]` around the generator: one that awaits cannot be read here"
    return Finding.at(call, "not-awaited", f"{label}(...) is {wrong} without `await`, so there is no result yet", hint)


def in_generator(seen: Survey, call: ast.Call) -> bool:
    """Whether a call stands in a generator expression. What the generator first iterates over is outside."""
    node: ast.AST = call
    inner: ast.AST | None = None
    while (parent := seen.parents.get(node)) is not None:
        if isinstance(parent, ast.GeneratorExp):
            first = parent.generators[0]
            if node is not first or inner is not first.iter:
                return True
        node, inner = parent, node
    return False


def _written(call: ast.Call, label: str) -> str:
    """The call as the program has it, or only its name if the call is long."""
    if call.end_lineno == call.lineno and (call.end_col_offset or 0) - call.col_offset <= 100:
        return ast.unparse(call)
    return f"{label}(...)"


def never_called(seen: Survey, *, session: bool) -> Iterator[Finding]:
    """A warning for a program that defines functions, does nothing else, and calls none of them.

    Args:
        seen: the program.
        session: later programs may call what this one defines: only a `main` is then expected to be called.
    """
    tree = seen.module.node
    assert isinstance(tree, ast.Module)
    functions = [each for each in tree.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
    if (
        not functions
        or seen.top_level_returns
        or {each.id for each in seen.module.uses} & {each.name for each in functions}
    ):
        return
    if not all(_only_defines(each) for each in tree.body) or any(each.decorator_list for each in functions):
        return
    function = next((each for each in functions if each.name == "main"), functions[-1])
    if session and function.name != "main":
        return
    needs = len(function.args.posonlyargs) + len(function.args.args) > len(function.args.defaults)
    call = f"{function.name}({'...' if needs else ''})"
    written = f"await {call}" if isinstance(function, ast.AsyncFunctionDef) else call
    message = f"the program defines `{function.name}` and never calls it, so nothing runs"
    yield Finding.at(function, "never-called", message, f"write `{written}` at the end", "warning")


def _only_defines(statement: ast.stmt) -> bool:
    """Whether a statement only gives names a meaning."""
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        value = statement.value
        return value is None or not any(isinstance(each, ast.Call | ast.Await) for each in ast.walk(value))
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant)
    return isinstance(
        statement,
        ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom | ast.Pass,
    )
