"""What docs/fast-path.md shows is run and prints what the page says; each row of its two tables is tried."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from callgate import RunError, Runtime, tool
from callgate.plan.expressions.functions import FUNCTIONS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "fast-path.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
BEFORE = 'import asyncio, json\ncities = ["Oslo", "Rome"]\noslo = await get_weather("Oslo")\nrows = []\n'
"""What the examples may use."""


@tool(read_only=True)
async def get_weather(city: str) -> dict[str, object]:
    """Today's weather.

    Args:
        city: its name.
    """
    return {"city": city, "temp": len(city)}


@tool
async def send_note(text: str) -> int:
    """Send a note.

    Args:
        text: what it says.
    """
    return len(text)


LOOK = Runtime([get_weather, send_note], sandbox=None)


def table(heading: str) -> list[str]:
    """The first cells of the table below a heading."""
    section = PAGE.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return re.findall(r"^\| (`.*?`) \|", section, re.MULTILINE)


def programs(cell: str) -> list[str]:
    """The examples in a cell; one that goes on ``and then`` is one program."""
    codes = re.findall(r"`([^`]+)`", cell)
    if " and then " in cell:
        codes = ["\n".join(codes)]
    return [BEFORE + re.sub(r" (?=except |case )", "\n    " if "match" in code else "\n", code) for code in codes]


def test_the_pages_program_prints_what_is_shown() -> None:
    ((_, source), (_, shown)) = BLOCKS
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", source], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == (shown, "")


@pytest.mark.parametrize("program", [each for cell in table("What takes it") for each in programs(cell)])
def test_what_is_said_to_take_the_fast_path_does(program: str) -> None:
    assert LOOK.compile(program).reasons == []
    assert anyio.run(ended, program) == (None, "plan")


async def ended(program: str) -> tuple[RunError | None, str]:
    async with Runtime([get_weather, send_note], sandbox=None) as runtime:
        result = await runtime.execute_code(program)
    return result.error, result.path


@pytest.mark.parametrize("program", [each for cell in table("What does not") for each in programs(cell)])
def test_what_is_said_not_to_take_it_does_not_and_says_why(program: str) -> None:
    compile(program, "<program>", "exec", flags=0x2000)  # PyCF_ALLOW_TOP_LEVEL_AWAIT: it is Python
    reasons = LOOK.compile(program).reasons
    assert reasons
    assert all(reason.line > BEFORE.count("\n") for reason in reasons)


def test_what_the_page_on_the_command_line_shows_of_compile_is_what_it_prints() -> None:
    page = (ROOT / "docs" / "cli.md").read_text()
    consoles = re.findall(r"^```console\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (console,) = [each for each in consoles if "callgate compile" in each]
    commands = re.findall(r"^\$ (callgate compile .*?-c \".*?\")\n(.*?)(?=^\$ |\Z)", console, re.MULTILINE | re.DOTALL)
    assert len(commands) == 2
    for line, shown in commands:
        done = subprocess.run(
            f"{sys.executable} -W error -m {line}",
            shell=True, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert (done.stdout, done.stderr) == (shown, "")


def test_every_function_is_named() -> None:
    for name in FUNCTIONS:
        assert f"`{name}`" in PAGE


def test_the_tables_have_rows() -> None:
    assert len(table("What takes it")) > 10
    assert len(table("What does not")) > 10
