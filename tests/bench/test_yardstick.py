"""The yardstick: work that is always the same, leaves nothing behind and says when it could not be done."""

from __future__ import annotations

import ast
import gc
import os
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from callgate_bench import machine as module
from callgate_bench.machine import yardstick


def children() -> set[str]:
    """Processes of this one, also those that ended and nobody asked for. Empty where there is no /proc."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            pid, parent = stat.parent.name, stat.read_text().rpartition(")")[2].split()[1]
            found |= {pid} if parent == str(os.getpid()) else set()
    return found


def test_it_takes_some_time() -> None:
    assert 0.005 < yardstick() < 30


def test_it_imports_nothing_but_the_standard_library() -> None:
    assert module.__file__ is not None
    tree = ast.parse(Path(module.__file__).read_text())
    froms = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    plain = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert {name.partition(".")[0] for name in froms | plain} <= set(sys.stdlib_module_names)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts descriptors in /proc")
def test_it_leaves_no_process_and_no_descriptor() -> None:
    yardstick()
    before, processes = len(os.listdir("/proc/self/fd")), children()
    yardstick()
    assert len(os.listdir("/proc/self/fd")) == before
    assert children() <= processes


@pytest.mark.parametrize("collects", [True, False])
def test_the_garbage_collector_is_left_as_it_was(collects: bool) -> None:
    was = gc.isenabled()
    (gc.enable if collects else gc.disable)()
    try:
        yardstick()
        assert gc.isenabled() == collects
    finally:
        (gc.enable if was else gc.disable)()


@pytest.mark.parametrize(
    "program", ["raise SystemExit(7)", "import os; os.read(0, 1); os.close(1); raise SystemExit(7)"]
)
def test_a_process_that_ends_early_is_told_and_reaped(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    monkeypatch.setattr(module, "_ECHO", program)
    before = children()
    with pytest.raises(BrokenPipeError):
        yardstick()
    assert children() <= before


def test_an_interpreter_that_is_not_there_is_an_os_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(OSError, match="No such file"):
        yardstick()
    assert gc.isenabled()
