"""Every example runs, asserts what it shows, and warns of nothing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from callgate.extras import how_to_install

pytestmark = pytest.mark.sampled

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("example", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_an_example_runs(example: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / example)],
        capture_output=True,
        text=True,
        timeout=900 if example.startswith("mcp_") else 120,  # they install servers when they are run for the first time
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout
    missing = re.search("^(?:not shown|without the filesystem server): (.+)", done.stdout, re.MULTILINE)
    if missing is not None:
        reason = missing[1]
        if example in ("containers.py", "analyst_report.py") and _engine_is_for_others():
            reason = (
                f"{reason} (there is an engine, and this user may not speak to it; nothing that is installed helps)"
            )
        elif os.environ.get("CI") == "true":
            pytest.fail(f"under CI everything real that an example shows is installed, for whoever runs it: {reason}")
        pytest.skip(reason)


def _engine_is_for_others() -> bool:
    """Whether an engine is here whose socket another user must open, as in the run without rights."""
    socket = Path("/var/run/docker.sock")
    return "DOCKER_HOST" not in os.environ and socket.exists() and not os.access(socket, os.R_OK | os.W_OK)


def test_the_monitoring_assistant_in_individual_mode_alone() -> None:
    line = [sys.executable, "-W", "error", str(EXAMPLES / "agent_monitoring.py"), "--individual"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("individual: 4 LLM calls, 3 tool calls, ")
    assert "declarative" not in done.stdout


def test_where_the_rules_cannot_be_searched_the_example_says_what_it_needs() -> None:
    without = f"import runpy, sys; sys.modules['bm25s'] = None; sys.path.insert(0, {str(EXAMPLES)!r}); "
    without += f"runpy.run_path({str(EXAMPLES / 'agent_rules.py')!r}, run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", without], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)
    assert done.stderr.endswith(f"needs bm25s, which is not installed: {how_to_install('agent', 'bm25s')}\n")


@pytest.mark.parametrize("plan", sorted(path.name for path in (EXAMPLES / "plans").glob("*.json")))
def test_a_plan_runs_and_has_no_faults(plan: str) -> None:
    line = [sys.executable, "-W", "error", "-m", "callgate", "plan", str(EXAMPLES / "plans" / plan)]
    line += ["--tools", str(EXAMPLES / "tools_for_cli.py")]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, bool(done.stdout)) == (0, True), done.stderr
    checked = subprocess.run([*line, "--check"], capture_output=True, text=True, timeout=120, check=False)
    assert (checked.returncode, checked.stdout) == (0, "")


def test_the_index_names_every_example() -> None:
    index = (EXAMPLES / "README.md").read_text()
    files = sorted([*EXAMPLES.glob("*.py"), *EXAMPLES.glob("plans/*.json")])
    assert [path.name for path in files if f"({path.relative_to(EXAMPLES).as_posix()})" not in index] == []
