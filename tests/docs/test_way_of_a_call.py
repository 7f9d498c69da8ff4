"""`docs/way_of_a_call.py` prints the files that a program passes, in order."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "docs" / "way_of_a_call.py"
PASSED = {
    "plan": ["runtime/runtime.py", "program/check.py", "runtime/fast_path/drive.py", "tools/tool.py"],
    "sandbox": ["runtime/runtime.py", "program/check.py", "runtime/guest_run.py", "tools/tool.py"],
}


@pytest.mark.parametrize("path", PASSED)
def test_the_way_is_printed_in_order(path: str) -> None:
    done = subprocess.run([sys.executable, SCRIPT, path], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    title, *lines = done.stdout.splitlines()
    assert title == f"print(await f(2)), path '{path}': {len(lines)} files"
    files = [line.split()[0] for line in lines]
    places = [files.index(file) for file in PASSED[path]]
    assert places == sorted(places), files
