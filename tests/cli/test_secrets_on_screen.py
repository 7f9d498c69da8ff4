"""What people see at the terminal has no secret: questions, and lines of events. Programs and tools get the values."""

from __future__ import annotations

import json

import pytest

from cli.command import Command
from cli.plans import plan_file

SECRET = "open sesame"
KEY = "key-8ab3"
TOOLS = '''
from typing import Annotated

import pydantic

from callgate import Secret, ToolError, tool


@tool(requires_approval=True)
def unlock(door: str, phrase: Annotated[str, Secret], pin: pydantic.SecretStr, api_key: str = "") -> str:
    """Unlock a door."""
    if door == "jammed":
        raise ToolError(f"{phrase} does not open it")
    return f"{door} {len(phrase)} {len(pin.get_secret_value())} {len(api_key)}"
'''
GIVEN = {"phrase": SECRET, "pin": "pin-4711", "api_key": KEY}


@pytest.fixture
def cli(cli: Command) -> Command:
    (cli.folder / "locks.py").write_text(TOOLS)
    return cli


def has_none(shown: str) -> None:
    for secret in (SECRET, "pin-4711", KEY):
        assert secret not in shown, shown
    assert "[redacted]" in shown


def step(door: str) -> dict[str, object]:
    return {"id": "a", "tool": "unlock", "arguments": {"door": door, **GIVEN}}


def test_a_person_who_approves_a_call_sees_that_it_has_secrets_and_not_which(cli: Command) -> None:
    code = f"await unlock('front', phrase={SECRET!r}, pin='pin-4711', api_key={KEY!r})"
    with cli.terminal("run", "--tools", "locks.py", "--verbose", "-c", code) as terminal:
        asked = terminal.read_until("[y/N] ")
        assert '"door": "front"' in asked
        has_none(asked)
        terminal.type("y\n")
        shown = terminal.read_all()
        assert terminal.wait() == 0
    assert "front 11 8 8" in shown  # the tool got the values
    assert "unlock(" in shown
    has_none(shown)


def test_a_person_who_approves_a_plan_sees_no_secret_of_its_steps_and_the_plan_runs_with_them(cli: Command) -> None:
    file = plan_file(cli, step("front"))
    with cli.terminal("plan", "--verbose", file, "--tools", "locks.py", "--ask") as terminal:
        asked = terminal.read_until("[y/N/e, e edits it] ")
        assert 'door="front"' in asked
        has_none(asked)
        terminal.type("y\n")
        terminal.read_until("[y/N] ")
        terminal.type("y\n")
        shown = terminal.read_all()
        assert terminal.wait() == 0
    assert "front 11 8 8" in shown
    has_none(shown)


@pytest.mark.parametrize("flags", [["--explain"], ["--explain=json"]])
def test_a_plan_that_is_explained_shows_no_secret(cli: Command, flags: list[str]) -> None:
    done = cli("plan", plan_file(cli, step("front")), *flags, "--tools", "locks.py")
    assert done.status == 0
    has_none(done.out)


@pytest.mark.parametrize("door", ["front", "jammed"])
def test_lines_of_calls_and_steps_show_no_secret(cli: Command, door: str) -> None:
    done = cli("plan", "--yes", "--verbose", plan_file(cli, step(door)), "--tools", "locks.py")
    assert done.status == (door == "jammed")
    has_none(done.err)
    inputs = [f"{name}={json.dumps(value)}" for name, value in {"door": door, **GIVEN}.items()]
    flags = [flag for each in inputs for flag in ("--input", each)]
    code = "await unlock(door=door, phrase=phrase, pin=pin, api_key=api_key)"
    done = cli("run", "--yes", "--verbose", "--tools", "locks.py", *flags, "-c", code)
    assert done.status == (door == "jammed")
    has_none(done.err)


@pytest.mark.parametrize("path", ["plan", pytest.param("sandbox", marks=pytest.mark.slow)])
def test_the_error_of_a_command_shows_no_secret(cli: Command, path: str) -> None:
    code = f"await unlock('jammed', phrase={SECRET!r}, pin='pin-4711', api_key={KEY!r})"
    done = cli("run", "--yes", "--tools", "locks.py", "--path", path, "-c", code)
    assert "does not open it" in done.error
    has_none(done.err)
    done = cli("plan", "--yes", "--timeline", plan_file(cli, step("jammed")), "--tools", "locks.py")
    assert "does not open it" in done.error
    has_none(done.err)
