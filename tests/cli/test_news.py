"""What becomes of MCP servers, as `callgate serve` tells it on stderr."""

from __future__ import annotations

from typing import Any

import pytest

from callgate.cli.serve import News, why
from callgate.mcp import ServerStatus


def status(state: Any, **more: Any) -> ServerStatus:
    return ServerStatus(name="files", state=state, transport="stdio", **more)


def test_each_change_of_state_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    news = News()
    news.note(status("failed", error="before the report"))
    news.begin((status("starting"),))
    up = status("running", tools=("a", "b"))
    ended = status("restarting", error="exit code 3", next_attempt_seconds=0.5)
    failed = status("failed", error="given up after 5 starts: exit code 3")
    trying = status("restarting", error="exit code 3")
    for each in (status("starting"), up, ended, trying, ended, up, up, ended, failed, trying, failed, trying, up):
        news.note(each)
    news.note(status("stopped"))
    assert capsys.readouterr().err.splitlines() == [
        "MCP server files: up, 2 tools",
        "MCP server files: went away: exit code 3; starts again in 0.5 s",
        "MCP server files: up again, 2 tools",
        "MCP server files: went away: exit code 3; starts again in 0.5 s",
        "MCP server files: failed; given up after 5 starts: exit code 3",
        "MCP server files: up again, 2 tools",
    ]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (status("starting"), "starting; its tools come when it is up"),
        (status("starting", error="exit code 3", next_attempt_seconds=2), "exit code 3; starts again in 2.0 s"),
        (status("starting", error="exit code 3"), "starting; exit code 3; its tools come when it is up"),
        (status("failed", error="not found", remedy="install it"), "failed; not found; install it"),
        (status("disabled"), "disabled"),
    ],
)
def test_why_a_server_is_not_up(given: ServerStatus, told: str) -> None:
    assert why(given) == told
