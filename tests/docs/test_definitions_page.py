"""What docs/definitions.md shows is run, and prints what the page says; its tables name what there is."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from callgate.runtime.model.options import DefinitionOptions

PAGE = (Path(__file__).parents[2] / "docs" / "definitions.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_pages_programs_print_what_is_shown() -> None:
    source = "\n".join(text for kind, text in BLOCKS if kind == "python")
    shown = "".join(text for kind, text in BLOCKS if kind == "text")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", source], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == (shown, "")


def test_the_page_names_every_option() -> None:
    table = PAGE.split("| option | |\n", 1)[1].split("\n\n", 1)[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == set(DefinitionOptions.__annotations__)
