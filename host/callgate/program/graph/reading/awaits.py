"""Calls of tools in a program: started, awaited, gathered, held in lists. Knows how programs write them."""

from __future__ import annotations

import ast
from typing import Final

from callgate.plan.expressions.trees import nodes_of
from callgate.program.graph.flow import CallTool, Gather, Hold, Part, Site

from .lift import Lifter
from .rounds import rounds
from .scope import GraphTool, namespace_of, refusal, written

__all__ = ["awaited", "list_of_calls", "need_asyncio", "started", "starts"]

_TASKS: Final = ("create_task", "ensure_future")
_MOST_SITES: Final = 2_000


def tool_of(lifter: Lifter, node: ast.expr) -> tuple[GraphTool, list[ast.expr]] | None:
    """The tool that an expression calls, and the positional arguments; None if it does not call a tool."""
    if not isinstance(node, ast.Call):
        return None
    function = node.func
    scope = lifter.scope
    if isinstance(function, ast.Name):
        if function.id in scope.tools:
            return scope.tools[function.id], node.args
        if function.id == "tool_call":
            name = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
            found = scope.resolve(name) if isinstance(name, str) else None
            if found is None or found not in scope.tools or len(node.args) > 1:
                raise refusal(node, "it names no tool that is known", "call the tool by its name")
            return scope.tools[found], []
    elif isinstance(function, ast.Attribute) and (namespace := namespace_of(scope, function.value)) is not None:
        member = function.attr
        if namespace or member not in scope.tools:
            member = scope.namespaces.get(namespace, {}).get(member, "")
        if member not in scope.tools:
            raise refusal(node, "there is no such tool")
        return scope.tools[member], node.args
    return None


def started(lifter: Lifter, node: ast.expr, slot: str = "") -> str | None:
    """Start the call that an expression is. Returns its slot, a new one without `slot`; None if it is not a call."""
    task = _task_argument(lifter, node)
    inner = node if task is None else task
    found = tool_of(lifter, inner)
    if found is None:
        if task is not None:
            raise refusal(node, "it is given something else than a call of a tool")
        return None
    assert isinstance(inner, ast.Call)
    return _start(lifter, inner, *found, slot or lifter.scope.slot(), task=task is not None)


def _task_argument(lifter: Lifter, node: ast.expr) -> ast.expr | None:
    if not (isinstance(node, ast.Call) and _asyncio_function(node) in _TASKS):
        return None
    need_asyncio(lifter, node)
    if len(node.args) != 1 or node.keywords:
        raise refusal(node, "it takes one call and nothing else here")
    return node.args[0]


def _start(
    lifter: Lifter, node: ast.Call, tool: GraphTool, positional: list[ast.expr], slot: str, *, task: bool
) -> str:
    if tool.variadic and positional:
        positional = [_one_list(node, positional)]
    if len(positional) > len(tool.parameters):
        raise refusal(node, f"{tool.name} takes {len(tool.parameters)} positional arguments")
    names = list(tool.parameters[: len(positional)])
    for keyword in node.keywords:
        if keyword.arg is None:
            raise refusal(node, "`**` hides what the arguments are", "write them out by name")
        name = keyword.arg
        names.append(name if name in tool.parameters else tool.spellings.get(name, name))
    given = [*positional, *(keyword.value for keyword in node.keywords)]
    if any(isinstance(argument, ast.Starred) for argument in given):
        raise refusal(node, "`*` hides what the arguments are", "write them out by name")
    if len(set(names)) < len(names):
        raise refusal(node, "an argument is given twice")
    lifted = lifter.in_order(given)
    arguments = tuple(
        (name, lifter.pure(node, original=original)) for name, node, original in zip(names, lifted, given, strict=True)
    )
    if len(lifter.sites) >= _MOST_SITES:
        raise refusal(node, f"a program has at most {_MOST_SITES} places that call a tool", "use a loop")
    site = Site(len(lifter.sites), tool.tool, tool.name, tool.early, _line_of(node), lifter.text_of(node))
    lifter.sites.append(site)
    lifter.block.append(CallTool(slot, site, arguments, node.lineno, task))
    return slot


def _one_list(node: ast.Call, positional: list[ast.expr]) -> ast.expr:
    """All positional arguments as one list, or the only argument if it is a list already."""
    if len(positional) == 1 and isinstance(positional[0], ast.List | ast.Tuple):
        return positional[0]
    if not all(isinstance(each, ast.Constant) and isinstance(each.value, str) for each in positional):
        raise refusal(node, "its arguments may be names, or a list of them", "pass a list by name")
    return ast.copy_location(ast.List(positional, ast.Load()), node)


def awaited(lifter: Lifter, node: ast.Await) -> ast.expr:
    """The variable that holds the awaited result."""
    inner = node.value
    if isinstance(inner, ast.Call) and _asyncio_function(inner) == "gather":
        return _gathered(lifter, node, inner)
    if isinstance(inner, ast.Name) and inner.id in lifter.scope.slots:
        lifter.scope.use(inner.id, "call", node.lineno)
        slot: str | None = inner.id
    else:
        slot = started(lifter, inner)
    if slot is None:
        raise refusal(node, "what is awaited is not a call of a tool", "await tools and asyncio.gather")
    name = lifter.scope.fresh()
    lifter.block.append(Gather(name, (Part(slot),), node.lineno, alone=True))
    return ast.Name(name, ast.Load())


def _gathered(lifter: Lifter, node: ast.Await, call: ast.Call) -> ast.expr:
    need_asyncio(lifter, call)
    for keyword in call.keywords:
        is_default = isinstance(keyword.value, ast.Constant) and keyword.value.value is False
        if keyword.arg != "return_exceptions" or not is_default:
            shown = f"gather({keyword.arg}=…)"
            raise refusal(call, "errors as values are not part of a graph", what=shown)
    parts: list[Part] = []
    for argument in call.args:
        spread = isinstance(argument, ast.Starred)
        inner = argument.value if isinstance(argument, ast.Starred) else argument
        if isinstance(inner, ast.Name) and inner.id in lifter.scope.slots:
            lifter.scope.use(inner.id, "calls" if spread else "call", inner.lineno)
            slot: str | None = inner.id
        else:
            slot = list_of_calls(lifter, inner) if spread else started(lifter, inner)
        if slot is None:
            raise refusal(inner, "gather is given something else than calls of tools", what=written(argument))
        parts.append(Part(slot, spread))
    name = lifter.scope.fresh()
    lifter.block.append(Gather(name, tuple(parts), node.lineno))
    return ast.Name(name, ast.Load())


def need_asyncio(lifter: Lifter, node: ast.AST) -> None:
    """Raise a `Refusal` unless asyncio was imported."""
    if "asyncio" not in lifter.scope.modules:
        line = getattr(node, "lineno", 1)
        raise refusal(line, "it is used before it is imported", "write `import asyncio` at the top", what="asyncio")


def list_of_calls(lifter: Lifter, node: ast.expr, slots: str = "") -> str | None:
    """Start the calls of a list without awaiting them. Returns the slot of the list, a new one without `slots`; None if
    the expression is not such a list.

    A generator starts its calls when it is read: it is treated as a list, and must be read at once.
    """
    if isinstance(node, ast.ListComp | ast.GeneratorExp):
        if not starts(lifter, node.elt):
            return None
        if isinstance(node, ast.GeneratorExp) and _is_asynchronous(node):
            raise refusal(node, "a generator that awaits is asynchronous", "write a list, [...]")
        slots = _new_list_of_calls(lifter, node.lineno, slots)

        def hold(element: list[ast.expr]) -> None:
            slot = started(lifter, element[0])
            lifter.block.append(Hold(slots, slot, node.lineno))

        rounds(lifter, node, [node.elt], hold)
        return slots
    if isinstance(node, ast.List | ast.Tuple) and node.elts and all(starts(lifter, element) for element in node.elts):
        slots = _new_list_of_calls(lifter, node.lineno, slots)
        for element in node.elts:
            lifter.block.append(Hold(slots, started(lifter, element), element.lineno))
        return slots
    return None


def starts(lifter: Lifter, node: ast.expr) -> bool:
    """Whether an expression starts a call and does not await it."""
    if isinstance(node, ast.Call) and _asyncio_function(node) in _TASKS and len(node.args) == 1:
        node = node.args[0]
    return tool_of(lifter, node) is not None


def _new_list_of_calls(lifter: Lifter, line: int, slots: str) -> str:
    slots = slots or lifter.scope.slot()
    lifter.block.append(Hold(slots, None, line))
    return slots


def _is_asynchronous(node: ast.GeneratorExp) -> bool:
    """Whether a generator awaits anything, apart from the first thing that it iterates over."""
    first, *others = node.generators
    inner = [node.elt, *first.ifs, *others]
    return any(isinstance(each, ast.Await) for each in nodes_of(inner))


def _asyncio_function(node: ast.Call) -> str | None:
    function = node.func
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id == "asyncio":
        return function.attr
    return None


def _line_of(node: ast.Call) -> int:
    """The line that CPython gives a call: of a method over several lines, the line of the method's name."""
    method = node.func
    if isinstance(method, ast.Attribute):
        return method.end_lineno or node.lineno
    return node.lineno
