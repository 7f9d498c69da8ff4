"""Imitates another system in a fresh interpreter on Linux, for callgate's own modules: `install`.

1. What the other system lacks is read from typeshed, as mypy has it: names of the standard library that a stub has for
   Linux and not for the other system. Our modules cannot import such a module, and do not find such a name; other
   packages, and the tests themselves, find everything.
2. Our modules see the other system's `sys.platform`. `msvcrt` and `os.O_BINARY`, which only Windows has, have
   stand-ins.
3. For Windows: no event loop has signal handlers, `anyio` waits for sockets only, `os.open` opens no folders and
   nothing below an open folder, and `os.kill` with 0 would be Ctrl-C.

Not imitated: the file system, its paths and rights; ends of lines; pipes, processes and sockets; what other packages do
there. So this shows that nothing is missing on the paths that a test takes, not that callgate works there.

As a plugin of pytest (``-p elsewhere.imitation``), it imitates the system that the variable ``ELSEWHERE`` names.
"""

from __future__ import annotations

import ast
import asyncio
import builtins
import errno
import fcntl
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
import anyio.lowlevel

__all__ = ["SYSTEMS", "install", "lacking"]

SYSTEMS = ("win32", "darwin")
_OURS = {"callgate", "callgate_bench", "callgate_guest"}
_FOR_TYPES = {"__future__", "_typeshed", "builtins", "collections.abc", "sys", "types", "typing", "typing_extensions"}


# what a system has, as typeshed says


@cache
def _stub(module: str) -> ast.Module | None:
    """The stub of a module of the standard library."""
    found = importlib.util.find_spec("mypy")
    assert found is not None
    assert found.submodule_search_locations is not None
    place = Path(found.submodule_search_locations[0], "typeshed", "stdlib", *module.split("."))
    for path in (place.with_suffix(".pyi"), place / "__init__.pyi"):
        if path.is_file():
            return ast.parse(path.read_text(encoding="utf-8"))
    return None


def _holds(test: ast.expr, platform: str) -> bool:
    """Whether a condition of a stub holds for a system, in this version of Python."""
    if isinstance(test, ast.BoolOp):
        each = (_holds(value, platform) for value in test.values)
        return all(each) if isinstance(test.op, ast.And) else any(each)
    if isinstance(test, ast.UnaryOp):
        return not _holds(test.operand, platform)
    seen = {"sys.platform": platform, "sys.version_info": tuple(sys.version_info)}
    compared = "".join(f"({ast.unparse(test)})")
    for name, value in seen.items():
        compared = compared.replace(name, repr(value))
    return bool(eval(compared, {"TYPE_CHECKING": True}))


def _names(body: Sequence[ast.stmt], platform: str) -> Iterator[str]:
    for each in body:
        match each:
            case ast.If():
                yield from _names(each.body if _holds(each.test, platform) else each.orelse, platform)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield each.name
            case ast.Assign(targets=[ast.Name(id=name), *_]) | ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.ImportFrom(module=module) if module not in _FOR_TYPES:
                yield from (alias.asname or alias.name for alias in each.names)
            case _:
                pass


@cache
def lacking(module: str, platform: str) -> frozenset[str] | None:
    """Names of a module that Linux has and another system lacks; ``None`` if it lacks the module."""
    stub = _stub(module)
    if stub is None:
        return frozenset()
    here, there = (
        frozenset(name for name in _names(stub.body, each) if not name.startswith("_")) for each in ("linux", platform)
    )
    return here - there if there or not here else None


# what our modules see


class _Seen(ModuleType):
    """A module as it is elsewhere. What is set on it, a test's patch for example, is set on the real one."""

    def __init__(self, real: ModuleType, lacks: frozenset[str], instead: Mapping[str, Any]) -> None:
        super().__init__(real.__name__, real.__doc__)
        vars(self).update(_real=real, _lacks=lacks, **instead)

    def __getattr__(self, name: str) -> Any:
        own = vars(self)
        if name in own["_lacks"]:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}", name=name, obj=self)
        return getattr(own["_real"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(vars(self)["_real"], name, value)

    def __delattr__(self, name: str) -> None:
        delattr(vars(self)["_real"], name)


def install(platform: str) -> None:
    """Imitate a system of `SYSTEMS` for our modules that are imported from now on.

    Raises:
        RuntimeError: one of them was imported already.
    """
    if early := sorted(_OURS.intersection(sys.modules)):
        raise RuntimeError(f"imported before: {', '.join(early)}")
    instead: dict[str, dict[str, Any]] = {"sys": {"platform": platform}}
    if platform == "win32":
        instead["os"] = _os_of_windows()
        instead["msvcrt"] = _msvcrt()
        _event_loops_of_windows()
    before = builtins.__import__
    seen: dict[str, ModuleType] = {}

    def imported(
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        importer = str((globals or {}).get("__name__", "")).partition(".")[0]
        if level or importer not in _OURS:
            return before(name, globals, locals, fromlist or (), level)
        wanted = name if fromlist else name.partition(".")[0]
        if name == "msvcrt" and name in instead:
            return seen.setdefault(name, _Seen(ModuleType(name), frozenset(), instead[name]))
        lacks = lacking(wanted, platform)
        if lacks is None:
            raise ModuleNotFoundError(f"No module named {wanted!r}", name=wanted)
        module = before(name, globals, locals, fromlist or (), level)
        if not lacks and wanted not in instead:
            return module
        return seen.setdefault(wanted, _Seen(module, lacks, instead.get(wanted, {})))

    builtins.__import__ = imported


# Windows


def _os_of_windows() -> dict[str, Any]:
    def no_dir_fd(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, *arguments: Any, dir_fd: int | None = None, **options: Any) -> Any:
            if dir_fd is not None:
                raise NotImplementedError("dir_fd unavailable on this platform")
            if function is os.open and not arguments[0] & os.O_EXCL and os.path.isdir(path):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
            return function(path, *arguments, **options)

        return call

    def kill(pid: int, number: int) -> None:
        assert number, "on Windows, this sends Ctrl-C"
        os.kill(pid, number)

    functions = {
        name: no_dir_fd(getattr(os, name)) for name in ("open", "mkdir", "stat", "unlink", "rmdir", "readlink")
    }
    return {**functions, "kill": kill, "name": "nt", "supports_dir_fd": frozenset(), "O_BINARY": 0}


def _msvcrt() -> dict[str, Any]:
    def locking(descriptor: int, mode: int, count: int) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES)) from None

    return {"locking": locking, "LK_NBLCK": 2, "kbhit": lambda: False, "getwch": str}


def _event_loops_of_windows() -> None:
    def no_handler(*_: Any) -> None:
        raise NotImplementedError

    def sockets_only(wait: Callable[[Any], Any]) -> Callable[[Any], Any]:
        async def waited(what: Any) -> None:
            if isinstance(what, int) or not hasattr(what, "getsockname"):
                raise OSError(errno.ENOTSOCK, os.strerror(errno.ENOTSOCK))
            await wait(what)

        return waited

    loop: Any = asyncio.SelectorEventLoop
    loop.add_signal_handler = loop.remove_signal_handler = no_handler
    for name in ("wait_readable", "wait_writable"):
        setattr(anyio, name, sockets_only(getattr(anyio, name)))


if system := os.environ.get("ELSEWHERE"):
    install(system)
