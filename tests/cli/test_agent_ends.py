"""How `callgate agent` ends and goes on: kills, Ctrl-C, recordings; and what it does to terminals and streams."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from callgate_bench.model.stand_in import Call, Move, Turn
from callgate_bench.model.stand_in.server import KEY
from cli.agents import OSLO, TOOLS, asked, playing, warm, with_key
from cli.command import SECONDS, Command

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202etxt\rover"


@pytest.fixture
def cli(cli: Command) -> Command:
    return with_key(cli)


# going on


def transcript(cli: Command) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (cli.folder / "t.jsonl").read_text().splitlines()]


def stopped_in_a_call(cli: Command, how: signal.Signals, model: tuple[str, ...]) -> tuple[int, str]:
    """Run until the model's second call is under way, then this; the exit code, and stderr."""
    os.mkfifo(cli.folder / "go")
    line = ("agent", "How warm is Oslo?", *model, *TOOLS, "--mode", "direct", "--transcript", "t.jsonl")
    with cli.start(*line) as (process, _), open(cli.folder / "go", "wb"):  # opens when the tool does
        process.send_signal(how)
        _, err = process.communicate(timeout=SECONDS)
    return process.returncode, err.decode()


def says_what_it_knows(turn: Turn) -> Move:
    (answer,) = turn.answers
    assert "unknown" in answer.text
    return "4 degrees, and one call has an unknown outcome."


def test_a_killed_task_goes_on_from_its_transcript(cli: Command) -> None:
    with playing(OSLO, Call("wait_for_go"), says_what_it_knows) as (api, model):
        status, _ = stopped_in_a_call(cli, signal.SIGKILL, model)
        assert status == -signal.SIGKILL
        assert transcript(cli)[-1]["kind"] == "call_began"
        done = cli("agent", "--resume", "t.jsonl", *model, *TOOLS, "--mode", "direct")
    assert (done.status, done.out) == (0, "4 degrees, and one call has an unknown outcome.\n"), done.err
    assert "resumed  after 2 turns" in done.err
    assert "3 turns, 3 LLM calls, 2 tool calls" in done.err.splitlines()[-1]
    assert len(api.requests) == 3
    assert transcript(cli)[-1]["outcome"] == "answered"


def test_ctrl_c_ends_it_at_once_and_the_last_line_is_the_command_that_goes_on(cli: Command) -> None:
    with playing(OSLO, Call("wait_for_go"), says_what_it_knows) as (_, model):
        status, err = stopped_in_a_call(cli, signal.SIGINT, model)
        assert status == 130
        interrupted, again = err.splitlines()[-2:]
        assert interrupted == "interrupted in turn 2"
        words = shlex.split(again.removeprefix("to go on: "))
        assert words[:4] == ["callgate", "agent", "--resume", "t.jsonl"]
        done = cli(*words[1:])
    assert (done.status, done.out) == (0, "4 degrees, and one call has an unknown outcome.\n"), done.err


def test_without_a_transcript_ctrl_c_says_what_would_have_kept_it(cli: Command) -> None:
    os.mkfifo(cli.folder / "go")
    with (
        playing(Call("wait_for_go")) as (_, model),
        cli.start("agent", "Wait", *model, *TOOLS, "--mode", "direct") as (process, _),
        open(cli.folder / "go", "wb"),
    ):
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 130
    assert "--transcript FILE" in err.decode().splitlines()[-1]


def test_a_task_that_had_ended_is_answered_from_its_transcript_and_says_so(cli: Command) -> None:
    options = (*TOOLS, "--mode", "direct", "--transcript", "t.jsonl")
    assert asked(cli, OSLO, warm, options=options).status == 0
    with playing() as (_, model):
        done = cli("agent", "--resume", "t.jsonl", *model, *TOOLS)
    assert (done.status, done.out) == (0, "4 degrees.\n")
    assert done.err == "this task had ended before, as answered; nothing was done\n"


def test_ctrl_c_at_a_question_ends_it(cli: Command) -> None:
    with (
        playing(Call("wipe", {"table": "orders"})) as (_, model),
        cli.terminal("agent", "Wipe", *model, *TOOLS, "--mode", "direct") as terminal,
    ):
        terminal.read_until("Allow this call? [y/N] ")
        terminal.process.send_signal(signal.SIGINT)
        assert "interrupted in turn 1" in terminal.read_all()
        assert terminal.wait() == 130


def test_a_transcript_that_another_run_writes_is_left_alone(cli: Command) -> None:
    os.mkfifo(cli.folder / "go")
    patient = (
        "--wall-seconds",
        "3600",
        "--seconds",
        "3600",
    )  # by default the call, and with it the run, ends after 60 s
    with playing(Call("wait_for_go")) as (_, model):
        line = ("agent", "Wait", *model, *TOOLS, *patient, "--mode", "direct", "--transcript", "t.jsonl")
        with cli.start(*line) as (writing, _), open(cli.folder / "go", "wb"):
            done = cli("agent", "--resume", "t.jsonl", *model, *TOOLS)
            assert writing.poll() is None
    assert (done.status, done.out) == (2, "")
    assert "is being written by another run" in done.error


def test_what_was_recorded_is_replayed_without_the_endpoint(cli: Command) -> None:
    options = (*TOOLS, "--mode", "direct")
    assert asked(cli, OSLO, warm, options=(*options, "--record", "r.jsonl")).status == 0
    done = cli("agent", "How warm is Oslo?", "--model", "replay:r.jsonl", *options)
    assert (done.status, done.out) == (0, "4 degrees.\n")
    other = cli("agent", "How warm is Rome?", "--model", "replay:r.jsonl", *options)
    assert other.status != 0


def test_no_key_is_in_the_transcript_or_the_recording(cli: Command) -> None:
    options = (*TOOLS, "--mode", "direct", "--record", "r.jsonl", "--transcript", "t.jsonl", "-v")
    done = asked(cli, OSLO, f"The key is {KEY}, and 4 degrees.", options=options)
    assert done.status == 0
    assert KEY not in (cli.folder / "r.jsonl").read_text()
    assert '"Authorization"' not in (cli.folder / "t.jsonl").read_text()
    assert (cli.folder / "t.jsonl").stat().st_mode & 0o077 == 0


# terminals and streams


def test_what_the_page_shows_is_what_a_terminal_shows(cli: Command) -> None:
    page = (ROOT / "docs" / "cli.md").read_text()
    command, shown = re.findall(r"^```\n\$ callgate (agent .*?\.py)\n(.*?)^```", page, re.MULTILINE | re.DOTALL)[0]
    words = [word.replace("examples/", f"{ROOT}/examples/") for word in shlex.split(command.replace("\\\n", ""))]
    with cli.terminal(*words, environment={"NO_COLOR": "1", "COLUMNS": "101"}) as terminal:
        came = terminal.read_all()
    lines = iter(masked(came))  # on a slow machine, with what was under way between them
    assert [line for line in masked(shown) if line not in lines] == []


def masked(text: str) -> list[str]:
    """Lines without times and the spaces before them; of what was written over, the last."""
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text.replace("\r\n", "\n"))
    lines = (line.rpartition("\r")[2] for line in text.splitlines())
    return [re.sub(r" *[\d.]+ m?s", " N", line).rstrip() for line in lines if line.strip()]


def test_neither_model_nor_tool_drives_the_terminal(cli: Command) -> None:
    moves: tuple[Move, Move] = (["I say " + HOSTILE, Call("get_weather", {"city": HOSTILE})], "Done " + HOSTILE)
    for flags in ((), ("--json",)):
        with (
            playing(*moves) as (_, model),
            cli.terminal("agent", HOSTILE, *model, *TOOLS, "--mode", "direct", *flags) as terminal,
        ):
            shown = terminal.read_all()
        for trick in ("\x1b]0;", "\x07", "\x1b[2J", "\x9b", "\u202e", "t\rover"):
            assert trick not in shown
        assert "owned" in shown


def test_a_person_at_the_terminal_is_asked_and_nothing_else_is_shown_meanwhile(cli: Command) -> None:
    with (
        playing(Call("wipe", {"table": "orders"}), lambda turn: turn.answer) as (_, model),
        cli.terminal("agent", "Wipe", *model, *TOOLS, "--mode", "direct") as terminal,
    ):
        before = terminal.read_until("Allow this call? [y/N] ")
        assert "The model wants to call the destructive tool wipe" in before
        terminal.type("y\n")
        assert "wiped orders" in terminal.read_all()
        assert terminal.wait() == 0


def test_closed_and_full_streams_do_not_keep_it_from_its_answer(cli: Command) -> None:
    answer = "4 degrees.\n"
    for redirect, status, out in (("2>/dev/full", 0, answer), ("<&- >/dev/full", 1, "")):
        with playing(OSLO, warm) as (_, model):
            line = " ".join(map(shlex.quote, cli.line("agent", "How warm?", *model, *TOOLS, "--mode", "direct")))
            done = subprocess.run(
                ["bash", "-c", f"{line} {redirect}"], cwd=cli.folder, env=cli.all_variables, capture_output=True,
                text=True, timeout=SECONDS, check=False,
            )  # fmt: skip
        assert (done.returncode, done.stdout) == (status, out), (redirect, done.stderr)
        assert "Traceback" not in done.stderr


def test_help_imports_no_sdk_and_nothing_of_the_agent(cli: Command) -> None:
    code = (
        "import sys\n"
        "from callgate.cli import main\n"
        "try: main(['agent', '--help'])\n"
        "except SystemExit: pass\n"
        "names = {'openai', 'anthropic', 'yaml', 'genai_prices', 'callgate.agent.loop.agent'}\n"
        "print(sorted(names & set(sys.modules)))"
    )
    done = subprocess.run(
        [*cli.line()[:1], "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=cli.all_variables,
        timeout=SECONDS,
    )
    assert done.stdout.splitlines()[-1] == "[]"
