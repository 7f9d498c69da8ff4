"""``--tools``: from a file or module to the tools in it. Runs the operator's own code, with all the host's rights."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from callgate.errors import ConfigurationError
from callgate.tools import Registry, Tool

from .words import Stop

__all__ = ["load_tools"]

_FORMS = "--tools takes FILE.py, FILE.py:NAME, package.module or package.module:NAME"


def load_tools(specifications: Iterable[str]) -> Registry:
    """The tools of all `specifications` together.

    Args:
        specifications: ``FILE.py``, ``package.module``, either with ``:NAME``. Without a name: every `Tool` at the top
            level. A name stands for a `Tool`, a `Registry`, a list of tools and functions, or a plain function.

    Raises:
        Stop: something in them is wrong; a usage error.
    """
    found: dict[int, Tool] = {}
    for specification in specifications:
        target, name = _parts(specification)
        module = _file(target) if target.endswith(".py") else _module(target)
        for tool in _named(module, name, specification) if name else _all(module, specification):
            found.setdefault(id(tool), tool)
    try:
        return Registry(found.values())
    except ConfigurationError as error:
        raise Stop(str(error), "name one of them with FILE.py:NAME, or rename it with @tool(name=...)") from None


def _parts(specification: str) -> tuple[str, str]:
    target, colon, name = specification.rpartition(":")
    if not colon:
        return specification, ""
    if not target or not name.isidentifier():
        raise Stop(f"--tools {specification!r} names nothing", _FORMS)
    return target, name


def _file(path: str) -> ModuleType:
    place = Path(path)
    if not place.is_file():
        raise Stop(f"there is no file {path}", _FORMS)
    name = f"callgate_tools_{abs(hash(place.resolve())):x}"
    if name in sys.modules:
        return sys.modules[name]
    specification = importlib.util.spec_from_file_location(name, place)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module  # pydantic and dataclasses look annotations up there
    _search(place.resolve().parent)
    try:
        specification.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        told = _told(error, str(module.__file__))
        raise Stop(f"{path} could not be loaded: {told}", "run it with python to see the whole traceback") from None
    return module


def _module(name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise Stop(f"--tools {name!r} is neither a .py file nor a module", _FORMS)
    _search(Path.cwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            hint = (
                f"did you mean the file {name}.py?" if Path(f"{name}.py").is_file() else "install it, or name a FILE.py"
            )
            raise Stop(f"there is no module {name!r}", hint) from None
        raise Stop(
            f"module {name!r} could not be imported: {error}", "install what it needs into this environment"
        ) from None
    except (Exception, SystemExit) as error:
        raise Stop(
            f"module {name!r} could not be imported: {_told(error)}", f"python -c 'import {name}' shows it whole"
        ) from None


def _search(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _told(error: BaseException, file: str | None = None) -> str:
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: {error.msg}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if file and frame.filename == file]
    place = f"line {lines[-1]}: " if lines else ""
    return f"{place}{type(error).__name__}: {error}"


def _all(module: ModuleType, specification: str) -> list[Tool]:
    tools = [value for value in vars(module).values() if isinstance(value, Tool)]
    if not tools:
        functions = [name for name, value in vars(module).items() if _is_own_function(module, name, value)]
        tip = (
            f"decorate a function with @tool, or name one: {specification}:{functions[0]}"
            if functions
            else "decorate a function with @tool"
        )
        raise Stop(f"{specification} has no tools", tip)
    return tools


def _is_own_function(module: ModuleType, name: str, value: Any) -> bool:
    return not name.startswith("_") and callable(value) and getattr(value, "__module__", None) == module.__name__


def _named(module: ModuleType, name: str, specification: str) -> list[Tool]:
    try:
        value = getattr(module, name)
    except AttributeError:
        names = [each for each in vars(module) if not each.startswith("_")]
        near = difflib.get_close_matches(name, names, 1)
        tip = f"did you mean {near[0]}?" if near else _FORMS
        raise Stop(f"--tools {specification}: there is no {name!r} in it", tip) from None
    try:
        if isinstance(value, Registry):
            return list(value)
        several = value if isinstance(value, (list, tuple, set, frozenset)) else [value]
        return [each if isinstance(each, Tool) else _made(each) for each in several]
    except ConfigurationError as error:
        raise Stop(
            f"--tools {specification}: {error}", "a tool is a function with annotated parameters and a docstring"
        ) from None


def _made(value: Any) -> Tool:
    if not callable(value):
        raise ConfigurationError(f"{value!r} is neither a tool nor a function")
    return Tool.from_function(value)
