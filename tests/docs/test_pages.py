"""Every snippet and every command of the README and of docs/ runs. `test_tables.py` holds the tables of the pages.

The blocks of Python of a page are one program, whose output is in the blocks of text right below them. A command is run
where the page shows what it prints; any other is parsed to the last option. The author of a page writes no test.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
import subprocess
import tomllib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import anyio
import pytest
from _pytest.mark import ParameterSet
from click.testing import CliRunner

from callgate import Artifact, Runtime, tool
from callgate.agent import events
from callgate.agent.loop.transcript import read_transcript
from callgate.agent.react.config import GatewayConfig, PlannerConfig, read_config
from callgate.cli.commands import callgate
from callgate.mcp.config import read_config as read_servers
from callgate.plan.model import read_model
from callgate.sandbox.srt.settings import INSTALL
from callgate_bench.model.stand_in import AnthropicMessages, Call, Move, OpenAIChat, OpenAIResponses, Script, Turn
from callgate_bench.model.stand_in import serving as served
from callgate_bench.model.stand_in.server import KEY
from docs.pages import BLOCKS, PAGES, ROOT, blocks, run

# the models that the page on agents speaks to


def calls_in_parallel(turn: Turn) -> Move:
    return [Call("get_weather", {"city": city}) for city in ("Oslo", "Rome")]


def compares(turn: Turn) -> Move:
    oslo, rome = (json.loads(answer.text)["degrees"] for answer in turn.answers)
    return f"Yes: {rome} degrees in Rome, {oslo} in Oslo."


def plans(turn: Turn) -> Move:
    zones = {"oslo": "Europe/Oslo", "tokyo": "Asia/Tokyo"}
    steps: list[dict[str, Any]] = [{"id": "days", "tool": "days_in_month", "arguments": {"year": 2028, "month": 2}}]
    for name, zone in zones.items():
        arguments = {"zone": zone, "day": "2028-02-${days}"}
        steps.append({"id": name, "tool": "utc_offset", "arguments": arguments})
    return Call("execute_tool_plan", {"steps": steps, "output_steps": [*zones]})


def subtracts(turn: Turn) -> Move:
    hours = {name: float(value) for name, value in re.findall(r"(oslo|tokyo): ([\d.]+)$", turn.answer, re.M)}
    return f"{hours['tokyo'] - hours['oslo']:g} hours."


@contextmanager
def played(*turns: Any) -> Iterator[dict[str, str]]:
    """The environment in which a script answers for OpenAI."""
    with served(OpenAIChat(Script(*turns))) as address:
        yield {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": f"{address}/v1"}


# snippets

NEWCOMERS: Final = ("README", "tutorial")
"""Pages that a newcomer reads first. What the others show is run by `make test-all`."""


def of_page(page: str, *values: str, name: str = "") -> ParameterSet:
    """Parameters of a test of one page."""
    return pytest.param(page, *values, marks=() if page in NEWCOMERS else pytest.mark.slow, id=name or page)


def programs() -> dict[str, tuple[str, str]]:
    """The program of each page, and what it prints."""
    found: dict[str, tuple[str, str]] = {}
    for page, both in BLOCKS.items():
        shown = [below for (kind, _), (then, below) in itertools.pairwise(both) if (kind, then) == ("python", "text")]
        if source := "\n".join(text for kind, text in both if kind == "python"):
            found[page] = source, "".join(shown)
    return found


@pytest.mark.parametrize("page", [of_page(page) for page in programs()])
def test_a_page_s_program_prints_what_is_shown(page: str, tmp_path: Path) -> None:
    source, shown = programs()[page]
    (tmp_path / "servers.json").write_text('{"mcpServers": {}}')
    if page == "isolation":
        source = f"tools = []\n{source}"
    with played(calls_in_parallel, compares) as model:
        done = run(["-c", source], tmp_path, variables=model)
    assert (done.stdout, done.stderr) == (shown, "")


def test_the_listener_of_the_page_on_agents_shows_words_and_calls(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    exec(blocks("agents", "python")[2], names)
    names["show"](events.TextArrived(turn=1, text="It is "))
    names["show"](events.CallEnded(turn=1, id="a", name="get_weather", ok=True, text="", seconds=0.25))
    assert capsys.readouterr().out == "It is [get_weather: ok, 0.2 s]\n"


def test_the_program_that_searches_knows_its_names() -> None:
    names: dict[str, Any] = {}
    exec(blocks("model", "python", heading="Tool search")[0], names)
    (program,) = blocks("model", "py")
    assert names["runtime"].check(program) == []


@tool(read_only=True)
async def query_sales(region: str) -> dict[str, int]:
    """Sales of a region, this year, in dollars."""
    return {"revenue": 150_000}


@tool
async def send_report(to: str, text: str) -> str:
    """Sends a report by mail."""
    return f"sent {len(text)} characters to {to}"


def runs_a_program(turn: Turn) -> Move:
    assert turn.user == "How was the west?"
    return Call("execute_code", {"code": "(await query_sales('west'))['revenue']"})


def sends_it(turn: Turn) -> Move:
    assert turn.answer == "Value: 150000"
    return [Call("send_report", {"to": "a@b.c", "text": "150000"}), Call("send_report", {"to": "a@b.c"})]


def concludes(turn: Turn) -> Move:
    sent, refused = turn.answers
    assert refused.text.startswith("Error: ")
    return sent.text


@pytest.mark.parametrize(
    ("function", "client", "api", "path"),
    [
        ("converse", "anthropic.AsyncAnthropic", AnthropicMessages, ""),
        ("respond", "openai.AsyncOpenAI", OpenAIResponses, "/v1"),
    ],
)
def test_the_loops_of_the_page_on_definitions_run(function: str, client: str, api: Any, path: str) -> None:
    package, _, name = client.partition(".")
    sdk = pytest.importorskip(package, reason=f"{package} is not installed")
    given: dict[str, Any] = {}
    for text in blocks("model", "python"):
        if re.search(r"async def (converse|respond)\(", text):
            exec(text, given)
    loop: Callable[..., Awaitable[str]] = given[function]

    async def whole() -> str:
        with served(api(Script(runs_a_program, sends_it, concludes))) as url:
            async with AsyncExitStack() as stack:
                made = getattr(sdk, name)(base_url=url + path, api_key=KEY, max_retries=0)
                await stack.enter_async_context(made)
                runtime = await stack.enter_async_context(Runtime([query_sales, send_report], sandbox=None))
                return await loop(made, runtime, "How was the west?")

    assert "sent 6 characters to a@b.c" in anyio.run(whole)


def test_every_block_of_json_and_yaml_is_read_by_what_it_is_for(tmp_path: Path) -> None:
    for page in BLOCKS:
        for text in blocks(page, "json"):
            lines = text.splitlines() if "\n{" in text else [text]
            for each in [json.loads(line) for line in lines]:
                if "kind" in each:
                    (tmp_path / "t.jsonl").write_text(
                        json.dumps({"v": 1, "at": "2026-01-31T12:00:00+00:00"} | each) + "\n"
                    )
                    assert len(list(read_transcript(tmp_path / "t.jsonl"))) == 1
                elif "steps" in each:
                    bounds = {"max_bytes": 1 << 20, "max_steps": 10, "max_memory_bytes": 1 << 30}
                    assert list(read_model(each, **bounds, answers=True)[3]) == []
                elif "mcpServers" in each:
                    servers = read_servers(each, {"GITHUB_TOKEN": "ghp_x", "SEARCH_TOKEN": "tok"})
                    assert [server.fault for server in servers] == [None] * len(each["mcpServers"])
                else:
                    handle = {*Artifact.from_bytes(b"").to_json()}
                    assert set(each) in ({"servers"}, {"context_servers"}, {"code", "session"}, handle)
    config = read_config(blocks("planners", "yaml")[0], {})
    assert config.gateway is not None
    assert config.planner.model_fields_set == set(PlannerConfig.model_fields)
    assert config.gateway.config.model_fields_set == set(GatewayConfig.model_fields)


# commands


def commands() -> list[tuple[str, str, str]]:
    """Page, command and what the page shows below it; nothing where it does not show what is printed."""
    found = []
    for page in BLOCKS:
        for text in blocks(page, "console", ""):
            for part in text.split("$ ")[1:] if text.startswith("$ ") else []:
                line, shown = re.match(r"((?:.*\\\n)*(?:[^\"\n]|\"[^\"]*\")*\n)(.*)", part, re.S).groups()  # type: ignore[union-attr]
                found.append((page, line.strip(), shown))
        for text in blocks(page, "sh"):
            found += [(page, line, "") for line in text.replace("\\\n", "").splitlines()]
    return found


CALLGATE = [each for each in commands() if each[1].startswith("callgate ")]


def alike(text: str) -> str:
    """Without what differs from run to run: times, the blanks before them, and which of several calls ends first."""
    timed = re.sub(r"[\d.]+ (ms|s)\b", "N s", text)
    return text if timed == text else "\n".join(sorted(re.sub(r" {2,}", " ", timed).splitlines()))


@pytest.mark.parametrize(
    ("page", "line", "shown"),
    [of_page(page, line, shown, name=f"{page}: {line[:60]}") for page, line, shown in CALLGATE],
)
def test_a_command_prints_what_is_shown_below_it_or_is_understood(page: str, line: str, shown: str) -> None:
    words = shlex.split(line.replace("\\\n", ""), comments=True)
    if shown and not re.search(r"\.\.\.|╭", shown):  # the dots are another machine's tools, the frame is a terminal's
        with played(plans, subtracts) as model:
            if page in ("agents", "tutorial") and words[1] == "agent":  # they show the answer alone
                printed = run(["-m", *words], variables=model).stdout
            else:
                printed = run(["-m", *words], stderr=subprocess.STDOUT).stdout
        assert alike(printed) == alike(shown)
    else:
        parsed = CliRunner().invoke(callgate, [*words[1:], "--help"])
        assert (parsed.exit_code, parsed.output[:6]) == (0, "Usage:"), parsed.output


@pytest.mark.parametrize(("mode", "calls"), [("declarative", 2), ("individual", 4)])
def test_the_agent_of_the_readme_takes_so_many_calls_of_the_model(mode: str, calls: int) -> None:
    (line,) = [line for page, line, _ in CALLGATE if page == "README" and line.startswith("callgate agent")]
    done = run(["-m", *shlex.split(line.replace("declarative", mode))])
    assert (done.returncode, done.stdout) == (0, "CPU usage is 72.5%, below the 80% threshold.\n")
    assert f"{calls} LLM calls, 3 tool calls" in done.stderr


def test_every_other_command_is_one_of_make_pip_or_the_shell() -> None:
    makefile = (ROOT / "Makefile").read_text()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for _, line, _ in commands():
        if extra := re.match(r"pip install -e '\.\[([\w,-]+)\]'", line):
            assert set(extra[1].split(",")) <= set(extras)
        else:
            srt = "|".join(f"{install}$" for install in (INSTALL["srt"], "apt-get install bubblewrap socat ripgrep"))
            assert re.match(rf"make \w+$|export \w+=|callgate |claude mcp add |{srt}", line), line
    for text in (*PAGES.values(), (ROOT / "CHANGELOG.md").read_text()):
        for target in re.findall(r"(?<=[`\n])make ([a-z][a-z-]*)", text):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


@pytest.mark.parametrize("page", PAGES)
def test_every_link_within_the_repository_leads_somewhere(page: str) -> None:
    folder = ROOT if page == "README" else ROOT / "docs"
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", PAGES[page]):
        assert os.path.exists(folder / target), target
