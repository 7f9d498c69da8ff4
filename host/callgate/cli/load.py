"""``--tools``: loads the tools of a file or module. The file is the operator's own code, and runs with all rights."""

from __future__ import annotations

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
from callgate.tools.faults import did_you_mean

from .words import Stop

__all__ = ["load_tools"]

_FORMS = "--tools takes FILE.py, FILE.py:NAME, package.module or package.module:NAME"


def load_tools(specifications: Iterable[str]) -> Registry:
    """The tools of all `specifications`, in one registry.

    Args:
        specifications: ``FILE.py``, ``package.module``, either with ``:NAME``. Without a name: every `Tool` at the top
            level. A name stands for a `Tool`, a `Registry`, a list of tools and functions, or a plain function.

    Raises:
        Stop: a specification is wrong; a usage error.
    """
    found: dict[int, Tool] = {}
    for specification in specifications:
        target, colon, name = specification.rpartition(":")
        if not colon:
            target, name = specification, ""
        elif not target or not name.isidentifier():
            raise Stop(f"--tools {specification!r} names nothing", _FORMS)
        module = _imported(target)
        for tool in _named(module, name, specification) if name else _all(module, specification):
            found.setdefault(id(tool), tool)
    try:
        return Registry(found.values())
    except ConfigurationError as error:
        raise Stop(str(error), "name one of them with FILE.py:NAME, or rename it with @tool(name=...)") from None


def _imported(target: str) -> ModuleType:
    file = Path(target).resolve() if target.endswith(".py") else None
    if file is not None and not file.is_file():
        raise Stop(f"there is no file {target}", _FORMS)
    if file is None and not all(part.isidentifier() for part in target.split(".")):
        raise Stop(f"--tools {target!r} is neither a .py file nor a module", _FORMS)
    folder = str(file.parent if file else Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        return importlib.import_module(target) if file is None else _of_file(file)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and file is None and f"{target}.".startswith(f"{error.name}."):
            meant = f"{target}.py"
            tip = f"did you mean the file {meant}?" if Path(meant).is_file() else "install it, or name a FILE.py"
            raise Stop(f"there is no module {target!r}", tip) from None
        tip = "run it with python to see the whole traceback"
        raise Stop(f"{target} could not be loaded: {_reason(error, str(file))}", tip) from None


def _of_file(file: Path) -> ModuleType:
    name = f"callgate_tools_{abs(hash(file)):x}"
    if name not in sys.modules:
        specification = importlib.util.spec_from_file_location(name, file)
        assert specification is not None
        assert specification.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(specification)  # pydantic looks annotations up there
        specification.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def _reason(error: BaseException, file: str) -> str:
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: {error.msg}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    place = f"line {lines[-1]}: " if lines else ""
    return f"{place}{type(error).__name__}: {error}"


def _all(module: ModuleType, specification: str) -> list[Tool]:
    tools = [value for value in vars(module).values() if isinstance(value, Tool)]
    if not tools:
        own = [
            name for name, value in vars(module).items()
            if not name.startswith("_") and callable(value) and getattr(value, "__module__", None) == module.__name__
        ]  # fmt: skip
        tip = (
            f"decorate a function with @tool, or name one: {specification}:{own[0]}"
            if own
            else "decorate a function with @tool"
        )
        raise Stop(f"{specification} has no tools", tip)
    return tools


def _named(module: ModuleType, name: str, specification: str) -> list[Tool]:
    if not hasattr(module, name):
        meant = did_you_mean(name, [each for each in vars(module) if not each.startswith("_")])
        raise Stop(f"--tools {specification}: there is no {name!r} in it{meant}", _FORMS)
    value = getattr(module, name)
    try:
        several = value if isinstance(value, (Registry, list, tuple, set, frozenset)) else [value]
        return [each if isinstance(each, Tool) else _made(each) for each in several]
    except ConfigurationError as error:
        tip = "a tool is a function with annotated parameters and a docstring"
        raise Stop(f"--tools {specification}: {error}", tip) from None


def _made(value: Any) -> Tool:
    if not callable(value):
        raise ConfigurationError(f"{value!r} is neither a tool nor a function")
    return Tool.from_function(value)
