"""`callgate plan` before and after a run: faults, explanations, estimates and timelines."""

from __future__ import annotations

import json
import re

import pytest

from cli.command import Command
from cli.plans import MORE_TOOLS, NOWHERE, OSLO, ROME, TOOLS, WARMER, plan_file


@pytest.fixture(autouse=True)
def more_tools(cli: Command) -> None:
    (cli.folder / "more.py").write_text(MORE_TOOLS)


# without running


def test_check_prints_every_fault_as_compilers_do_and_runs_nothing(cli: Command) -> None:
    (cli.folder / "plan.json").write_text(
        '{"steps": [\n'
        '  {"id": "a", "tool": "chatti"},\n'
        '  {"id": "b", "tool": "get_weather",\n'
        '   "args": {"city": "$ref:c"}},\n'
        '  {"id": "chat", "tool": "chatty"}]}\n'
    )
    done = cli("plan", "--check", "plan.json", *TOOLS)
    assert done.status == 1
    assert done.out.splitlines() == [
        "plan.json:2:23: error unknown-tool step 'a' (steps[0].tool): there is no tool 'chatti'; did you mean chatty?",
        "plan.json:4:21: error unknown-step step 'b' (steps[1].arguments.city): '$ref:c': there is no step 'c'; "
        "the steps are: a, b, chat",
    ]
    assert done.err == ""


def test_check_of_a_sound_plan_finds_nothing_and_runs_nothing(cli: Command) -> None:
    done = cli("plan", "--check", plan_file(cli, {"id": "a", "tool": "chatty"}), *TOOLS)
    assert (done.status, done.out, done.err) == (0, "", "nothing found\n")


def test_warnings_are_told_and_stop_nothing(cli: Command) -> None:
    file = plan_file(cli, {**OSLO, "max_items": 3})
    done = cli("plan", "--check", file, *TOOLS)
    assert done.status == 0
    assert re.match(r"plan\.json:1:\d+: warning no-effect step 'oslo'", done.out)
    ran = cli("plan", file, *TOOLS)
    assert (ran.status, ran.out) == (0, '{"temp": 4}\n')
    assert "warning no-effect" in ran.err


def test_check_as_json_lists_the_faults_with_their_places(cli: Command) -> None:
    done = cli("plan", "--check", "--json", plan_file(cli, {**OSLO, "tool": "x"}), *TOOLS)
    (fault,) = json.loads(done.out)
    assert (fault["code"], fault["place"], fault["line"], fault["column"]) == ("unknown-tool", "steps[0].tool", 1, 35)


@pytest.mark.parametrize("text", ["", "{", '{"steps": []}', "[1]", "not JSON", "[" * 100_000])
def test_what_is_no_plan_is_refused_in_one_error(cli: Command, text: str) -> None:
    (cli.folder / "plan.json").write_text(text)
    done = cli("plan", "plan.json", *TOOLS)
    assert (done.status, done.out) == (1, "")
    assert done.error.startswith("the plan was not run: ")
    assert done.tip
    assert cli("plan", "--check", "plan.json", *TOOLS).out.startswith("plan.json")


def test_a_refused_plan_runs_nothing_and_tells_all_its_faults(cli: Command) -> None:
    done = cli(
        "plan", plan_file(cli, {"id": "a", "tool": "chatty"}, {**OSLO, "tool": "x"}, {**ROME, "tool": "y"}), *TOOLS
    )
    assert (done.status, done.out) == (1, "")
    assert "a tool's own print" not in done.err
    assert done.err.count("error unknown-tool") == 2
    assert done.error == "the plan was not run: step 'oslo': there is no tool 'x' (and 1 more)"


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("--explain", "wave 0\n  oslo: get_weather"),
        ("--explain=text", "wave 0"),
        ("--explain=json", '"wave": 0'),
        ("--explain=mermaid", "flowchart LR"),
    ],
)
def test_explain_says_what_it_would_do_and_runs_nothing(cli: Command, option: str, expected: str) -> None:
    file = plan_file(cli, OSLO, WARMER, {"id": "chat", "tool": "chatty", "depends_on": ["oslo"]})
    for arguments in ([option, file], [file, option]):
        done = cli("plan", *arguments, *TOOLS)
        assert (done.status, done.err) == (0, "")
        assert expected in done.out


def test_a_plan_with_faults_cannot_be_explained(cli: Command) -> None:
    done = cli("plan", "--explain", plan_file(cli, {**OSLO, "tool": "x"}), *TOOLS)
    assert (done.status, done.out) == (1, "")
    assert done.error == "the plan cannot be explained: it has 1 fault"
    assert "error unknown-tool" in done.err


def test_an_estimate_rests_on_what_earlier_runs_kept(cli: Command) -> None:
    file = plan_file(cli, OSLO, WARMER)
    kept = ["--statistics", str(cli.folder / "tools.db")]
    before = cli("plan", "--estimate", file, *kept, *TOOLS)
    assert (before.status, before.err) == (0, "")
    assert before.out.startswith("how long it takes is not known: none of its tools has a history yet\n")
    assert "no history yet: add_one, get_weather" in before.out
    assert "0 ms" not in before.out
    assert cli("plan", file, *kept, *TOOLS).status == 0
    after = cli("plan", "--estimate", "--json", file, *kept, *TOOLS)
    assert json.loads(after.out)["unknown"] == []
    assert json.loads(after.out)["duration_seconds"] > 0
    bad = cli("plan", "--estimate", plan_file(cli, {**OSLO, "tool": "x"}), *TOOLS)
    assert (bad.status, bad.error) == (1, "the plan cannot be estimated: it has 1 fault")
    nowhere = cli("plan", file, "--statistics", "/proc/nowhere/x.db", *TOOLS)
    assert nowhere.status == 2
    assert "the statistics file /proc/nowhere/x.db cannot be used" in nowhere.error


# the timeline


def test_a_timeline_is_drawn_on_stderr(cli: Command) -> None:
    file = plan_file(cli, OSLO, WARMER, output_steps=["warmer"])
    for arguments in (["--timeline", file], [file, "--timeline"]):
        done = cli("plan", *arguments, *TOOLS)
        assert (done.status, done.out) == (0, "5\n")
        assert "critical path" in done.err
        assert "\x1b" not in done.err


def test_a_page_of_the_plan_is_written_after_the_run(cli: Command) -> None:
    file = plan_file(cli, OSLO, NOWHERE)
    for arguments in (["--trace", "out.html"], ["--trace=out.html"]):
        (cli.folder / "out.html").unlink(missing_ok=True)
        done = cli("plan", *arguments, file, *TOOLS)
        assert done.status == 1
        assert "page: out.html" in done.err
        assert "nowhere" in (cli.folder / "out.html").read_text(encoding="utf-8")
