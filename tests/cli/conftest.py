"""What the tests of the command line share: the command, and a file of tools."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cli.command import Command

TOOLS = '''
"""Tools for the tests."""
import os

from callgate import ToolError, tool

FIFO = os.path.join(os.path.dirname(__file__), "go")


@tool(read_only=True)
async def get_weather(city: str) -> dict[str, int]:
    """Current weather.

    Args:
        city: its name.
    """
    if city == "nowhere":
        raise ToolError("there is no city 'nowhere'")
    if city == "crash":
        raise ValueError("a secret of the host")
    return {"temp": len(city)}


@tool
def wait_for_go() -> str:
    """Wait until somebody writes to the pipe."""
    with open(FIFO) as pipe:
        return pipe.read()


@tool
def chatty() -> int:
    """Print on the host."""
    print("a tool's own print")
    return 1


@tool(destructive=True, requires_approval=True)
def wipe(table: str) -> str:
    """Delete a table.

    Args:
        table: its name.
    """
    return f"wiped {table}"


def plain(number: int) -> int:
    """A plain function."""
    return number + 1


SOME = [get_weather, plain]
ANSWER = 42
'''


@pytest.fixture
def cli(tmp_path: Path) -> Command:
    """The command, in a folder that holds `tools.py`."""
    (tmp_path / "tools.py").write_text(TOOLS)
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
    return Command(tmp_path, kept | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUTF8": "1"}, forks=True)
