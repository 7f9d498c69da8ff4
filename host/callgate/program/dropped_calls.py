"""Calls that are stored and never awaited: in a list, a dict, an argument, or by a lambda.

1. From the call outwards, its holder is the outermost display, comprehension, `list(...)`, or `map` with a lambda.
2. The holder is certainly never awaited if it is a statement, or an argument of a function that takes values (`len`,
   `print`). The same holds if the holder gets a name, or is put into a named value by `append`, and no use of that
   name can await anything.
3. No finding if anything unknown is done to the holder, or if a later program of the session may await its name.

Such a program runs: its end waits for the calls and drops their results. So the finding is a warning.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from .findings import Finding
from .survey import Scope, Survey

if TYPE_CHECKING:
    from .not_awaited import Awaitables

__all__ = ["dropped"]

_DISPLAYS: Final = (ast.List, ast.Tuple, ast.Set, ast.Dict)
_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_COLLECT: Final = frozenset({"list", "tuple", "set", "dict"})
_LOOK: Final = frozenset({"print", "len", "str", "repr", "bool", "type", "id"})
_PUT: Final = frozenset({"append", "add", "insert", "setdefault"})
_CHANGE: Final = _PUT | {"clear", "reverse"}
_MOST: Final = 20


def dropped(seen: Survey, names: Awaitables, *, session: bool) -> Iterator[Finding]:
    """A finding for each call that is stored and certainly never awaited.

    Args:
        seen: the program.
        names: the calls that give an awaitable.
        session: another program with the variables of this one may follow.
    """
    candidates = []
    for call, scope in seen.calls:
        around = scope.parent if scope.kind == "lambda" else scope
        if around is None or around.kind not in ("module", "async") or isinstance(seen.parents.get(call), ast.Await):
            continue
        if (label := names.label(call, around)) is not None:
            candidates.append((call, around, label))
    if not candidates or names.opaque:
        return
    look = _Places(seen, names, session=session)
    found = 0
    for call, scope, label in candidates:
        if found < _MOST and (hint := look.hint(call, scope, label)) is not None:
            found += 1
            message = f"{label}(...) is called here and never awaited: its result is dropped"
            yield Finding.at(call, "not-awaited", message, hint, "warning")


class _Places:
    """Places of the calls of a program."""

    def __init__(self, seen: Survey, names: Awaitables, *, session: bool) -> None:
        self._names = names
        self._session = session
        self._parents = seen.parents
        self._uses: dict[str, list[ast.Name]] = {}
        for scope in seen.scopes:
            for use in scope.uses:
                self._uses.setdefault(use.id, []).append(use)
        self._idle: dict[str, bool] = {}

    def hint(self, call: ast.Call, scope: Scope, label: str) -> str | None:
        """What to write instead, if the call is certainly never awaited; else None."""
        node: ast.AST = call
        lazy = in_lambda = False
        while True:
            parent = self._parents.get(node)
            if isinstance(parent, ast.keyword):
                parent = self._parents.get(parent)
                if not isinstance(parent, ast.Call) or not self._is(parent.func, _COLLECT):
                    return None
            elif isinstance(parent, ast.Lambda):
                outer = self._parents.get(parent)
                if not (isinstance(outer, ast.Call) and self._is(outer.func, {"map"}) and outer.args[:1] == [parent]):
                    return None
                lazy = in_lambda = True
                parent = outer
            elif isinstance(parent, _COMPREHENSIONS):
                lazy = isinstance(parent, ast.GeneratorExp)
            elif isinstance(parent, ast.Call) and node in parent.args and self._is(parent.func, _COLLECT):
                lazy = False
            elif not isinstance(parent, _DISPLAYS):
                break
            node = parent
        if lazy or not self._ends_here(node, parent, scope, direct=node is call):
            return None
        if in_lambda or node is not call:
            return f"write `await asyncio.gather(...)` around such calls, or `await {label}(...)` for each"
        return f"write `await {label}(...)` there"

    def _ends_here(self, node: ast.AST, parent: ast.AST | None, scope: Scope, *, direct: bool) -> bool:
        match parent:
            case ast.Expr() if not direct:
                return True
            case ast.Assign(targets=[ast.Name(id=name)]) if not direct:
                return self._never_awaits(name, scope)
            case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name))]):
                return self._never_awaits(name, scope)
            case ast.Call(func=ast.Name()) if not direct and node in parent.args:
                return self._is(parent.func, _LOOK)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)) if node in parent.args:
                return method in _PUT and self._never_awaits(name, scope)
        return False

    def _is(self, function: ast.expr, names: frozenset[str] | set[str]) -> bool:
        return isinstance(function, ast.Name) and function.id in names and not self._names.count(function.id)

    def _never_awaits(self, name: str, scope: Scope) -> bool:
        """Whether no use of a variable can await its content."""
        if self._names.count(name) != 1 or (self._session and scope.kind == "module"):
            return False
        if name not in self._idle:
            self._idle[name] = all(map(self._is_harmless, self._uses.get(name, ())))
        return self._idle[name]

    def _is_harmless(self, use: ast.Name) -> bool:
        parent = self._parents.get(use)
        match parent:
            case ast.Call(func=ast.Name()) if use in parent.args:
                return self._is(parent.func, _LOOK)
            case ast.Attribute(attr=method):
                around = self._parents.get(parent)
                last = self._parents.get(around) if around is not None else None
                return method in _CHANGE and isinstance(around, ast.Call) and isinstance(last, ast.Expr)
            case ast.Subscript(ctx=ast.Store()):
                return parent.value is use
            case ast.FormattedValue() | ast.UnaryOp(op=ast.Not()) | ast.Expr():
                return True
            case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
                return test is use
        return False
