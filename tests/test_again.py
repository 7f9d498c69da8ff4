"""`tests/again.py`: what passes the second time is named, and what fails twice fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

AGAIN = Path(__file__).with_name("again.py")
ONCE = """
from pathlib import Path

def test_fails_once():
    mark = Path(__file__).with_suffix(".mark")
    known = mark.exists()
    mark.touch()
    assert known
"""


def run(folder: Path, source: str) -> tuple[int, list[str]]:
    """The exit status, and the last lines that are not pytest's."""
    test = folder / "test_given.py"
    test.write_text(source)
    done = subprocess.run(
        [sys.executable, AGAIN, "-q", "--rootdir", folder, "-c", "/dev/null", test],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    return done.returncode, [line for line in done.stdout.splitlines() if line.startswith("failed ")]


def test_a_test_that_passes_the_second_time_is_named(tmp_path: Path) -> None:
    status, lines = run(tmp_path, ONCE)
    assert (status, lines) == (0, ["failed once, and passed alone: test_given.py::test_fails_once"])


def test_a_test_that_fails_twice_fails_beside_one_that_passes_then(tmp_path: Path) -> None:
    status, lines = run(tmp_path, f"{ONCE}\ndef test_never():\n    assert False\n")
    assert status == 1
    assert sorted(lines) == [
        "failed once, and passed alone: test_given.py::test_fails_once", "failed twice: test_given.py::test_never"
    ]  # fmt: skip


@pytest.mark.parametrize(
    "broken",
    ["import nothing_of_this_name", "def test_(): 1 / 0\n" + "".join(f"def test_{n}(): 1 / 0\n" for n in range(6))],
)
def test_what_is_broken_is_not_run_again(tmp_path: Path, broken: str) -> None:
    status, lines = run(tmp_path, broken)
    assert status != 0
    assert lines == []
