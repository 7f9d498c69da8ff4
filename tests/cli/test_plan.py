"""`callgate plan`: outputs, progress, usage and approval."""

from __future__ import annotations

import json
import os
import re
import time
from typing import Any

import pytest

from cli.command import SECONDS, Command
from cli.plans import AFTER, MORE_TOOLS, NOWHERE, OSLO, ROME, TOOLS, WARMER, WIPE, plan_file


@pytest.fixture(autouse=True)
def more_tools(cli: Command) -> None:
    (cli.folder / "more.py").write_text(MORE_TOOLS)


# outputs


def test_one_output_is_its_value_alone_on_stdout(cli: Command) -> None:
    done = cli("plan", plan_file(cli, OSLO, WARMER, output_steps=["warmer"]), *TOOLS)
    assert (done.status, done.out) == (0, "5\n")


@pytest.mark.parametrize(
    ("step", "shown"),
    [
        ({"tool": "say", "arguments": {"text": "text as it is, å"}}, "text as it is, å\n"),
        ({"tool": "get_weather", "arguments": {"city": "Oslo"}}, '{"temp": 4}\n'),
        ({"tool": "nothing"}, "null\n"),
    ],
)
def test_text_is_shown_as_it_is_and_anything_else_as_json(cli: Command, step: dict[str, Any], shown: str) -> None:
    assert cli("plan", plan_file(cli, {"id": "a", **step}), *TOOLS).out == shown


def test_several_outputs_are_a_json_object_by_id_a_line_each(cli: Command) -> None:
    done = cli("plan", plan_file(cli, OSLO, ROME, WARMER, output_steps=["rome", "warmer"]), *TOOLS)
    assert done.out == '{\n  "rome": {"temp": 5},\n  "warmer": 5\n}\n'


def test_how_outputs_are_shown_depends_on_the_plan_not_on_what_failed(cli: Command) -> None:
    done = cli("plan", plan_file(cli, OSLO, NOWHERE), *TOOLS)
    assert done.status == 1
    assert json.loads(done.out) == {"oslo": {"temp": 4}}


def test_a_plan_comes_from_stdin_too_and_may_begin_with_a_byte_order_mark(cli: Command) -> None:
    text = json.dumps({"steps": [OSLO]})
    assert cli("plan", "-", *TOOLS, stdin=text).out == '{"temp": 4}\n'
    assert cli("plan", "-", *TOOLS, stdin=f"\ufeff{text}").out == '{"temp": 4}\n'
    (cli.folder / "bom.json").write_text(text, encoding="utf-8-sig")
    assert cli("plan", "bom.json", *TOOLS).out == '{"temp": 4}\n'


def test_no_sandbox_is_needed(cli: Command) -> None:
    assert cli.without_namespaces("plan", plan_file(cli, OSLO), *TOOLS).status == 0


def test_what_tools_print_is_kept_out_of_stdout(cli: Command) -> None:
    done = cli("plan", plan_file(cli, {"id": "a", "tool": "chatty"}), *TOOLS)
    assert done.out == "1\n"
    assert "a tool's own print" in done.err


def test_json_is_the_whole_artifact_and_nothing_else(cli: Command) -> None:
    done = cli("plan", "--json", plan_file(cli, OSLO, WARMER, output_steps=["warmer"], goal="warm"), *TOOLS)
    result = json.loads(done.out)
    assert (done.status, done.err) == (0, "")
    assert (result["ok"], result["outputs"], result["goal"]) == (True, {"warmer": 5}, "warm")
    assert [step["arguments"] for step in result["steps"]] == [{"city": "Oslo"}, {"number": 4}]
    assert result["calls"][0]["tool"] == "get_weather"


def test_json_of_a_failure_keeps_stdout_clean_and_the_exit_code(cli: Command) -> None:
    done = cli("plan", "--json", plan_file(cli, NOWHERE), *TOOLS)
    assert json.loads(done.out)["error"]["kind"] == "StepFailed"
    assert done.status == 1
    assert done.err == f"ERROR {done.error}\nTIP {done.tip}\n"


def test_json_of_a_refused_plan_has_its_faults(cli: Command) -> None:
    done = cli("plan", "--json", plan_file(cli, {**OSLO, "tool": "get_wether"}), *TOOLS)
    assert done.status == 1
    assert [fault["code"] for fault in json.loads(done.out)["faults"]] == ["unknown-tool"]


def test_for_model_is_what_the_model_would_be_given(cli: Command) -> None:
    done = cli("plan", "--for-model", plan_file(cli, OSLO, NOWHERE, AFTER, output_steps=["oslo"]), *TOOLS)
    assert done.status == 1
    assert done.out.splitlines() == [
        "1/3 steps succeeded.",
        "- oslo (get_weather): succeeded",
        "- nowhere (get_weather): failed: there is no city 'nowhere'",
        "- after (add_one): Skipped because dependency 'nowhere' failed",
        "Outputs:",
        'oslo: {"temp":4}',
    ]


# progress and summary


def test_every_step_is_a_line_on_stderr_when_it_ends_then_a_summary(cli: Command) -> None:
    done = cli("plan", plan_file(cli, OSLO, WARMER), *TOOLS)
    first, second, summary = done.err.splitlines()
    assert re.fullmatch(r'ok       oslo: get_weather\(city="Oslo"\)  [0-9.]+ ms', first)
    assert re.fullmatch(r"ok       warmer: add_one\(number=4\)  [0-9.]+ ms", second)
    assert re.fullmatch(r"2/2 steps succeeded in [0-9.]+ m?s", summary)


def test_failure_goes_forward_and_is_explained_in_one_error_and_one_tip(cli: Command) -> None:
    done = cli("plan", plan_file(cli, NOWHERE, AFTER, OSLO, output_steps=["oslo"]), *TOOLS)
    assert (done.status, done.out) == (1, '{"temp": 4}\n')
    lines = done.err.splitlines()
    assert any(re.fullmatch(r"failed   nowhere: get_weather\(.*: there is no city 'nowhere'", line) for line in lines)
    assert "skipped  after: add_one  because dependency 'nowhere' failed" in lines
    assert re.fullmatch(r"1/3 steps succeeded in [0-9.]+ m?s, 1 failed, 1 skipped", lines[-3])
    assert done.error == "step 'nowhere' did not succeed: there is no city 'nowhere'"
    assert "--verbose" in done.tip


def test_progress_comes_while_the_plan_runs(cli: Command) -> None:
    os.mkfifo(cli.folder / "go")
    file = plan_file(cli, OSLO, {"id": "last", "tool": "wait_for_go"}, output_steps=["last"])
    with cli.start("plan", file, *TOOLS) as (process, output):
        assert process.stderr is not None
        assert process.stderr.readline().startswith(b"ok       oslo")
        assert process.poll() is None
        (cli.folder / "go").write_text("went")
        assert output.readline() == b"went\n"
        assert process.wait(SECONDS) == 0


def test_items_attempts_and_warnings_are_told(cli: Command) -> None:
    each = {"id": "each", "tool": "add_one", "for_each": [1, 2, 3], "arguments": {"number": "$item"}}
    lost = {"id": "lost", "tool": "say", "arguments": {"text": "$ref:oslo.tempo"}}
    twice = {"id": "twice", "tool": "get_weather", "arguments": {"city": "crash"}}
    twice["retry"] = {"attempts": 2, "backoff_seconds": 0}
    done = cli("plan", plan_file(cli, each, OSLO, lost, twice), *TOOLS)
    assert re.search(r"ok       each: .* ms, 3/3 items", done.err)
    assert re.search(r"failed   twice: .* ms, 2 attempts: ", done.err)
    assert re.search(r"         note: .*did you mean temp\?", done.err)


def test_verbose_tells_of_every_call_with_its_arguments(cli: Command) -> None:
    done = cli("plan", "-v", plan_file(cli, OSLO, WARMER), *TOOLS)
    assert 'call     get_weather(city="Oslo")' in done.err
    assert "call     add_one(number=4)" in done.err


def test_a_tool_that_crashes_is_explained_to_the_operator_not_to_the_model(cli: Command) -> None:
    file = plan_file(cli, {"id": "a", "tool": "get_weather", "arguments": {"city": "crash"}, "retry": 1})
    done = cli("plan", "--for-model", file, *TOOLS)
    assert "secret" not in done.out
    assert "ValueError: a secret of the host" in done.err
    assert "Traceback" not in done.err
    assert "Traceback" in cli("plan", "-v", file, *TOOLS).err


def test_at_a_terminal_what_is_under_way_is_shown_below_and_gone_afterwards(cli: Command) -> None:
    os.mkfifo(cli.folder / "go")
    file = plan_file(cli, OSLO, {"id": "last", "tool": "wait_for_go"})
    with cli.terminal("plan", file, *TOOLS) as terminal:
        terminal.read_until("1 step ended, 1 under way, 2 calls")
        terminal.read_until("get_weather")  # the line of the step that ended
        terminal.read_until("wait_for_go")  # in the table
        (cli.folder / "go").write_text("went")
        shown = terminal.read_all()
        assert terminal.wait() == 0
    assert "\x1b[?25h" in shown[shown.rindex("under way") :], "the cursor is there again"
    assert "2/2 steps succeeded" in shown
    assert "\x1b[32mok       oslo" in shown, "the line of the step is green"
    assert "\x1b[2;32m" not in shown, "and paints nothing of the table"


# usage


@pytest.mark.parametrize(
    ("arguments", "error", "tip"),
    [
        ([], "there is no plan", "'-' to read the plan from stdin"),
        (["--trace", "out.html"], "there is no plan", "name a JSON file"),
        (["plan.json", "mermaid", "--explain"], "there are two plans: plan.json and mermaid", "--explain=FORM"),
        (["plan.json", "--explain=svg"], "'svg' is not one of 'text', 'json', 'mermaid'", "callgate plan --help"),
        (["absent.json"], "absent.json cannot be read: No such file or directory", "holds the plan"),
        (["binary.json"], "binary.json is not UTF-8: byte 1 is 0xff", "save it as UTF-8"),
        (["plan.json", "--trace=plan.json"], "'plan.json' is not a .html file", "--trace out.html"),
        (["plan.json", "--trace=no/such/x.html"], "there is no folder no/such", "make it first"),
        (["plan.json", "--trace=folder.html"], "it is a folder", "name a file"),
        (["plan.json", "--check", "--explain"], "--check and --explain cannot both be on stdout", "leave one"),
        (["plan.json", "--json", "--explain"], "--explain and --json cannot both be on stdout", "--explain=json"),
        (["plan.json", "--json", "--for-model"], "--json and --for-model cannot both be on stdout", "leave one"),
        (["plan.json", "--check", "--timeline"], "--timeline shows a run, and --check runs nothing", "leave one"),
        (["plan.json", "--cpu-seconds", "1"], "No such option", "callgate plan --help"),
    ],
)
def test_usage_errors_exit_with_2_before_anything_runs(
    cli: Command, arguments: list[str], error: str, tip: str
) -> None:
    plan_file(cli, OSLO)
    (cli.folder / "binary.json").write_bytes(b"{\xff}")
    (cli.folder / "folder.html").mkdir()
    done = cli("plan", *arguments, *TOOLS)
    assert (done.status, done.out) == (2, "")
    assert error in done.error
    assert tip in done.tip


def test_only_allowed_tools_may_be_called(cli: Command) -> None:
    file = plan_file(cli, OSLO)
    assert cli("plan", file, *TOOLS, "--allow", "get_weather").status == 0
    done = cli("plan", file, *TOOLS, "--allow", "chatty")
    assert done.status == 1
    assert "get_weather" in done.error


# approval


def test_without_a_terminal_a_call_that_needs_approval_is_denied_and_says_how(cli: Command) -> None:
    done = cli("plan", plan_file(cli, WIPE), *TOOLS)
    assert done.status == 1
    assert "there is no terminal to ask on" in done.error
    assert "--yes" in done.tip
    assert cli("plan", "--yes", plan_file(cli, WIPE), *TOOLS).out == "wiped orders\n"


@pytest.mark.parametrize(("answer", "status", "shown"), [("y", 0, "wiped orders"), ("n", 1, "said no")])
def test_at_a_terminal_a_person_is_asked_and_nothing_is_shown_meanwhile(
    cli: Command, answer: str, status: int, shown: str
) -> None:
    wait = {"id": "waited", "tool": "wait", "arguments": {"seconds": 0.3}}
    with cli.terminal("plan", plan_file(cli, WIPE, wait, output_steps=["wiped"]), *TOOLS) as terminal:
        asked = terminal.read_until("[y/N] ")
        assert 'The plan wants to call the destructive tool wipe with {"table": "orders"}' in asked
        time.sleep(0.6)
        terminal.type(f"{answer}\n")
        everything = terminal.read_all()
        assert shown in everything
        assert everything.split("[y/N] ")[1].lstrip().startswith(answer), "what ended meanwhile is told afterwards"
        assert "waited" in everything
        assert terminal.wait() == status
