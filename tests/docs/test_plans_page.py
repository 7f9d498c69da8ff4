"""What docs/plans.md shows is run, and prints what the page says; its tables list what there is."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from callgate.plan.faults import PLAN_FAULT_CODES
from callgate.plan.model import Plan, Step

PAGE = (Path(__file__).parents[2] / "docs" / "plans.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
FIRST_CELLS = set(re.findall(r"^\| `([\w-]+)`", PAGE, re.MULTILINE))


def test_the_pages_program_prints_what_is_shown() -> None:
    ((_, source), (_, shown)) = BLOCKS
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", source], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == (shown, "")


def test_every_field_of_a_plan_and_of_a_step_is_in_a_table() -> None:
    assert set(Plan.model_fields) | set(Step.model_fields) <= FIRST_CELLS


def test_every_fault_code_is_in_the_table_with_its_meaning() -> None:
    for code, meaning in PLAN_FAULT_CODES.items():
        assert f"| `{code}` | {meaning} |" in PAGE
