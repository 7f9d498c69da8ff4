"""`callgate plan`: outputs, progress, faults, exit codes, and what a hostile plan cannot do to the terminal."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import time
from typing import Any

import pytest

from cli.command import SECONDS, Command

OSLO = {"id": "oslo", "tool": "get_weather", "arguments": {"city": "Oslo"}}
ROME = {"id": "rome", "tool": "get_weather", "arguments": {"city": "Rome!"}}
WARMER = {"id": "warmer", "tool": "add_one", "arguments": {"number": "$ref:oslo.temp"}}
NOWHERE = {"id": "nowhere", "tool": "get_weather", "arguments": {"city": "nowhere"}}
AFTER = {"id": "after", "tool": "add_one", "arguments": {"number": "$ref:nowhere.temp"}}
WIPE = {"id": "wiped", "tool": "wipe", "arguments": {"table": "orders"}}
HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202etxt\rover"

MORE_TOOLS = '''
import asyncio
import time

from callgate import tool


@tool(read_only=True)
def add_one(number: int) -> int:
    """One more.

    Args:
        number: any.
    """
    return number + 1


@tool(read_only=True)
def say(text: str | None) -> str | None:
    """The same text.

    Args:
        text: any.
    """
    return text


@tool(read_only=True)
async def wait(seconds: float) -> str:
    """Wait.

    Args:
        seconds: how long.
    """
    await asyncio.sleep(seconds)
    return "waited"


@tool
def block(seconds: float) -> str:
    """Wait in a thread, which nothing can end.

    Args:
        seconds: how long.
    """
    time.sleep(seconds)
    return "blocked"


@tool
def nothing() -> None:
    """Give nothing."""
'''


@pytest.fixture(autouse=True)
def more_tools(cli: Command) -> None:
    (cli.folder / "more.py").write_text(MORE_TOOLS)


def plan_file(cli: Command, *steps: dict[str, Any], name: str = "plan.json", **fields: Any) -> str:
    (cli.folder / name).write_text(json.dumps({"steps": list(steps), **fields}), encoding="utf-8")
    return name


TOOLS = ("--tools", "tools.py", "--tools", "more.py")


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
    assert re.fullmatch(r"ok       oslo    get_weather  [0-9.]+ ms", first)
    assert re.fullmatch(r"ok       warmer  add_one      [0-9.]+ ms", second)
    assert re.fullmatch(r"2/2 steps succeeded in [0-9.]+ m?s", summary)


def test_failure_goes_forward_and_is_explained_in_one_error_and_one_tip(cli: Command) -> None:
    done = cli("plan", plan_file(cli, NOWHERE, AFTER, OSLO, output_steps=["oslo"]), *TOOLS)
    assert (done.status, done.out) == (1, '{"temp": 4}\n')
    lines = done.err.splitlines()
    assert any(re.fullmatch(r"failed   nowhere  get_weather  .*: there is no city 'nowhere'", line) for line in lines)
    assert "skipped  after    add_one      because dependency 'nowhere' failed" in lines
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
    assert re.search(r"ok       each .* ms, 3/3 items", done.err)
    assert re.search(r"failed   twice .* ms, 2 attempts: ", done.err)
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
        seen = terminal.read_until("1/2 steps, 1 under way, 2 calls")
        assert "wait_for_go" in seen
        assert seen.index("oslo") < seen.index("wait_for_go")
        (cli.folder / "go").write_text("went")
        shown = terminal.read_all()
        assert terminal.wait() == 0
    assert "\x1b[?25h" in shown[shown.rindex("under way") :], "the cursor is there again"
    assert "2/2 steps succeeded" in shown


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
    assert "no history yet, counted as 0 s: add_one, get_weather" in before.out
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


def test_a_timeline_page_is_written_after_the_run(cli: Command) -> None:
    file = plan_file(cli, OSLO, NOWHERE)
    for arguments in (["--timeline", "out.html"], ["--timeline=out.html"]):
        (cli.folder / "out.html").unlink(missing_ok=True)
        done = cli("plan", *arguments, file, *TOOLS)
        assert done.status == 1
        assert "timeline: out.html" in done.err
        assert "nowhere" in (cli.folder / "out.html").read_text(encoding="utf-8")


# usage


@pytest.mark.parametrize(
    ("arguments", "error", "tip"),
    [
        ([], "there is no plan", "'-' to read the plan from stdin"),
        (["--timeline", "out.html"], "there is no plan", "name a JSON file"),
        (["plan.json", "mermaid", "--explain"], "there are two plans: plan.json and mermaid", "--explain=FORM"),
        (["plan.json", "--explain=svg"], "'svg' is not one of 'text', 'json', 'mermaid'", "callgate plan --help"),
        (["absent.json"], "absent.json cannot be read: No such file or directory", "holds the plan"),
        (["."], ". cannot be read: Is a directory", "holds the plan"),
        (["binary.json"], "binary.json is not UTF-8: byte 1 is 0xff", "save it as UTF-8"),
        (["plan.json", "--timeline=plan.json"], "'plan.json' is no .html file", "--timeline=out.html"),
        (["plan.json", "--timeline=no/such/x.html"], "there is no folder no/such", "make it first"),
        (["plan.json", "--timeline=folder.html"], "it is a folder", "name a file"),
        (["plan.json", "--check", "--explain"], "--check and --explain cannot both be on stdout", "leave one"),
        (["plan.json", "--json", "--explain"], "--explain and --json cannot both be on stdout", "--explain=json"),
        (["plan.json", "--json", "--for-model"], "--json and --for-model cannot both be on stdout", "leave one"),
        (["plan.json", "--check", "--timeline"], "--timeline shows a run, and --check runs nothing", "leave one"),
        (["plan.json", "--wall-seconds", "0"], "--wall-seconds must be above 0", "above 0"),
        (["plan.json", "--cpu-seconds", "1"], "No such option", "callgate plan --help"),
        (["plan.json", "--allow", "x"], "--allow x: there is no such tool", "`callgate tools`"),
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


# limits and ends


@pytest.mark.parametrize(
    ("flags", "limit", "advice"),
    [
        (["--wall-seconds", "0.3"], "wall_seconds", "--wall-seconds 0.6"),
        (["--max-tool-calls", "3"], "max_tool_calls", "--max-tool-calls 6"),
        (["--memory-bytes", "2B"], "memory_bytes", "--memory-bytes 4"),
    ],
)
def test_a_limit_exits_with_4_and_says_which_flag_raises_it(
    cli: Command, flags: list[str], limit: str, advice: str
) -> None:
    wait = {"id": "long", "tool": "wait", "arguments": {"seconds": 30}}
    each = {"id": "each", "tool": "add_one", "for_each": [1, 2, 3], "arguments": {"number": "$item"}}
    done = cli("plan", *flags, plan_file(cli, wait, each), *TOOLS)
    assert done.status == 4
    assert limit in done.error
    assert advice in done.tip


def test_a_plan_over_the_message_limit_is_refused(cli: Command) -> None:
    done = cli("plan", "--max-message-bytes", "50", plan_file(cli, OSLO, WARMER), *TOOLS)
    assert done.status == 1
    assert "max_message_bytes" in done.error


def test_ctrl_c_ends_it_with_130_and_says_what_was_under_way(cli: Command) -> None:
    file = plan_file(cli, OSLO, {"id": "long", "tool": "wait", "arguments": {"seconds": 600}})
    with cli.start("plan", file, *TOOLS) as (process, _):
        assert process.stderr is not None
        assert process.stderr.readline().startswith(b"ok       oslo")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 130
    assert out == b""
    assert err == b"interrupted: 1 step had succeeded; under way: long (wait)\n"


@pytest.mark.parametrize("how", ["limit", "interrupt"])
def test_a_sync_tool_that_was_given_up_does_not_keep_the_process(cli: Command, how: str) -> None:
    file = plan_file(cli, OSLO, {"id": "long", "tool": "block", "arguments": {"seconds": 600}})
    flags = ["--wall-seconds", "0.5"] if how == "limit" else []
    with cli.start("plan", file, *flags, *TOOLS) as (process, _):
        assert process.stderr is not None
        process.stderr.readline()
        if how == "interrupt":
            process.send_signal(signal.SIGINT)
        process.communicate(timeout=SECONDS)
    assert process.returncode == {"limit": 4, "interrupt": 130}[how]


# terminals and streams


def hostile_plan(cli: Command) -> str:
    first = {"id": HOSTILE, "tool": "say", "arguments": {"text": HOSTILE}}
    second = {"id": "b", "tool": "get_weather", "arguments": {"city": f"${{{HOSTILE}}} nowhere"}}
    wait = {"id": f"{HOSTILE}2", "tool": "wait", "arguments": {"seconds": 0.5}}
    return plan_file(cli, first, second, wait, goal=HOSTILE)


@pytest.mark.parametrize(
    "flags",
    [[], ["-v"], ["--check", "--allow", "wipe"], ["--explain"], ["--for-model"], ["--json"], ["--timeline"]],
)
def test_a_plan_cannot_drive_the_terminal(cli: Command, flags: list[str]) -> None:
    with cli.terminal("plan", hostile_plan(cli), *flags, *TOOLS) as terminal:
        shown = terminal.read_all()
    for trick in ("\x1b]0;", "\x07", "\x1b[2J", "\x9b", "\u202e", "t\rover"):
        assert trick not in shown
    assert "owned" in shown


def test_into_a_pipe_the_text_passes_untouched(cli: Command) -> None:
    file = plan_file(cli, {"id": "a", "tool": "say", "arguments": {"text": HOSTILE}})
    assert cli("plan", file, *TOOLS).out == f"{HOSTILE}\n"


def test_colour_is_for_terminals_and_no_color_turns_it_off(cli: Command) -> None:
    file = plan_file(cli, OSLO)
    colour = re.compile(r"\x1b\[[0-9;]*m")
    with cli.terminal("plan", file, *TOOLS) as terminal:
        assert colour.search(terminal.read_all())
    with cli.terminal("plan", file, *TOOLS, environment={"NO_COLOR": "1"}) as terminal:
        assert not colour.search(terminal.read_all())
    assert not colour.search(cli("plan", file, *TOOLS).err)


def test_a_reader_that_goes_away_is_no_error(cli: Command) -> None:
    file = plan_file(cli, OSLO)
    with cli.start("plan", "-", *TOOLS) as (process, output):
        output.close()
        assert process.stdin is not None
        process.stdin.write((cli.folder / file).read_bytes())
        process.stdin.close()
        assert process.stderr is not None
        err = process.stderr.read()
        assert process.wait(SECONDS) == 141
    assert b"ERROR" not in err
    assert b"Traceback" not in err


@pytest.mark.parametrize(
    ("redirect", "status", "out"),
    [
        ("<&-", 0, "5\n"),
        (">&-", 0, ""),
        ("2>&-", 0, "5\n"),
        ("<&- >&- 2>&-", 0, ""),
        ("2>/dev/full", 0, "5\n"),
        ("2> >(exec true)", 0, "5\n"),
        (">/dev/full", 1, ""),
    ],
)
def test_closed_and_full_streams_do_not_keep_a_plan_from_its_outputs(
    cli: Command, redirect: str, status: int, out: str
) -> None:
    line = " ".join(map(shlex.quote, cli.line("plan", plan_file(cli, OSLO, WARMER, output_steps=["warmer"]), *TOOLS)))
    done = subprocess.run(
        ["bash", "-c", f"{line} {redirect}"], cwd=cli.folder, env=cli.environment, capture_output=True,
        text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (status, out)
    assert "Traceback" not in done.stderr


def test_help_names_the_limits_that_mean_something_for_plans(cli: Command) -> None:
    shown = cli("plan", "--help").out
    flags = set(re.findall(r"--(?:max-[a-z-]+|[a-z]+-seconds|memory-bytes)", shown))
    assert flags == {
        "--wall-seconds", "--memory-bytes", "--max-tool-calls", "--max-concurrent-calls", "--max-message-bytes",
    }  # fmt: skip
