"""The table of docs/planners.md: every requirement has a place that exists and a test that exists."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "planners.md").read_text()
TABLES = PAGE.partition("## Every requirement")[2]
ROWS = re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \|$", TABLES, re.MULTILINE)
REQUIREMENTS = [row for row in ROWS if "`tests/" in row[2]]
WHERE = re.compile(r"`((?:agent|runtime|plan|protocol|sandbox|tools|cli|bench|search|program)/[\w/]*(?:\.py)?)`")


@cache
def _tests(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text())
    return frozenset(
        node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )  # fmt: skip


def test_there_is_a_row_for_every_requirement() -> None:
    assert len(REQUIREMENTS) > 100
    assert [row for row in ROWS if row not in REQUIREMENTS and row[0] != "requirement"] == []


@pytest.mark.parametrize("row", REQUIREMENTS, ids=lambda row: row[0][:60])
def test_what_a_row_names_is_there(row: tuple[str, str, str]) -> None:
    _, where, tests = row
    for place in WHERE.findall(where):
        assert (ROOT / "host" / "callgate" / place).exists(), place
    named = re.findall(r"`(tests/[\w/.]+)(?:::(\w+))?`", tests)
    assert named
    for path, name in named:
        assert (ROOT / path).exists(), path
        assert not name or name in _tests(path), (path, name)


def test_the_program_prints_what_is_shown_below_it() -> None:
    (source,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (shown,) = re.findall(r"^```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", source], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == (shown, "")
