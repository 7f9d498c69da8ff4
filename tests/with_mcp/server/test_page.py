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


@pytest.mark.parametrize("words", ["about 16,000 characters", "after 10 minutes without use", "within 300 s", "4 MiB"])
def test_the_figures_are_those_of_the_code(words: str) -> None:
    from callgate.mcp.server.guard import Policy
    from callgate.runtime.result import MODEL_CHARACTERS

    figures = {
        "about 16,000 characters": MODEL_CHARACTERS == 16_000,
        "after 10 minutes without use": Serving().session_idle_seconds == 600,
        "within 300 s": Serving().approval_seconds == 300,
        "4 MiB": Policy(bind="127.0.0.1", port=1).max_body_bytes == 4 * 1024 * 1024,
    }
    assert words in PAGE
    assert figures[words]


def test_the_command_has_help() -> None:
    assert isinstance(command, click.Command)
    assert "search_tools" in (command.help or "")
