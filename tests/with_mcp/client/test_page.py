"""The page about MCP servers: its program runs, and prints what the page says."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from callgate.mcp.config import read_config

PAGE = (Path(__file__).parents[3] / "docs" / "mcp-servers.md").read_text()


def blocks(kind: str) -> list[str]:
    return [
        text for found, text in re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE) if found == kind
    ]


def test_the_program_prints_what_the_page_says() -> None:
    run = subprocess.run([sys.executable, "-c", blocks("python")[0]], capture_output=True, text=True, timeout=60)
    assert run.stdout == blocks("text")[0], run.stderr


def test_the_configuration_is_one() -> None:
    servers = read_config(json.loads(blocks("json")[0]), {"GITHUB_TOKEN": "ghp_x", "SEARCH_TOKEN": "tok"})
    assert [server.fault for server in servers] == [None, None, None]


def test_the_adjusting_function_is_python() -> None:
    compile(blocks("python")[1], "page", "exec")
