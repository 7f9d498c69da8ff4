"""What a module of stubs must hold up to: two type checkers, Python itself, and values that its schemas allow."""

from __future__ import annotations

import ast
import atexit
import builtins
import functools
import importlib.util
import itertools
import json
import shutil
import subprocess
import sys
import tempfile
import types
import typing
from pathlib import Path
from typing import Any

from callgate.tools import Tool

PYRIGHT = shutil.which("basedpyright", path=str(Path(sys.executable).parent))
"""Pyright in a package that needs no download; None where it is not installed."""

_numbers = itertools.count()


def foreign(name: str, schema: dict[str, Any] | None = None, output: Any = None, description: str = "") -> Tool:
    """A tool from schemas that nobody here wrote."""
    return Tool.from_schema(name, description, schema or {"type": "object"}, lambda **_: None, output_schema=output)


@functools.cache
def _mypy_cache() -> str:
    """What mypy made of the standard library, for the next time. Modules of another folder are others."""
    made = tempfile.mkdtemp(prefix="stubs-mypy-")
    atexit.register(shutil.rmtree, made)
    return made


def passes_mypy(folder: Path, *modules: str) -> None:
    """`mypy --strict` has nothing to say of the modules."""
    options = ["--strict", "--config-file=", f"--cache-dir={_mypy_cache()}"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, *_written(folder, modules)],
        cwd=folder, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[:4000] + done.stderr[:1000]


def passes_pyright(folder: Path, *modules: str) -> None:
    """Pyright's strict rules have nothing to say of the modules. Names that begin with ``_`` are as good as others."""
    assert PYRIGHT is not None
    rules = {"typeCheckingMode": "strict", "reportPrivateUsage": False, "reportUnusedFunction": False}
    (folder / "pyrightconfig.json").write_text(json.dumps(rules))
    done = subprocess.run(
        [PYRIGHT, *_written(folder, modules)],
        cwd=folder, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[:4000] + done.stderr[:1000]


def imported(folder: Path, text: str) -> types.ModuleType:
    """The module, imported; warnings are errors."""
    name = f"stubs_imported_{next(_numbers)}"
    path = folder / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[name]
        path.unlink()
    return module


def _written(folder: Path, modules: tuple[str, ...]) -> list[str]:
    names = [f"stub_module_{number}.py" for number in range(len(modules))]
    for name, text in zip(names, modules, strict=True):
        (folder / name).write_text(text, encoding="utf-8")
    return names


def takes(annotation: str, value: Any, module: types.ModuleType) -> bool:
    """Whether a JSON value is of a type, as a type checker judges literals; a `TypedDict` may have more keys.

    Args:
        annotation: as the module has it, in text.
        value: made of what `json.loads` makes.
        module: where the names in `annotation` are.
    """
    return _takes(ast.parse(annotation, mode="eval").body, value, module)


def _takes(node: ast.expr, value: Any, module: types.ModuleType) -> bool:
    match node:
        case ast.BinOp(left, ast.BitOr(), right):
            return _takes(left, value, module) or _takes(right, value, module)
        case ast.Constant(None):
            return value is None
        case ast.Name(name):
            return _takes_named(vars(module).get(name) or getattr(builtins, name), value, module)
        case ast.Subscript(ast.Name("list"), item):
            return isinstance(value, list) and all(_takes(item, each, module) for each in value)
        case ast.Subscript(ast.Name("dict"), ast.Tuple([_, item])):
            return isinstance(value, dict) and all(_takes(item, each, module) for each in value.values())
        case ast.Subscript(ast.Name(name), inside) if vars(module)[name] is typing.Literal:
            listed = ast.literal_eval(inside)
            return any(_same(each, value) for each in (listed if isinstance(listed, tuple) else (listed,)))
        case ast.Subscript(ast.Name(name), inside) if vars(module)[name] is typing.NotRequired:
            return _takes(inside, value, module)
    raise AssertionError(f"not an annotation of stubs: {ast.unparse(node)}")


def _takes_named(named: Any, value: Any, module: types.ModuleType) -> bool:
    if isinstance(named, str):  # an alias
        return takes(named, value, module)
    if named is Any:
        return True
    if named is float:
        return type(value) in (int, float)
    if not typing.is_typeddict(named):
        return type(value) is named
    fields = {key: _text(field) for key, field in named.__annotations__.items()}
    return isinstance(value, dict) and all(
        takes(text, value[key], module) if key in value else not named.__total__ or text.startswith("NotRequired[")
        for key, text in fields.items()
    )


def _text(field: Any) -> str:
    return str(field.__forward_arg__) if isinstance(field, typing.ForwardRef) else str(field)


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and one == other
