"""Fields of results that an attribute cannot reach, because it is the dict's own method: ``for each in page.items``.

Knows the names of a dict's methods and the keys in the output schemas of the tools that a program calls. Its findings
are warnings: it does not follow which value an attribute is read from.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any, Final

from .findings import Finding
from .not_awaited import TAKE_A_VALUE
from .survey import Survey
from .tool_names import ToolNames

__all__ = ["hidden_fields"]

_METHODS: Final = frozenset(
    {"items", "keys", "values", "get", "pop", "update", "copy", "clear", "setdefault", "popitem"}
)
_MOST_OF_A_SCHEMA: Final = 5_000
"""Objects and arrays of one schema that are looked at."""


def hidden_fields(seen: Survey, known: ToolNames) -> Iterator[Finding]:
    """A warning for each attribute that is used as the field of a result and is the method of that name."""
    read = [each for each in seen.attributes if each.attr in _METHODS]
    if not read:
        return
    called = {id(call.func) for call, _ in seen.calls}
    own = {each.attr for each in read if not isinstance(each.ctx, ast.Load)}
    own |= {name for scope in seen.scopes if scope.kind == "class" for name in scope.stores}
    suspects = {each for each in read if id(each) not in called and each.attr not in own and not _of_self(each)}
    if not suspects:
        return
    keys: dict[str, str] = {}
    for call, _ in seen.calls:
        if (callee := known.tool_of(call)) is not None:
            for key in _keys(callee.shape.output_schema):
                keys.setdefault(key, callee.shape.name)
    for each in read:
        if each in suspects and each.attr in keys and not _may_be_the_method(each, seen.parents.get(each)):
            message = f"`.{each.attr}` is the dict's method and not the field of what {keys[each.attr]} gives"
            hint = f"write `{_written(each.value)}[{each.attr!r}]` for the field, or `.{each.attr}()` for the method"
            yield Finding.at(each, "hidden-field", message, hint, "warning")


def _written(node: ast.expr) -> str:
    try:
        return ast.unparse(node)[:80]
    except RecursionError:  # a chain of hundreds of subscripts
        return "..."


def _of_self(attribute: ast.Attribute) -> bool:
    return isinstance(attribute.value, ast.Name) and attribute.value.id in ("self", "cls")


def _may_be_the_method(node: ast.AST, parent: ast.AST | None) -> bool:
    """Whether the program may mean the method at this place: it passes the method on, or chooses it."""
    if isinstance(parent, ast.Call):
        return not (isinstance(parent.func, ast.Name) and parent.func.id in TAKE_A_VALUE)
    return isinstance(parent, ast.keyword | ast.Lambda) or (isinstance(parent, ast.IfExp) and node is not parent.test)


def _keys(schema: Mapping[str, Any] | None) -> set[str]:
    """Names of methods among the properties of a schema, at any depth."""
    found: set[str] = set()
    stack: list[Any] = [schema]
    for _ in range(_MOST_OF_A_SCHEMA):
        if not stack:
            break
        each = stack.pop()
        if isinstance(each, Mapping):
            properties = each.get("properties")
            if isinstance(properties, Mapping):
                found.update(_METHODS & properties.keys())
            stack.extend(each.values())
        elif isinstance(each, list):
            stack.extend(each)
    return found
