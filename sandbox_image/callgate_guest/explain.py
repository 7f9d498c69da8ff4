"""What Python's own words for an error do not say to the author of a program: what is different here, what to write.

Knows programs: which of their functions have waited for a tool, what they can import. Is asked once, for the error that
ended a program; never changes what kind of error that is.
"""

from __future__ import annotations

import ast
import linecache
import os
import sys
import types
from collections.abc import Iterator

from .wire import PROGRAM_NAME

_PROGRAM = PROGRAM_NAME.rstrip(">")
_TAKE_AWAITABLES = frozenset({
    "gather", "create_task", "ensure_future", "wait_for", "shield", "wait", "as_completed", "run",
})  # fmt: skip
_MOST_WAITED = 256
_MOST_SHOWN = 30

_waited: dict[str, str] = {}
_confined: list[str | None] = []


def note_wait(function: str, tool: str) -> None:
    """The plain function of that name has waited for a call of that tool."""
    if len(_waited) < _MOST_WAITED and function.isidentifier():
        _waited[function] = tool


def confined(packages: str | None) -> None:
    """Programs have Python's standard library, the folder `packages` if there is one, and nothing else."""
    _confined[:] = [packages]


def advice(error: BaseException) -> str | None:
    """What to add to what an error says, or None where its own words do."""
    if isinstance(error, ModuleNotFoundError):
        return _of_import(error)
    if isinstance(error, SyntaxError):
        return _of_syntax(error)
    if isinstance(error, (TypeError, ValueError)) and _waited:
        return _of_await(error)
    return None


def _of_syntax(error: SyntaxError) -> str | None:
    if sys.version_info < (3, 12) and (error.msg or "").startswith("f-string"):
        return (
            f"this is Python {_version()}, and before 3.12 the braces of an f-string take neither the quotes that are "
            "around it nor a backslash"
        )
    return None


# a plain function whose result is awaited


def _of_await(error: BaseException) -> str | None:
    frame = _last_own(error.__traceback__)
    if frame is None:
        return None
    name, line = frame
    try:
        tree = ast.parse("".join(linecache.getlines(name)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    assigned = {
        node.targets[0].id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, (ast.Await, ast.Call)) and node.lineno <= line <= (node.end_lineno or node.lineno):
            for function in _awaited(node, assigned):
                if function in _waited:
                    return (
                        f"`{function}` is a plain def, its call has already waited: write `async def {function}` and "
                        f"`await {_waited[function]}(...)` in it, or drop `await`"
                    )
    return None


def _last_own(traceback: types.TracebackType | None) -> tuple[str, int] | None:
    """File and line of the program's innermost frame."""
    found = None
    while traceback is not None:
        name = traceback.tb_frame.f_code.co_filename
        if name.startswith(_PROGRAM):
            found = (name, traceback.tb_lineno)
        traceback = traceback.tb_next
    return found


def _awaited(node: ast.Await | ast.Call, assigned: dict[str, ast.expr]) -> Iterator[str]:
    """Names of the functions whose calls are awaited there."""
    if isinstance(node, ast.Await):
        yield from _called([node.value], assigned)
    else:
        called = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if called in _TAKE_AWAITABLES:
            yield from _called(node.args, assigned)


def _called(nodes: list[ast.expr], assigned: dict[str, ast.expr]) -> Iterator[str]:
    todo = list(nodes)
    for _ in range(1000):
        if not todo:
            return
        node = todo.pop()
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "map":
            todo.extend(node.args[:1])
        elif isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name in _TAKE_AWAITABLES:
                todo.extend(node.args)
            yield name
        elif isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.SetComp)):
            todo.append(node.elt)
        elif isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            todo.extend(node.elts)
        elif isinstance(node, ast.Starred):
            todo.append(node.value)
        elif isinstance(node, ast.Name):
            yield node.id
            value = assigned.pop(node.id, None)
            if value is not None:
                todo.append(value)


# a module that is not there


def _of_import(error: ModuleNotFoundError) -> str | None:
    name = (error.name or "").partition(".")[0]
    if not name or name == "tools" or not _confined:
        return None
    if name in getattr(sys.modules.get("tools"), "__dict__", {}):
        return f"{name} is there without an import: it is a tool, or a server's tools"
    if name in sys.stdlib_module_names:
        if error.name != name:
            return None
        return f"it belongs to Python's standard library, and this Python ({_version()}) has been built without it"
    folder = _confined[0]
    there = f"Python {_version()}'s standard library"
    there += f" and {_packages(folder)}" if folder else " and nothing else"
    return (
        f"programs can import {there}. Write it without {name}; whoever runs callgate adds packages with "
        f"Runtime(packages=...) or `callgate image build --requirements {name}`"
    )


def _version() -> str:
    return ".".join(map(str, sys.version_info[:2]))


def _packages(folder: str) -> str:
    try:
        found = {entry.removesuffix(".py").partition(".")[0] for entry in os.listdir(folder)}
    except OSError:
        return f"what is in {folder}"
    names = sorted(each for each in found if each.isidentifier() and not each.startswith("_"))
    more = f" and {len(names) - _MOST_SHOWN} more" if len(names) > _MOST_SHOWN else ""
    return (", ".join(names[:_MOST_SHOWN]) or "nothing else") + more
