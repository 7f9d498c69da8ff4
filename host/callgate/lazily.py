"""Imports at the first use: of a package's public names (PEP 562), and of modules under an event loop."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

__all__ = ["imported", "names_from"]


def names_from(
    package: str, homes: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Build a package's ``__getattr__`` and ``__dir__``.

    Args:
        package: its name.
        homes: the public names of each module, by the module's name within the package.
    """
    home_of = {name: module for module, names in homes.items() for name in names}

    def get(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{package}.{home_of[name]}"), name)
        return vars(sys.modules[package]).setdefault(name, value)

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *home_of})

    return get, names


async def imported(module: str) -> ModuleType:
    """Return a module. A thread imports a new module, so that the event loop runs on."""
    if module not in sys.modules:
        import anyio.to_thread

        await anyio.to_thread.run_sync(importlib.import_module, module)
    return importlib.import_module(module)
