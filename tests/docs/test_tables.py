"""Every table of the README and of docs/ lists what the code has, and every example in a table is true."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
from collections.abc import Callable, Collection
from functools import cache
from typing import Any, get_args

import anyio
import pytest

from callgate import Agent, AgentResult, Limits, Registry, Runtime, Tool, tool
from callgate.agent import events
from callgate.agent.loop.budget import Budget
from callgate.agent.react.config import GatewayConfig, PlannerConfig
from callgate.agent.routing.offers import mode_of
from callgate.cli import words
from callgate.cli.agent import exit_code
from callgate.cli.options import size_text
from callgate.plan.expressions.functions import FUNCTIONS
from callgate.plan.faults import PLAN_FAULT_CODES
from callgate.plan.model import Plan, Step
from callgate.runtime.model.meta import DefinitionOptions
from callgate.tools.stubs import signature, stubs
from docs.pages import PAGES, ROOT, blocks, rows, section


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
