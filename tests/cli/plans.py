"""Plans for the tests of `callgate plan`, and more tools."""

from __future__ import annotations

import json
from typing import Any

from cli.command import Command

OSLO = {"id": "oslo", "tool": "get_weather", "arguments": {"city": "Oslo"}}
ROME = {"id": "rome", "tool": "get_weather", "arguments": {"city": "Rome!"}}
WARMER = {"id": "warmer", "tool": "add_one", "arguments": {"number": "$ref:oslo.temp"}}
NOWHERE = {"id": "nowhere", "tool": "get_weather", "arguments": {"city": "nowhere"}}
AFTER = {"id": "after", "tool": "add_one", "arguments": {"number": "$ref:nowhere.temp"}}
WIPE = {"id": "wiped", "tool": "wipe", "arguments": {"table": "orders"}}
HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202etxt\rover"

MORE_TOOLS = '''
import asyncio
import time

from callgate import tool


@tool(read_only=True)
def add_one(number: int) -> int:
    """One more.

    Args:
        number: any.
    """
    return number + 1


@tool(read_only=True)
def say(text: str | None) -> str | None:
    """The same text.

    Args:
        text: any.
    """
    return text


@tool(read_only=True)
async def wait(seconds: float) -> str:
    """Wait.

    Args:
        seconds: how long.
    """
    await asyncio.sleep(seconds)
    return "waited"


@tool
def block(seconds: float) -> str:
    """Wait in a thread, which nothing can end.

    Args:
        seconds: how long.
    """
    time.sleep(seconds)
    return "blocked"


@tool
def nothing() -> None:
    """Give nothing."""
'''


def plan_file(cli: Command, *steps: dict[str, Any], name: str = "plan.json", **fields: Any) -> str:
    (cli.folder / name).write_text(json.dumps({"steps": list(steps), **fields}), encoding="utf-8")
    return name


TOOLS = ("--tools", "tools.py", "--tools", "more.py")
