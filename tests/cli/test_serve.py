"""`callgate serve`: what it refuses, and the report of what came up."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from cli.command import Command, Outcome

SERVERS = Path(__file__).parent.parent / "with_mcp" / "servers"


def configured(cli: Command, servers: dict[str, Any]) -> str:
    (cli.folder / "servers.json").write_text(json.dumps({"mcpServers": servers}))
    return "servers.json"


def report(done: Outcome) -> str:
    """The one line that says what came up."""
    (line,) = [line for line in done.err.splitlines() if line.startswith("callgate serves on ")]
    return line


EVERYTHING = {"command": sys.executable, "args": [str(SERVERS / "everything.py")]}


def test_one_line_says_what_came_up(cli: Command) -> None:
    done = cli("serve", "--tools", "tools.py")
    assert (done.status, done.out) == (0, "")
    assert report(done).startswith("callgate serves on stdio: 4 tools; sandbox: ")
    assert len(done.err.splitlines()) == 1


def test_servers_that_fail_are_told_with_a_remedy_and_the_others_are_served(cli: Command) -> None:
    servers = {"good": EVERYTHING, "gone": {"command": "no-such-command-anywhere"}}
    done = cli("serve", "--mcp", configured(cli, servers))
    assert done.status == 0
    parts = report(done).split("; ")
    assert any(part.startswith("servers: good ") and int(part.split()[-1]) > 0 for part in parts)
    failed = report(done).partition("not up: gone (failed; ")[2]
    assert failed.startswith("the command 'no-such-command-anywhere' was not found")
    assert "install it, or write its full path)" in failed


@pytest.mark.parametrize(
    ("arguments", "error", "tip"),
    [
        ((), "there are no tools to serve", "--mcp FILE"),
        (("--mcp", "nowhere.json"), "nowhere.json", "mcpServers"),
        (("--tools", "tools.py", "--token-env", "WORD"), "--token-env is for HTTP", "add --http"),
        (("--tools", "tools.py", "--allow-origin", "x"), "--allow-origin is for HTTP", "add --http"),
        (("--tools", "tools.py", "--http", "here:there"), "--http 'here:there' is no address", "HOST:PORT"),
        (("--tools", "tools.py", "--http", "127.0.0.1:70000"), "--http '127.0.0.1:70000' is no address", "HOST:PORT"),
        (
            ("--tools", "tools.py", "--http", "127.0.0.1:0", "--token-env", "NO_WORD"),
            "the environment variable NO_WORD is not set",
            "put a long random token into NO_WORD",
        ),
        (("--tools", "tools.py", "--http", "0.0.0.0:0"), "others than this machine can connect to 0.0.0.0", ""),
        (("--tools", "tools.py", "--http", "0.0.0.0:0", "--token-env", "SHORT"), "the token has 5 characters", ""),
        (
            ("--tools", "tools.py", "--http", "256.0.0.1:0", "--token-env", "LONG"),
            "there is no address '256.0.0.1' on this machine",
            "",
        ),
    ],
)
def test_what_cannot_be_served_is_refused_in_one_line(
    cli: Command, arguments: tuple[str, ...], error: str, tip: str
) -> None:
    done = cli("serve", *arguments, environment={"SHORT": "12345", "LONG": "1234567890123456"})
    assert done.status == 2
    assert done.out == ""
    assert error in done.error
    assert tip in done.tip


def test_no_sandbox_is_told_with_its_own_exit_code(cli: Command) -> None:
    done = cli("serve", "--tools", "tools.py", "--sandbox", "docker", "--docker-host", "unix:///nowhere.sock")
    assert done.status == 3
    assert "callgate doctor" in done.tip


def test_the_unsafe_sandbox_is_warned_of(cli: Command) -> None:
    done = cli("serve", "--tools", "tools.py", "--sandbox", "unsafe")
    assert done.status == 0
    assert "WARNING sandbox 'unsafe': nothing confines programs" in done.err
