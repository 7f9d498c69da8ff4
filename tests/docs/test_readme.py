"""What the README shows is run, and what it says that comes out does."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from callgate import Limits
from callgate.cli.options import size_text

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def _commands() -> list[tuple[str, str]]:
    (console,) = [text for kind, text in BLOCKS if kind == "console"]
    return [(part.partition("\n")[0], part.partition("\n")[2]) for part in console.split("$ ")[1:]]


def test_the_python_snippets_print_what_is_shown_below_them() -> None:
    """The second one goes on where the first one ends."""
    kinds = [kind for kind, _ in BLOCKS if kind in ("python", "text")]
    assert kinds == ["python", "text"] * 2
    source = "\n".join(text for kind, text in BLOCKS if kind == "python")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", source], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == ("".join(text for kind, text in BLOCKS if kind == "text"), "")


@pytest.mark.parametrize(("line", "shown"), _commands())
def test_a_command_prints_what_is_shown_below_it(line: str, shown: str) -> None:
    assert line.startswith("callgate ")
    command = f"{sys.executable} -W error -m {line}"
    done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == shown


@pytest.mark.parametrize(("mode", "calls"), [("declarative", 2), ("individual", 4)])
def test_the_agent_of_the_readme_takes_so_many_calls_of_the_model(mode: str, calls: int) -> None:
    (lines,) = [text for kind, text in BLOCKS if kind == "sh" and "callgate agent" in text]
    line = lines[lines.index("callgate agent") :].replace("declarative", mode)
    assert f"replay:examples/recordings/monitoring_{mode}.jsonl" in README
    command = f"{sys.executable} -W error -m {line}"
    done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "CPU usage is 72.5%, below the 80% threshold.\n")
    assert f"{calls} LLM calls, 3 tool calls" in done.stderr


def test_make_has_every_target_that_is_named() -> None:
    named = {
        target for text in (README, (ROOT / "CHANGELOG.md").read_text()) for target in re.findall(r"\bmake (\w+)", text)
    }
    makefile = (ROOT / "Makefile").read_text()
    assert {"demo", "test", "bench"} <= named
    for target in named:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_the_table_of_limits_is_the_dataclass() -> None:
    listed = re.findall(r"^\| `(\w+)` \| (\S+) \|", README, re.MULTILINE)
    expected = [
        (field.name, size_text(int(field.default)) if field.name.endswith("_bytes") else f"{field.default:.0f}")
        for field in dataclasses.fields(Limits)
        if isinstance(field.default, (int, float))
    ]
    assert listed == expected


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))])
def test_every_link_within_the_repository_leads_somewhere(page: str) -> None:
    folder = (ROOT / page).parent
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", (ROOT / page).read_text()):
        assert os.path.exists(folder / target), target


def test_the_table_of_exit_codes_is_whole() -> None:
    from callgate.cli import words

    page = (ROOT / "docs" / "cli.md").read_text()
    codes = {words.OK, words.FAILED, words.USAGE, words.NO_SANDBOX, words.LIMIT, words.INTERRUPTED, words.PIPE_CLOSED}
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)} == codes
