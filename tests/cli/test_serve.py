"""`callgate serve`: what it refuses, and the report of what came up."""

from __future__ import annotations

import json
import re
import socket
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from cli.command import Command, Outcome

pytestmark = pytest.mark.sampled

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
    done = cli("serve", "--mcp", configured(cli, servers), "--ready-seconds", "60")
    assert done.status == 0
    parts = report(done).split("; ")
    assert any(part.startswith("servers: good ") and int(part.split()[-1]) > 0 for part in parts)
    failed = report(done).partition("not up: gone (failed; ")[2]
    assert failed.startswith("the command 'no-such-command-anywhere' was not found")
    assert "install it, or write its full path)" in failed


def test_of_many_tools_passed_through_the_number_is_told(cli: Command) -> None:
    patient = ("--mcp", configured(cli, {"good": EVERYTHING}), "--ready-seconds", "60")
    done = cli("serve", *patient, "--pass", "*", "--pass", "nothing")
    (passed,) = [part for part in report(done).split("; ") if part.startswith("passed through: ")]
    assert passed.startswith("passed through: good_add, good_big, ")
    assert re.search(r", \w+ and \d+ more$", passed)
    assert len(passed) < 120
    assert "WARNING --pass nothing: no tool of that name may be called directly, so far" in done.err


def test_a_configuration_without_servers_is_nothing_to_serve(cli: Command) -> None:
    done = cli("serve", "--mcp", configured(cli, {}))
    assert done.status == 2
    assert "there are no tools to serve" in done.error


def test_what_may_not_be_served_is_refused_before_anything_is_started(cli: Command) -> None:
    started = {"command": sys.executable, "args": ["-c", "open('started', 'w')"]}
    done = cli("serve", "--mcp", configured(cli, {"one": started}), "--http", "0.0.0.0:0")
    assert done.status == 2
    assert len(done.err.splitlines()) == 2
    assert not (cli.folder / "started").exists()


def test_credentials_of_servers_are_in_no_line(cli: Command) -> None:
    """Of a server that cannot be reached, and of one that refuses them."""
    with socket.create_server(("127.0.0.1", 0)) as refusing:
        port = refusing.getsockname()[1]
        web = {
            "url": f"http://user:s3cret-word@127.0.0.1:{port}/mcp?key=s3cret-key",
            "headers": {"Authorization": "Basic dXNlcjpzM2NyZXQtd29yZA==", "X-Key": "s3cret-key"},
        }
        gone = web | {"url": "http://user:s3cret-word@127.0.0.1:9/mcp"}
        thread = threading.Thread(target=refuse, args=(refusing,), daemon=True)
        thread.start()
        done = cli("serve", "--verbose", "--mcp", configured(cli, {"web": web, "gone": gone}))
    assert done.status == 0
    assert "not up: web (" in report(done)
    assert "gone (" in report(done)
    for secret in ("s3cret-word", "s3cret-key", "dXNlcjpzM2NyZXQtd29yZA"):
        assert secret not in done.err


def refuse(listening: socket.socket) -> None:
    """Answer each request with 401 and what it sent."""
    try:
        while True:
            connection, _ = listening.accept()
            with connection:
                sent = connection.recv(65536)
                told = b"you sent: " + sent
                connection.sendall(b"HTTP/1.1 401 No\r\nContent-Length: %d\r\n\r\n%s" % (len(told), told))
    except OSError:
        pass


@pytest.mark.parametrize(
    ("arguments", "error", "tip"),
    [
        ((), "there are no tools to serve", "--mcp FILE"),
        (("--mcp", "nowhere.json"), "nowhere.json", "mcpServers"),
        (("--tools", "tools.py", "--token-env", "WORD"), "--token-env is for HTTP", "add --http"),
        (("--tools", "tools.py", "--allow-origin", "x"), "--allow-origin is for HTTP", "add --http"),
        (("--tools", "tools.py", "--http", "here:there"), "--http 'here:there' is not an address", "HOST:PORT"),
        (
            ("--tools", "tools.py", "--http", "127.0.0.1:70000"),
            "--http '127.0.0.1:70000' is not an address",
            "HOST:PORT",
        ),
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
