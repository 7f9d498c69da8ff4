"""What docs/tool-search.md shows in Python runs, and its bounds are those of the code."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from callgate.runtime.search.result import MAX_FOUND
from callgate.runtime.search.tool_search import MAX_DESCRIBED
from callgate.search.learned import MAX_LESSONS, MAX_PER_TOOL
from callgate.search.patterns import MAX_PATTERN_CHARACTERS
from callgate.search.words import MAX_QUERY_CHARACTERS, MAX_QUERY_TERMS, MAX_TEXT_CHARACTERS

PAGE = (Path(__file__).parents[2] / "docs" / "tool-search.md").read_text()


def test_the_pages_program_runs() -> None:
    source = "\n".join(re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", source], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr == ""
    assert 'it says "monthly", "revenue"' in done.stdout
    assert "query_sales(region: str) -> list[float]" in done.stdout


def test_the_pages_bounds_are_those_of_the_code() -> None:
    for said in (
        f"{MAX_QUERY_CHARACTERS:,} characters, {MAX_QUERY_TERMS} different words",
        f"{MAX_PATTERN_CHARACTERS} characters, 1 MB compiled",
        f"{MAX_TEXT_CHARACTERS:,} characters of description and parameters together",
        f"| {MAX_FOUND}, {MAX_DESCRIBED} tools |",
        f"At most {MAX_PER_TOOL} lessons a tool and {MAX_LESSONS:,} in all",
    ):
        assert said in PAGE, said
