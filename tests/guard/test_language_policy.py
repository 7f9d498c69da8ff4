"""Promise: the restricted policy refuses before a program starts, by whatever door programs come; pages explain it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from callgate import Runtime

pytestmark = pytest.mark.sampled

ROOT = Path(__file__).parents[2]
REFUSED = "`import os` is not allowed"


def callgate(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-W", "error", "-m", "callgate", *arguments]
    return subprocess.run(line, input=stdin, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("command", ["run", "check", "serve", "agent"])
def test_every_command_that_takes_programs_has_the_option_and_says_that_it_is_not_the_boundary(command: str) -> None:
    shown = " ".join(callgate(command, "--help").stdout.split())
    assert "--policy [none|restricted]" in shown
    assert "not the boundary" in shown


@pytest.mark.slow
def test_run_refuses_before_the_program_starts() -> None:
    program = "print('started')\nimport os"
    done = callgate("run", "--policy", "restricted", "-c", program)
    assert (done.returncode, done.stdout) == (1, "")
    assert REFUSED in done.stderr
    assert callgate("run", "-c", program).stdout == "started\n"


@pytest.mark.slow
def test_the_policy_is_not_left_out_silently() -> None:
    done = callgate("run", "--policy", "restricted", "--no-check", "-c", "import os")
    assert (done.returncode, done.stdout) == (2, "")
    assert "ERROR --policy is held by the check that --no-check leaves out" in done.stderr


@pytest.mark.slow
def test_an_mcp_client_of_callgate_serve_is_refused_too() -> None:
    pytest.importorskip("mcp", reason="callgate serve needs the extra mcp")
    asked: list[dict[str, object]] = [
        {
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "tester", "version": "1"},
            },
        },
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "execute_code", "arguments": {"code": "import os"}}},
    ]
    tools = str(ROOT / "examples" / "tools_for_cli.py")
    line = [sys.executable, "-m", "callgate", "serve", "--tools", tools, "--policy", "restricted"]
    with subprocess.Popen(
        line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as served:
        assert served.stdin is not None
        assert served.stdout is not None
        for message in asked:
            served.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        served.stdin.flush()
        answer = next(told for told in map(json.loads, served.stdout) if told.get("id") == 2)
        served.stdin.close()
        served.wait(60)
    assert REFUSED in answer["result"]["content"][0]["text"]


@pytest.mark.anyio
async def test_what_the_page_says_of_the_policy_holds() -> None:
    restricted = Runtime(policy="restricted", sandbox=None)
    refused = [
        "import os",
        "import subprocess",
        "eval('1')",
        "open('x')",
        "().__class__",
        "name = 'x'\ngetattr(1, name)",
    ]
    assert [code for code in refused if not restricted.check(code)] == []
    assert restricted.check("import json, math, asyncio\njson.dumps(math.pi)") == []
    own = Runtime(policy="restricted", allowed_imports={"os"}, sandbox=None)
    assert own.check("import os") == []
    assert own.check("import json") != []
    async with Runtime(policy="restricted", pool_size=0) as runtime:
        assert not (await runtime.execute_code("import os\nos.sep")).ok
        run = await runtime.execute_code("import os\nos.sep", check=False)
        assert run.value == "/", "the policy is part of the check, and confines nothing"


def test_it_is_explained_where_people_look() -> None:
    readme = (ROOT / "README.md").read_text()
    isolation = readme.partition("## What is isolated")[2].partition("\n## ")[0]
    assert 'Runtime(policy="restricted")' in isolation
    assert "not the boundary" in isolation
    assert "## The restricted policy" in (ROOT / "docs" / "isolation.md").read_text()
