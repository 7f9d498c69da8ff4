"""docs/serve.md: what it shows is what there is."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import click
import pytest

import callgate.mcp
from callgate.cli.serve import command
from callgate.mcp.server import Serving

PAGE = (Path(__file__).parents[3] / "docs" / "serve.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_every_configuration_is_json() -> None:
    whole = [block for block in blocks("json") if block.count("\n{") == 0]
    assert [next(iter(json.loads(block))) for block in whole] == ["mcpServers", "servers", "mcpServers"]


def test_every_option_is_there_and_told() -> None:
    flags = {flag for each in command.params for flag in (*each.opts, *each.secondary_opts) if flag.startswith("--")}
    told = set(re.findall(r"`(--[a-z-]+)", PAGE)) | set(re.findall(r" (--[a-z-]+)", "".join(blocks("console"))))
    assert told <= flags
    own = {"--mcp", "--tools", "--pass", "--reveal", "--http", "--token-env", "--yes", "--statistics"}
    assert own | {"--allow-host", "--allow-origin"} <= told


def test_the_program_uses_what_there_is() -> None:
    (program,) = blocks("python")
    tree = ast.parse(program)
    for each in ast.walk(tree):
        if isinstance(each, ast.ImportFrom) and each.module == "callgate.mcp":
            assert {name.name for name in each.names} <= set(callgate.mcp.__all__)
    assert Serving(direct=("time.*",), session_idle_seconds=60).sessions == 4


def figures() -> dict[str, bool]:
    """What the page says, and whether the code says so, too."""
    from callgate.mcp.server import carrying, connections, notes, paused, results, wording
    from callgate.mcp.server.guard import Policy
    from callgate.runtime.result import MODEL_CHARACTERS

    policy = Policy(bind="127.0.0.1", port=1)
    return {
        "about 16,000 characters": MODEL_CHARACTERS == 16_000,
        "more than 57 levels": results._MOST_LEVELS == 57,
        "more\nthan 60 levels": carrying.MAX_LEVELS == 60,
        "more than 1,000,000 bytes over HTTP": carrying.MAX_HTTP_BYTES == 1_000_000,
        "of 32,768 characters at most": notes._MOST_PRINTED == 32_768,
        "the last 2,000 characters": notes._MOST_PROGRESS == 2_000,
        "some 2,000 characters": wording.MAX_SHOWN == 2_000,
        "after 10 minutes without use": Serving().session_idle_seconds == 600,
        "within 300 s": Serving().approval_seconds == 300,
        "16 calls of one server": paused.MAX_PAUSED == 16,
        "4 MiB, or takes longer than 30 s": (policy.max_body_bytes, policy.body_seconds) == (4 * 1024 * 1024, 30),
        "not complete within 10 s": policy.header_seconds == 10,
        "more than 128 connections": connections.MAX_HALF_OPEN == 128,
        "more than 1,024 connections": connections._MOST_CONNECTIONS == 1_024,
    }


@pytest.mark.parametrize("words", figures())
def test_the_figures_are_those_of_the_code(words: str) -> None:
    assert words in PAGE
    assert figures()[words]


def test_the_command_has_help() -> None:
    assert isinstance(command, click.Command)
    assert "search_tools" in (command.help or "")
