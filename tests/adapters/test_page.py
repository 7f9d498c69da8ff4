"""What docs/adapters.md shows is run, in order, and what it says that comes out does."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "adapters.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_pages_programs_run_one_after_the_other_and_print_what_is_shown() -> None:
    source = "\n".join(text for kind, text in BLOCKS if kind == "python")
    shown = "".join(text for kind, text in BLOCKS if kind == "text")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", source], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.stdout, done.stderr) == (shown, "")
