"""What docs/names.md shows is run, and prints what the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "names.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_page_s_program_prints_what_is_shown() -> None:
    ((_, source), (_, shown)) = BLOCKS
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", source], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == (shown, "")
