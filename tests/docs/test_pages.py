"""Every snippet and every command of the README and of docs/ runs, and every table lists what the code has.

The blocks of Python of a page are one program, whose output is in the blocks of text right below them. A command is run
where the page shows what it prints; any other is parsed to the last option. Whoever writes a page writes no test.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args

import anyio
import pytest
from click.testing import CliRunner

from callgate import Agent, AgentResult, Limits, Registry, Runtime, Tool, tool
from callgate.agent import events
from callgate.agent.loop.budget import Budget
from callgate.agent.loop.transcript import read_transcript
from callgate.agent.react.config import GatewayConfig, PlannerConfig, read_config
from callgate.agent.routing.offers import mode_of
from callgate.cli import words
from callgate.cli.agent import exit_code
from callgate.cli.commands import callgate
from callgate.cli.options import size_text
from callgate.mcp.config import read_config as read_servers
from callgate.plan.expressions.functions import FUNCTIONS
from callgate.plan.faults import PLAN_FAULT_CODES
from callgate.plan.model import Plan, Step
from callgate.runtime.model.meta import DefinitionOptions
from callgate.tools.stubs import signature, stubs
from callgate_bench.model.stand_in import AnthropicMessages, Call, Move, OpenAIChat, OpenAIResponses, Script, Turn
from callgate_bench.model.stand_in import serving as served
from callgate_bench.model.stand_in.server import KEY

ROOT = Path(__file__).parents[2]
PAGES = {path.stem: path.read_text() for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]}
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
BLOCKS = {page: FENCED.findall(text) for page, text in PAGES.items()}


def section(page: str, heading: str) -> str:
    """A section of a page, with its subsections."""
    _, level, below = re.split(rf"^(#+) {re.escape(heading)}\n", PAGES[page], maxsplit=1, flags=re.M)
    return re.split(rf"^#{{1,{len(level)}}} ", below, maxsplit=1, flags=re.M)[0]


def blocks(page: str, *kinds: str, heading: str = "") -> list[str]:
    """The blocks of code of a page, or of one section."""
    found = FENCED.findall(section(page, heading)) if heading else BLOCKS[page]
    return [text for kind, text in found if kind in kinds]


def rows(page: str, heading: str) -> list[list[str]]:
    """The cells of the tables below a heading, without the head of the first one."""
    return [line.split(" | ") for line in re.findall(r"^\| (.*) \|$", section(page, heading), re.MULTILINE)][1:]


def run(
    line: list[str],
    folder: Path = ROOT,
    stderr: int = subprocess.PIPE,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", *line], cwd=folder, env={**os.environ, **variables}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=stderr, text=True, timeout=120, check=False,
    )  # fmt: skip


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


def programs() -> dict[str, tuple[str, str]]:
    """The program of each page, and what it prints."""
    found: dict[str, tuple[str, str]] = {}
    for page, both in BLOCKS.items():
        shown = [below for (kind, _), (then, below) in itertools.pairwise(both) if (kind, then) == ("python", "text")]
        if source := "\n".join(text for kind, text in both if kind == "python"):
            found[page] = source, "".join(shown)
    return found


@pytest.mark.parametrize("page", programs())
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
    exec(blocks("agents", "python")[1], names)
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
                elif "mcpServers" in each:
                    servers = read_servers(each, {"GITHUB_TOKEN": "ghp_x", "SEARCH_TOKEN": "tok"})
                    assert [server.fault for server in servers] == [None] * len(each["mcpServers"])
                else:
                    assert set(each) in ({"servers"}, {"code", "session"})
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
    ("page", "line", "shown"), CALLGATE, ids=[f"{page}: {line[:60]}" for page, line, _ in CALLGATE]
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
            assert re.match(r"make \w+$|export \w+=|callgate ", line), line
    for text in (*PAGES.values(), (ROOT / "CHANGELOG.md").read_text()):
        for target in re.findall(r"(?<=[`\n])make ([a-z][a-z-]*)", text):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


# tables


def ticked(text: str) -> list[str]:
    return re.findall(r"`(\w+)`", text)


def first_cells(page: str, heading: str = "") -> list[str]:
    """What the first cells of the tables name; of one table, if it is told by the line of its head."""
    text = PAGES[page].partition(heading)[2].lstrip("\n").partition("\n\n")[0] if heading else PAGES[page]
    return re.findall(r"^\| `([\w-]+)`", text, re.MULTILINE)


def options(page: str) -> list[list[str]]:
    return [
        re.findall(r"^\| `(\w+)` \|", part.split("\n\n")[0], re.M) for part in PAGES[page].split("| option | |\n")[1:]
    ]


def transcript_lines() -> dict[str, set[str]]:
    kinds = {re.sub(r"(?<=[a-z])(?=[A-Z])", "_", each.__name__).lower(): each for each in get_args(events.AgentEvent)}
    return {kind: {field.name for field in dataclasses.fields(event)} for kind, event in kinds.items()}


def budgets() -> dict[str, str]:
    told = {
        re.findall(r"Budget\((\w+)=", cell)[0]: default.strip()
        for cell, _, default in rows("agents", "What may be spent")
    }
    return {name: default for name, default in told.items() if default != budget_default(name)}


def budget_default(name: str) -> str:
    value = getattr(Budget(), name)
    return "none" if value is None else f"{value:g}"


TABLES: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "programs: limits": (
        lambda: re.findall(r"^\| `(\w+)` \| (\S+) \|", section("programs", "Limits"), re.M),
        lambda: [
            (each.name, size_text(int(each.default)) if each.name.endswith("_bytes") else f"{each.default:.0f}")
            for each in dataclasses.fields(Limits)
            if isinstance(each.default, (int, float))
        ],
    ),
    "cli: exit codes": (
        lambda: {int(code) for code in re.findall(r"^\| (\d+) \|", PAGES["cli"], re.M)},
        lambda: set(words.Exit),
    ),
    "plans: fields": (
        lambda: {*Plan.model_fields, *Step.model_fields} & {*first_cells("plans")},
        lambda: {*Plan.model_fields, *Step.model_fields},
    ),
    "plans: fault codes": (
        lambda: {code for code, meaning in PLAN_FAULT_CODES.items() if f"| `{code}` | {meaning} |" in PAGES["plans"]},
        lambda: {*PLAN_FAULT_CODES},
    ),
    "model: options": (lambda: {*options("model")[0]}, lambda: {*DefinitionOptions.__annotations__}),
    "planners: options": (
        lambda: options("planners")[-2:],
        lambda: [[*PlannerConfig.model_fields], [*GatewayConfig.model_fields]],
    ),
    "fast path: functions": (
        lambda: {*FUNCTIONS} & {*re.findall(r"`([\w.]+)`", PAGES["programs"])},
        lambda: {*FUNCTIONS},
    ),
    "agents: transcript": (
        lambda: {kind.strip("`"): {*ticked(fields)} for kind, _, fields in rows("agents", "The transcript")},
        transcript_lines,
    ),
    "agents: outcomes": (
        lambda: {
            outcome: code
            for outcomes, code, _ in rows("agents", "What goes wrong")
            for outcome in ticked(outcomes)
        },
        lambda: {each: "none" if each == "interrupted" else str(exit_code(each)) for each in get_args(events.Outcome)},
    ),
    "agents: modes": (
        lambda: [(name, mode_of(name)) for cell, *_ in rows("agents", "Modes") for name in ticked(cell)],
        lambda: [
            ("direct", "direct"), ("individual", "direct"), ("plan", "plan"), ("declarative", "plan"), ("code", "code"),
            ("auto", "auto"),
        ],
    ),
    "agents: budgets": (budgets, dict),
}  # fmt: skip


@pytest.mark.parametrize("table", TABLES)
def test_a_table_is_what_the_code_has(table: str) -> None:
    told, known = TABLES[table]
    assert told() == known()


def names_elsewhere() -> list[str]:
    """Parameters that the page on agents names for those who come from elsewhere."""
    return re.findall(r"(?<=[`(])(\w+)=", " ".join(cell for _, cell in rows("agents", "If you come from elsewhere")))


def flags(page: str, command: Any) -> tuple[Collection[str], Collection[str]]:
    known = {flag for each in command.params for flag in (*each.opts, *each.secondary_opts)}
    return re.findall(r"(?<![\w-])--[a-z][a-z-]+", PAGES[page]), known


def test_names_that_pages_use_exist() -> None:
    from callgate.cli.agent import command as agent
    from callgate.cli.serve import command as serve

    parameters = {
        name for made in (Agent.__init__, Runtime.__init__, Budget, Tool) for name in inspect.signature(made).parameters
    }
    result = re.findall(r"^`AgentResult` has (.*?)\. The model reads", PAGES["agents"], re.M | re.S)
    every = "\n".join(PAGES.values())
    registry = re.findall(r"`Registry\.(\w+)", every)
    for told, known in (
        (names_elsewhere(), parameters),
        (ticked(result[0]), dir(AgentResult(outcome="answered", answer=""))),
        (registry, dir(Registry)),
        flags("agents", agent),
        (
            re.findall(
                r"(?<![\w-])--[a-z][a-z-]+", "".join(blocks("mcp", "console", heading="callgate as an MCP server"))
            ),
            flags("mcp", serve)[1],
        ),
    ):
        assert told
        assert set(told) <= set(known)


@pytest.mark.parametrize("page", PAGES)
def test_every_link_within_the_repository_leads_somewhere(page: str) -> None:
    folder = ROOT if page == "README" else ROOT / "docs"
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", PAGES[page]):
        assert os.path.exists(folder / target), target


# the fast path: each example of the page takes it, or does not


BEFORE = 'import asyncio, json\ncities = ["Oslo", "Rome"]\noslo = await get_weather("Oslo")\nrows = []\n'
"""What the examples may use."""


@tool(read_only=True)
async def get_weather(city: str) -> dict[str, object]:
    """Today's weather."""
    return {"city": city, "temp": len(city)}


@tool
async def send_note(text: str) -> int:
    """Send a note."""
    return len(text)


def examples(heading: str) -> list[str]:
    """The examples in the first cells; what goes on ``and then`` is one program."""
    found: list[str] = []
    for cell, *_ in rows("programs", heading):
        codes = re.findall(r"`([^`]+)`", cell)
        for code in ["\n".join(codes)] if " and then " in cell else codes:
            found.append(BEFORE + re.sub(r" (?=except |case )", "\n    " if "match" in code else "\n", code))
    assert len(found) > 10
    return found


@pytest.mark.parametrize("program", examples("What takes it"))
def test_what_is_said_to_take_the_fast_path_does(program: str) -> None:
    async def ended() -> tuple[object, ...]:
        async with Runtime([get_weather, send_note], sandbox=None) as runtime:
            result = await runtime.execute_code(program)
        return runtime.compile(program).reasons, result.error, result.path

    assert anyio.run(ended) == ([], None, "plan")


@pytest.mark.parametrize("program", examples("What does not"))
def test_what_is_said_not_to_take_it_does_not_and_says_why(program: str) -> None:
    compile(program, "<program>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    reasons = Runtime([get_weather, send_note], sandbox=None).compile(program).reasons
    assert reasons
    assert all(reason.line > BEFORE.count("\n") for reason in reasons)


# stubs


CREATE = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "description": "One line.", "minLength": 1, "maxLength": 80},
        "state": {"enum": ["open", "shut"], "default": "open"},
        "due": {"type": "string", "format": "date"},
    },
    "required": ["title"],
}
ISSUE = {
    "title": "Issue",
    "description": "An issue, as it stands.",
    "type": "object",
    "properties": {
        "number": {"type": "integer", "description": "Its number.", "minimum": 1},
        "labels": {"type": "array", "items": {"type": "string"}, "default": ["new"]},
    },
    "required": ["number"],
}


def test_the_stub_that_is_shown_is_what_is_written() -> None:
    made = Tool.from_schema("github_create_issue", "Create an issue.", CREATE, dict, output_schema=ISSUE)
    text = stubs(Registry([dataclasses.replace(made, server="github", server_tool="create_issue")]))
    assert text.endswith(f"\n\n\n{blocks('model', 'text', heading='Stubs')[0]}")


@pytest.mark.parametrize(
    ("names", "written"),
    [(["from"], "convert(from_: str) -> Any"), (["from", "from_"], "convert(*, from_: str, **{'from': str}) -> Any")],
)
def test_odd_arguments_are_given_as_the_page_on_stubs_says(names: list[str], written: str) -> None:
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in names}, "required": names}
    assert signature(Tool.from_schema("convert", "", schema, dict), "convert") == written


# the requirements of the reference documents: each names files and tests


TABLE = (ROOT / "tests" / "agent" / "requirements.md").read_text()
REQUIREMENTS = [line.split(" | ") for line in re.findall(r"^\| (.*) \|$", TABLE, re.MULTILINE)]


@cache
def names_in(path: str) -> frozenset[str]:
    return frozenset(re.findall(r"^(?:async )?def (test_\w+)", (ROOT / path).read_text(), re.M))


def test_every_requirement_names_a_place_and_a_test_that_exist() -> None:
    assert len(REQUIREMENTS) > 100
    for what, where, tests in REQUIREMENTS:
        if what == "requirement":
            continue
        for place in re.findall(
            r"`((?:agent|runtime|plan|protocol|sandbox|tools|cli|search|program)/[\w/]*(?:\.py)?)`", where
        ):
            assert (ROOT / "host" / "callgate" / place).exists(), (what, place)
        named = re.findall(r"`(tests/[\w/.]+)(?:::(\w+))?`", tests)
        assert named, what
        for path, name in named:
            assert (ROOT / path).exists(), (what, path)
            assert not name or name in names_in(path), (what, name)
