"""`callgate compile`, and `callgate run --path`: the plan a program is, or why it is none."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from cli.command import Command, Outcome

NOTING_TOOLS = '''
import asyncio
import json
import os

from callgate import ToolError, tool

NOTES = os.path.join(os.path.dirname(__file__), "notes")


def note(name, /, **arguments):
    with open(NOTES, "a") as notes:
        notes.write(json.dumps([name, arguments], sort_keys=True) + "\\n")


@tool(read_only=True)
async def get_team(name: str) -> list[dict[str, int]]:
    """The people of a team.

    Args:
        name: its name.
    """
    note("get_team", name=name)
    await asyncio.sleep(0.05)
    return [{"id": 71}, {"id": 72}, {"id": 73}]


@tool(read_only=True)
async def get_budget(id: int, year: int = 2026) -> int:
    """What a person may spend.

    Args:
        id: whose.
        year: in which year.
    """
    note("get_budget", id=id, year=year)
    await asyncio.sleep(0.05)
    return id * 100


@tool
async def save(text: str) -> str:
    """Keep a text.

    Args:
        text: any.
    """
    note("save", text=text)
    return f"saved {text}"


@tool(requires_approval=True)
async def publish(text: str) -> str:
    """Show a text to everybody.

    Args:
        text: any.
    """
    note("publish", text=text)
    return text
'''

GRAPH = """
team = await get_team(name)
other = await get_team("east")
budgets = []
for person in team:
    budgets.append(await get_budget(person["id"]))
if len(other) > 2:
    print("large")
saved = await save(f"{sum(budgets)} of {len(team)}")
saved
"""

NO_GRAPH = """
team = await get_team("west")
total = 0
while team:
    total += await get_budget(team.pop().id)
try:
    await save(str(total))
except ToolError:
    pass
"""

TOOLS = ("--tools", "noting.py")
NAME = ("--input", 'name="west"')


@pytest.fixture(autouse=True)
def noting_tools(cli: Command) -> None:
    (cli.folder / "noting.py").write_text(NOTING_TOOLS)
    (cli.folder / "graph.py").write_text(GRAPH)
    (cli.folder / "loop.py").write_text(NO_GRAPH)


def notes(cli: Command) -> list[Any]:
    """The calls made since the last time that somebody asked."""
    file = cli.folder / "notes"
    made = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    file.unlink(missing_ok=True)
    return made


def compiled(cli: Command, code: str, *more: str) -> Outcome:
    return cli("compile", "-c", code, *TOOLS, *more)


# a graph


def test_a_graph_is_shown_as_a_plan_with_lines_waves_and_who_waits_for_whom(cli: Command) -> None:
    done = cli("compile", "graph.py", *TOOLS, *NAME)
    assert (done.status, done.err) == (0, "")
    assert "wave 0, 2 steps in parallel" in done.out
    assert "line 2: get_team(name)" in done.out
    assert re.search(r"waits for .*team", done.out)
    assert notes(cli) == [], "nothing was run"


def test_json_is_the_plan_alone_and_callgate_plan_makes_the_same_calls(cli: Command) -> None:
    done = cli("compile", "graph.py", "--json", *TOOLS, *NAME)
    assert (done.status, done.err) == (0, "")
    plan = json.loads(done.out)
    assert [step["tool"] for step in plan["steps"]] == ["get_team", "get_team", "get_budget", "save"]
    ran = cli("run", "graph.py", "--path", "sandbox", *TOOLS, *NAME)
    assert (ran.status, ran.out) == (0, "large\nsaved 21600 of 3\n")
    expected = notes(cli)
    planned = cli("plan", "-", *TOOLS, stdin=done.out)
    assert planned.status == 0, planned.err
    made = notes(cli)
    assert sorted(made, key=str) == sorted(expected, key=str)
    assert made[-1] == expected[-1] == ["save", {"text": "21600 of 3"}]


def test_the_plan_passes_the_check_of_plans(cli: Command) -> None:
    text = cli("compile", "graph.py", "--json", *TOOLS, *NAME).out
    assert cli("plan", "-", "--check", *TOOLS, stdin=text).status == 0
    assert cli("plan", "-", "--explain", *TOOLS, stdin=text).status == 0


def test_mermaid_is_a_flowchart(cli: Command) -> None:
    done = cli("compile", "graph.py", "--mermaid", *TOOLS, *NAME)
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("flowchart ")
    assert "-->" in done.out


def test_a_program_comes_from_stdin_or_the_command_line_too(cli: Command) -> None:
    expected = cli("compile", "graph.py", "--json", *TOOLS, *NAME).out
    assert cli("compile", "-", "--json", *TOOLS, *NAME, stdin=GRAPH).out == expected
    assert compiled(cli, GRAPH, "--json", *NAME).out == expected


def test_neither_sandbox_nor_namespaces_are_needed(cli: Command) -> None:
    assert cli.without_namespaces("compile", "graph.py", *TOOLS, *NAME).status == 0


# no graph


def test_a_program_that_is_no_graph_says_why_not_on_stderr_and_exits_with_1(cli: Command) -> None:
    for more in ([], ["--json"], ["--mermaid"]):
        done = cli("compile", "loop.py", *TOOLS, *more)
        assert (done.status, done.out) == (1, "")
        assert re.match(r"loop\.py:4: while: .+; .+\n", done.err)
        assert "runs in the sandbox (and 1 more reason)" in done.error
        assert "--why" in done.tip
    assert notes(cli) == []


def test_one_reason_is_told_without_others(cli: Command) -> None:
    done = compiled(cli, "while False:\n    pass")
    assert done.err.startswith("<command>:1: while: ")
    assert done.error.endswith("runs in the sandbox")


def test_a_program_that_would_not_be_run_at_all_says_so(cli: Command) -> None:
    done = compiled(cli, "await get_teem('west')\nx = undefined")
    assert (done.status, done.out) == (1, "")
    assert "<command>:1:7: error unknown-name" in done.err
    assert done.error.startswith("the program would not be run: line 1: ")
    assert done.error.endswith("(and 1 more)")
    assert done.tip == "did you mean `get_team`?"


@pytest.mark.parametrize("code", ["", "x = (", "(" * 1000, "\x00", "a = 1\n" * 100_000, "a" + ".b" * 5000])
def test_whatever_the_source_it_ends_well(cli: Command, code: str) -> None:
    done = cli("compile", "-", *TOOLS, stdin=code)
    assert done.status in (0, 1)
    assert "Traceback" not in done.err


def test_what_a_hostile_program_holds_does_not_drive_the_terminal(cli: Command) -> None:
    (cli.folder / "hostile.py").write_text("await save('\x1b]0;owned\x07\u202e')\nwhile '\x1b[2J':\n    break\n")
    for arguments in (["compile", "hostile.py"], ["compile", "hostile.py", "--why"]):
        with cli.terminal(*arguments, *TOOLS) as terminal:
            shown = terminal.read_all()
            terminal.wait()
        assert "owned" not in re.sub(r"\\x1b\]0;owned", "", shown)
        assert "\x1b]0;" not in shown
        assert "\x1b[2J" not in shown


# why


def test_why_lists_every_reason_on_stdout(cli: Command) -> None:
    done = cli("compile", "loop.py", "--why", *TOOLS)
    assert (done.status, done.err) == (1, "")
    one, two = done.out.splitlines()
    assert one.startswith("loop.py:4: while: ")
    assert two.startswith("loop.py:6: try: ")
    assert notes(cli) == []


def test_why_as_json_has_reasons(cli: Command) -> None:
    done = cli("compile", "loop.py", "--why", "--json", *TOOLS)
    told = json.loads(done.out)
    assert (done.status, done.err) == (1, "")
    assert told["path"] == "sandbox"
    assert [(reason["line"], reason["construct"]) for reason in told["reasons"]] == [(4, "while"), (6, "try")]


def test_why_of_a_graph_says_that_it_is_one(cli: Command) -> None:
    done = cli("compile", "graph.py", "--why", *TOOLS, *NAME)
    assert (done.status, done.err, done.out) == (0, "", "on the fast path: nothing keeps it from there\n")
    told = json.loads(cli("compile", "graph.py", "--why", "--json", *TOOLS, *NAME).out)
    assert told == {"path": "plan", "reasons": []}


# usage


@pytest.mark.parametrize(
    ("arguments", "error", "tip"),
    [
        ([], "there is no program", "-c CODE"),
        (["graph.py", "--json", "--mermaid"], "--json and --mermaid cannot both be on stdout", "leave one"),
        (["graph.py", "--why", "--mermaid"], "--why and --mermaid cannot both be on stdout", "leave one"),
        (["graph.py", "--input", "save=1"], "the input 'save' would hide the tool", "callgate compile --help"),
    ],
)
def test_usage_errors_exit_with_2(cli: Command, arguments: list[str], error: str, tip: str) -> None:
    done = cli("compile", *arguments, *TOOLS, *([] if "--input" in arguments else NAME))
    assert (done.status, done.out) == (2, "")
    assert error in done.error
    assert tip in done.tip


# run --path


def test_a_run_says_which_path_it_took_only_where_that_is_asked_for(cli: Command) -> None:
    arguments = ("run", "graph.py", *TOOLS, *NAME)
    quiet = cli(*arguments)
    assert (quiet.status, quiet.out, quiet.err) == (0, "large\nsaved 21600 of 3\n", "")
    result = json.loads(cli(*arguments, "--json").out)
    assert (result["path"], len(result["plan"]["steps"]), result["speculative"]) == ("plan", 6, [])
    assert "path: plan" in cli(*arguments, "--verbose").err
    sandboxed = json.loads(cli(*arguments, "--json", "--path", "sandbox").out)
    assert (sandboxed["path"], sandboxed["plan"], sandboxed["speculative"]) == ("sandbox", None, [])
    assert "path: sandbox" in cli(*arguments, "--verbose", "--path", "sandbox").err
    for same in ("ok", "value", "logs", "error", "findings"):
        assert result[same] == sandboxed[same]


def test_a_program_that_is_no_graph_can_be_refused(cli: Command) -> None:
    done = cli("run", "loop.py", "--path", "plan", *TOOLS)
    assert (done.status, done.out) == (1, "")
    assert "while" in done.error
    assert "--path auto" in done.tip
    assert notes(cli) == []


def test_calls_begun_early_and_not_reached_are_told_apart(cli: Command) -> None:
    code = "team = await get_team('west')\nprint(team[5])\nawait get_budget(7)"
    done = cli("run", "-v", "-c", code, *TOOLS)
    assert done.status == 1
    assert "1 tool call, 1 more begun early and not reached" in done.err
    result = json.loads(cli("run", "--json", "-c", code, *TOOLS).out)
    assert [call["tool"] for call in result["calls"]] == ["get_team"]
    assert [call["tool"] for call in result["speculative"]] == ["get_budget"]


def test_a_program_that_no_plan_shows_is_shown_by_what_begins_at_once(cli: Command) -> None:
    code = "team = await get_team('west')\nif len(team) > 2:\n    await save('x')"
    done = compiled(cli, code)
    assert (done.status, done.err) == (0, "")
    assert "no plan shows it: line 2: if: a branch makes calls" in done.out
    assert 'line 1: get_team {"name": "west"}' in done.out
    for option in ("--json", "--mermaid"):
        none = compiled(cli, code, option)
        assert (none.status, none.out) == (0, "")
        assert "<command>:2: if: a branch makes calls" in none.err
    assert compiled(cli, code, "--why").status == 0
