"""What a run that can be replayed refuses, found before it runs: threads, and timers that send signals.

Knows the functions that start them, by the names that imports give them. Does not follow them through variables.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from .findings import Finding
from .survey import Survey

__all__ = ["not_replayable"]

_THREADS: Final = {
    "_thread": ("start_new_thread",),
    "asyncio": ("to_thread",),
    "concurrent.futures": ("ProcessPoolExecutor", "ThreadPoolExecutor"),
    "multiprocessing": ("Pool", "Process"),
    "multiprocessing.pool": ("ThreadPool",),
    "threading": ("Thread", "Timer"),
}
_SIGNALS: Final = frozenset({"signal.alarm", "signal.setitimer"})
_MOST_PARTS: Final = 4


def not_replayable(seen: Survey) -> Iterator[Finding]:
    """A finding for each call that starts a thread, or a timer that sends a signal."""
    modules = _imported(seen)
    for call, _ in seen.calls:
        name = _full_name(call.func, modules)
        module, _, function = name.rpartition(".")
        in_executor = isinstance(call.func, ast.Attribute) and call.func.attr == "run_in_executor"
        if function in _THREADS.get(module, ()) or in_executor:
            message = f"{name or 'run_in_executor'} starts a thread, and a run that can be replayed has none"
            hint = "use async functions with asyncio.gather or a TaskGroup"
        elif name in _SIGNALS:
            message = f"{name} starts a timer that sends a signal, and a run that can be replayed has none"
            hint = "use `async with asyncio.timeout(...)`"
        else:
            continue
        yield Finding.at(call, "not-replayable", message, hint, seen.severity(call.lineno))


def _imported(seen: Survey) -> dict[str, str]:
    """What names that one import binds, and nothing else, stand for: ``{"cf": "concurrent.futures"}``."""
    found: dict[str, str] = {}
    for node, _ in seen.imports:
        for alias in node.names:
            name = alias.asname or alias.name.partition(".")[0]
            if isinstance(node, ast.ImportFrom):
                found[name] = f"{node.module}.{alias.name}"
            else:
                found[name] = alias.name if alias.asname else name
    return {name: full for name, full in found.items() if seen.counts[name] == 1}


def _full_name(node: ast.expr, modules: dict[str, str]) -> str:
    """The dotted name of a function, with its module; empty if it does not come from an import."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute) and len(parts) < _MOST_PARTS:
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in modules:
        return ""
    return ".".join((modules[node.id], *reversed(parts)))
