"""How `callgate plan` ends: limits, interruption, and what a hostile plan cannot do to the terminal."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess

import pytest

from cli.command import SECONDS, Command
from cli.plans import HOSTILE, MORE_TOOLS, OSLO, TOOLS, WARMER, plan_file

pytestmark = pytest.mark.sampled


@pytest.fixture(autouse=True)
def more_tools(cli: Command) -> None:
    (cli.folder / "more.py").write_text(MORE_TOOLS)


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
        ("--timeline 2>/dev/full", 0, "5\n"),
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
