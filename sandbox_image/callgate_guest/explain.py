"""Words that Python's own errors lack for the author of a program: what is different here, what to write instead.

Knows which functions of programs have waited for a tool, and what programs can import. `advice` is called once, for the
error that ended a program. Never changes the kind of an error.
"""

from __future__ import annotations

import ast
import errno
import functools
import linecache
import os
import socket
import sys
import types
from collections.abc import Callable
from itertools import islice
from typing import Any

from .wire import PROGRAM_NAME

_PROGRAM = PROGRAM_NAME.rstrip(">")
_TAKE_AWAITABLES = frozenset({
    "gather", "create_task", "ensure_future", "wait_for", "shield", "wait", "as_completed", "run",
})  # fmt: skip
_NO_NETWORK = "programs have no network, and trying again does not help: call a tool instead"
_RESOLVERS = ("getaddrinfo", "gethostbyname", "gethostbyname_ex", "gethostbyaddr", "getnameinfo")
_MOST_WAITED = 256
_MOST_SHOWN = 30
_MOST_COMPARED = 1_000
_MOST_CHARACTERS = 100
_INPUT = "/input"

_waited: dict[str, str] = {}
_confined: list[str | None] = []


def note_wait(function: str, tool: str) -> None:
    """Note that a plain function has waited for a call of a tool."""
    if len(_waited) < _MOST_WAITED and function.isidentifier():
        _waited[function] = tool


def confined(packages: str | None) -> None:
    """Programs have Python's standard library, the folder `packages` if there is one, and nothing else."""
    _confined[:] = [packages]


def advice(error: BaseException) -> str | None:
    """A sentence to add to the text of an error; None if its own words suffice."""
    if isinstance(error, ModuleNotFoundError):
        return _of_import(error)
    if isinstance(error, SyntaxError):
        return _of_syntax(error)
    if isinstance(error, OSError) and isinstance(error.filename, str):
        return _of_file(error.errno, error.filename)
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
    try:
        names = _awaited(error.__traceback__)
    except (SyntaxError, ValueError, RecursionError, MemoryError, IndexError):
        return None
    function = next(filter(names.__contains__, _waited), None)
    if function is None:
        return None
    return (
        f"`{function}` is a plain def, its call has already waited: write `async def {function}` and "
        f"`await {_waited[function]}(...)` in it, or drop `await`"
    )


def _awaited(traceback: types.TracebackType | None) -> set[str]:
    """Names in the expression that the program's innermost frame awaits, and in the values assigned to these names."""
    name = ""
    place: tuple[int | None, ...] = (1, 1, 0, 0)
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if code.co_filename.startswith(_PROGRAM):
            name, place = code.co_filename, next(islice(code.co_positions(), traceback.tb_lasti // 2, None))
        traceback = traceback.tb_next
    line, end_line, column, end_column = (each or 0 for each in place)
    lines = [each.encode() for each in linecache.getlines(name)]
    text = b"".join([*lines[line - 1 : end_line - 1], lines[end_line - 1][:end_column]])[column:]
    flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    node = compile(b"(" + text + b")", name, "eval", flags, dont_inherit=True).body
    awaited: list[ast.expr] = []
    if isinstance(node, ast.Await):
        awaited = [node.value.func if isinstance(node.value, ast.Call) else node.value]
    elif isinstance(node, ast.Call) and _names([node.func]) & _TAKE_AWAITABLES:
        awaited = node.args
    names = _names(awaited)
    for each in ast.walk(ast.parse(b"".join(lines))) if names else ():
        if isinstance(each, ast.Assign) and _names(each.targets) & names:
            names |= _names([each.value])
    return names


def _names(nodes: list[ast.expr]) -> set[str]:
    inner = [each for node in nodes for each in ast.walk(node)]
    return {getattr(each, "attr", getattr(each, "id", "")) for each in inner}


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
        f"programs can import {there}. Write it without {name}; the operator adds packages with "
        f"`callgate packages add {name} --to DIR` and packages=DIR, or `callgate image build --requirements {name}`"
    )


def _version() -> str:
    return ".".join(map(str, sys.version_info[:2]))


def _packages(folder: str) -> str:
    try:
        modules = (entry for entry in os.listdir(folder) if entry.endswith((".py", ".so")) or "." not in entry)
        found = {entry.partition(".")[0] for entry in modules} - {"bin", "share"}
    except OSError:
        return f"what is in {folder}"
    names = sorted(each for each in found if each.isidentifier() and not each.startswith("_"))
    more = f" and {len(names) - _MOST_SHOWN} more" if len(names) > _MOST_SHOWN else ""
    return (", ".join(names[:_MOST_SHOWN]) or "nothing else") + more


# a file that is not there, or is only to be read


def _of_file(number: int | None, name: str) -> str | None:
    if number not in (errno.ENOENT, errno.EROFS, errno.EACCES) or not _confined:
        return None
    try:
        given = sorted(os.listdir(_INPUT))
    except OSError:
        return None
    if not given:
        return None
    if number != errno.ENOENT:
        inside = name.startswith(_INPUT) or os.path.basename(name) in given
        return "files that were given can only be read: write to another name" if inside else None
    import difflib  # most guests never need it

    listed = ", ".join(each[:_MOST_CHARACTERS] for each in given[:_MOST_SHOWN])
    more = f" and {len(given) - _MOST_SHOWN} more" if len(given) > _MOST_SHOWN else ""
    near = difflib.get_close_matches(os.path.basename(name), given[:_MOST_COMPARED], 1)
    meant = f"; did you mean {near[0]!r}?" if near and near[0] != name else ""
    return f"the files here are {listed}{more}, in {_INPUT}{meant}"


# the network


def explain_missing_network() -> None:
    """Let failing functions of `socket` say that programs have no network, in this process and those forked from it.

    This confines nothing, the kernel does (see `jail`). But an error of the resolver reads as if it may pass, and then
    a program, or the model that wrote it, tries again.
    """
    for name in _RESOLVERS:
        setattr(socket, name, _explained(getattr(socket, name)))
    socket.socket.__init__ = _explained(socket.socket.__init__)  # type: ignore[method-assign]


def _explained(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def explained(*arguments: Any, **options: Any) -> Any:
        try:
            return function(*arguments, **options)
        except OSError as error:
            if isinstance(error, (socket.gaierror, socket.herror)) or error.errno in (errno.EPERM, errno.EACCES):
                error.args = (error.errno, _NO_NETWORK)
                error.strerror = _NO_NETWORK
            raise

    return explained
