"""What docs/agents.md shows is run, with a played model behind real HTTP, and its tables list what there is."""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest

from callgate import Agent, AgentResult, Runtime, Tool
from callgate.agent import events
from callgate.agent.events import Outcome
from callgate.agent.loop.budget import Budget
from callgate.agent.loop.system_text import PLAN_CHARACTERS
from callgate.agent.loop.transcript import MAX_LINE_BYTES, read_transcript
from callgate.agent.routing.offers import MOST_SHOWN, mode_of
from callgate.bench.model.stand_in import Call, Move, OpenAIChat, Script, Turn, serving
from callgate.bench.model.stand_in.server import KEY
from callgate.cli.agent import command
from callgate.cli.agent_report import exit_code

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "agents.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
PYTHON = [text for kind, text in BLOCKS if kind == "python"]


def rows(section: str) -> list[list[str]]:
    """The cells of the table below that heading."""
    text = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return [line.split(" | ") for line in re.findall(r"^\| (.*) \|$", text, re.MULTILINE)]


def run(line: list[str], script: Script) -> str:
    with serving(OpenAIChat(script)) as address:
        environment = os.environ | {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": f"{address}/v1"}
        done = subprocess.run(
            [sys.executable, "-W", "error", *line], cwd=ROOT, env=environment, capture_output=True, text=True,
            timeout=60, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_first_command_prints_what_is_shown_below_it() -> None:
    def plans(turn: Turn) -> Move:
        steps: list[dict[str, Any]] = [
            {"id": "days", "tool": "days_in_month", "arguments": {"year": 2028, "month": 2}},
            *(
                {"id": name, "tool": "utc_offset", "arguments": {"zone": zone, "day": "2028-02-${days}"}}
                for name, zone in (("oslo", "Europe/Oslo"), ("tokyo", "Asia/Tokyo"))
            ),
        ]
        return Call("execute_tool_plan", {"steps": steps, "output_steps": ["oslo", "tokyo"]})

    def concludes(turn: Turn) -> Move:
        hours = {
            name: float(value) for name, value in re.findall(r"(oslo|tokyo): ([\d.]+)$", turn.answer, re.MULTILINE)
        }
        return f"{hours['tokyo'] - hours['oslo']:g} hours."

    console = next(text for kind, text in BLOCKS if kind == "console")
    line, shown = re.findall(r"^\$ callgate (.*)\n(.*)\n", console, re.MULTILINE)[0]
    words = re.findall(r'"([^"]*)"|(\S+)', line)
    assert (
        run(["-m", "callgate", *(quoted or plain for quoted, plain in words)], Script(plans, concludes)) == f"{shown}\n"
    )


def test_the_first_program_prints_what_is_shown_below_it() -> None:
    def calls(turn: Turn) -> Move:
        return [Call("get_weather", {"city": city}) for city in ("Oslo", "Rome")]

    def concludes(turn: Turn) -> Move:
        oslo, rome = (json.loads(answer.text)["degrees"] for answer in turn.answers)
        return f"Yes: {rome} degrees in Rome, {oslo} in Oslo."

    (shown,) = [text for kind, text in BLOCKS if kind == "text"]
    assert run(["-c", PYTHON[0]], Script(calls, concludes)) == shown


def test_the_listener_shows_words_and_calls(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    exec(PYTHON[1], names)
    names["show"](events.TextArrived(turn=1, text="It is "))
    names["show"](events.CallEnded(turn=1, id="a", name="get_weather", ok=True, text="", seconds=0.25))
    assert capsys.readouterr().out == "It is [get_weather: ok, 0.2 s]\n"


def test_every_kind_of_line_is_in_the_table_with_its_fields() -> None:
    listed = {kind.strip("`"): set(re.findall(r"`(\w+)`", fields)) for kind, _, fields in rows("The transcript")[1:]}
    for event in get_args(events.AgentEvent):
        kind = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", event.__name__).lower()
        assert listed.pop(kind) == {field.name for field in dataclasses.fields(event)}
    assert listed == {}
    assert f"{MAX_LINE_BYTES // 2**20} MiB" in PAGE


def test_the_line_that_is_shown_is_one(tmp_path: Path) -> None:
    (line,) = [text for kind, text in BLOCKS if kind == "json"]
    (tmp_path / "t.jsonl").write_text(line)
    (read,) = read_transcript(tmp_path / "t.jsonl")
    assert isinstance(read.event, events.CallBegan)


def test_every_outcome_is_in_the_table_with_its_exit_code() -> None:
    listed = {
        outcome: code
        for outcomes, code, _ in rows("What goes wrong")[1:]
        for outcome in re.findall(r"`(\w+)`", outcomes)
    }
    assert set(listed) == set(get_args(Outcome))
    for outcome, code in listed.items():
        if code != "none":
            assert exit_code(outcome) == int(code)


def test_modes_budgets_and_bounds_are_those_of_the_code() -> None:
    modes = [re.findall(r"`(\w+)`", cell) for cell, *_ in rows("Modes")[1:]]
    assert [names[0] for names in modes] == ["direct", "plan", "code", "auto"]
    assert [mode_of(name) for names in modes for name in names] == ["direct", "direct", "plan", "plan", "code", "auto"]
    defaults = {re.findall(r"Budget\((\w+)=", cell)[0]: default for cell, _, default in rows("What may be spent")[1:]}
    for name, default in defaults.items():
        value = getattr(Budget(), name)
        assert default.strip() == ("none" if value is None else f"{value:g}")
    assert f"more than {MOST_SHOWN} tools" in PAGE
    assert f"up to {PLAN_CHARACTERS:,} characters" in PAGE


def test_what_others_call_otherwise_exists_here() -> None:
    here = " ".join(cell for _, cell in rows("If you come from elsewhere")[1:])
    known = [
        name for made in (Agent.__init__, Runtime.__init__, Budget, Tool) for name in inspect.signature(made).parameters
    ]
    named = re.findall(r"(?<=[`(])(\w+)=", here)
    assert {"on_event", "turns", "transcript", "approve", "system", "requires_approval"} <= set(named) <= set(known)
    assert hasattr(Agent, "resume")


def test_the_names_of_a_result_are_its_own() -> None:
    (said,) = re.findall(r"^`AgentResult` has (.*?)\. The model reads", PAGE, re.MULTILINE | re.DOTALL)
    names = re.findall(r"`(\w+)`", said)
    assert {"ok", "answer", "usage", "messages", "artifacts"} <= set(names)
    assert all(hasattr(AgentResult(outcome="answered", answer=""), name) for name in names)


def test_every_flag_that_is_named_exists() -> None:
    known = {name for parameter in command.params for name in parameter.opts}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", PAGE)) <= known
