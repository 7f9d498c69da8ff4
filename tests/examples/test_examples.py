"""Every example runs, asserts what it shows, and warns of nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("example", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_an_example_runs(example: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / example)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout or example == "tools_for_cli.py"


def test_the_index_names_every_example() -> None:
    index = (EXAMPLES / "README.md").read_text()
    assert [path.name for path in sorted(EXAMPLES.glob("*.py")) if f"({path.name})" not in index] == []
