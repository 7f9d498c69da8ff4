"""The table of what a user can see: each behaviour, where it is promised, and the tests that hold it."""

from __future__ import annotations

import ast
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
TABLE = Path(__file__).with_name("requirements.toml")


@dataclass(frozen=True)
class Requirement:
    """One behaviour. A test is ``tests/FILE.py::FUNCTION``, or a file whose tests are a table of such behaviours."""

    place: str
    says: str
    tests: tuple[str, ...]


def read() -> list[Requirement]:
    """All rows: in the file, each place has a table from what is said to its tests."""
    found = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return [Requirement(place, says, tuple(tests)) for place, rows in found.items() for says, tests in rows.items()]


def faults(table: list[Requirement], root: Path = ROOT) -> list[str]:
    """Rows without a test, and tests that are not there."""
    told = [f"{row.place}: {row.says}: no test" for row in table if not row.tests]
    for row in table:
        for test in row.tests:
            file, _, function = test.partition("::")
            if not (root / file).is_file() or (function and function.partition("[")[0] not in functions(root / file)):
                told.append(f"{row.place}: {row.says}: there is no {test}")
    return told


@cache
def functions(file: Path) -> frozenset[str]:
    """Names of the tests in a file."""
    nodes = ast.walk(ast.parse(file.read_bytes()))
    return frozenset(
        each.name
        for each in nodes
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.name.startswith("test_")
    )
