"""`callgate runs`, and `callgate run --durable`: runs that wait for people, shown and decided from another terminal."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import anyio
import pytest

from callgate import Runtime, tool
from cli.command import SECONDS, Command, Outcome

DURABLE = ("runs", "--durable", "runs.db")
WIPE = "print('before')\nawait wipe(table='users')"
TWO = "import asyncio\nawait asyncio.gather(wipe(table='users'), wipe(table='logs'))"

CRASHING = '''
import os
from callgate import tool

@tool
async def pay(amount: int) -> str:
    """Pay, and end the process in the middle of it, once."""
    if not os.path.exists("died"):
        open("died", "w").close()
        os._exit(9)
    return f"paid {amount}"
'''


@tool(requires_approval=True, destructive=True)
def wipe(table: str) -> str:
    """Delete a table.

    Args:
        table: its name.
    """
    return f"wiped {table}"


@tool(requires_approval=True)
def log_in(user: str, password: str) -> str:
    """Log in."""
    return user


async def _asleep(file: Path, code: str, key: str | None) -> str:
    with anyio.fail_after(SECONDS):
        async with Runtime([wipe, log_in], sandbox=None, durable=file) as runtime:
            run = await runtime.start(code, key=key)
            assert await run.rest() is None
            return run.id


def asleep(cli: Command, code: str = WIPE, key: str | None = None) -> str:
    """The id of a run that waits for an approval; no process is at it."""
    return anyio.run(_asleep, cli.folder / "runs.db", code, key)


def shown(cli: Command, run: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(cli(*DURABLE, "show", run, "--json").out)
    return found


def started(*arguments: str) -> tuple[str, ...]:
    return ("run", "--durable", "runs.db", "--path", "plan", "--tools", "tools.py", *arguments)


def until_pending(cli: Command) -> str:
    """The id of the run that waits for an approval, once there is one."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        if (cli.folder / "runs.db").exists() and (asked := cli(*DURABLE, "pending", "--json").out.strip("[]\n")):
            return str(json.loads(asked)["run"])
        time.sleep(0.05)  # another process brings it about
    raise AssertionError("no call waits for approval")


def finished(process: subprocess.Popen[bytes]) -> Outcome:
    out, err = process.communicate(timeout=SECONDS)
    return Outcome(process.returncode, out.decode(), err.decode())


# deciding


def test_a_run_that_sleeps_says_how_to_approve_it_and_goes_on_once_somebody_has(cli: Command) -> None:
    with cli.start(*started("--key", "order-17", "-c", WIPE)) as (process, _):
        run = until_pending(cli)
        done = cli(*DURABLE, "approve", "order-17", "--by", "ann")
        assert (done.status, done.err.splitlines()[0]) == (0, f'approved wipe(table="users") of run {run}')
        assert done.err.endswith(f"if there is none: callgate runs --durable runs.db resume {run}, with its --tools\n")
        ended = finished(process)
    assert (ended.status, ended.out) == (0, "before\nwiped users\n")
    assert f'run {run}: waits for the approval of wipe({{"table":"users"}})\n' in ended.err
    assert f"callgate runs --durable runs.db approve {run}" in ended.err
    text = cli(*DURABLE, "show", "order-17").out
    assert "granted by 'ann' (as the caller said)" in text
    assert 'wipe({"table": "users"}) -> "wiped users"' in text


def test_a_run_whose_process_was_killed_is_approved_and_goes_on_in_a_new_process(cli: Command) -> None:
    command = started("--key", "order-17", "-c", WIPE)
    with cli.start(*command) as (process, _):
        run = until_pending(cli)
        os.killpg(process.pid, signal.SIGKILL)
    assert "waiting" in cli(*DURABLE, "list").out
    assert cli(*DURABLE, "approve", run, "--by", "ann").status == 0
    assert cli(*command).out == "before\nwiped users\n"
    again = cli(*command)
    assert (again.status, again.out) == (0, "before\nwiped users\n")
    assert f"run {run} had ended before" in again.err
    other = cli(*started("--key", "order-17", "-c", "1"))
    assert other.status == 2
    assert "the key 'order-17' is that of run" in other.error


@pytest.mark.slow
def test_a_run_that_waits_for_a_time_asks_nobody_to_decide(cli: Command) -> None:
    code = "import asyncio\nawait asyncio.sleep(16)\n5"  # a program sleeps for what is 10 s away, when the host looks
    done = cli("run", "--durable", "runs.db", "-c", code)
    assert (done.status, done.out) == (0, "5\n")
    assert "waits for a time\n" in done.err
    assert "it goes on by itself here" in done.err
    assert "approve" not in done.err


def test_ctrl_c_leaves_a_run_as_it_is(cli: Command) -> None:
    with cli.start(*started("-c", WIPE)) as (process, _):
        run = until_pending(cli)
        process.send_signal(signal.SIGINT)
        assert finished(process).status == 130
    assert shown(cli, run)["status"] == "waiting"


def test_a_denial_fails_the_call_with_its_reason(cli: Command) -> None:
    run = asleep(cli)
    assert cli(*DURABLE, "deny", run, "--by", "ann", "--reason", "not on a Friday").status == 0
    done = cli(*DURABLE, "resume", run, "--tools", "tools.py")
    assert done.status == 1
    assert "the call of tool 'wipe' was denied: not on a Friday" in done.error
    assert "ann decided so" in done.tip


def test_an_edited_approval_calls_the_tool_with_other_arguments(cli: Command) -> None:
    run = asleep(cli)
    assert cli(*DURABLE, "approve", run, "--by", "ann", "--arguments", '{"table": "logs"}').status == 0
    done = cli(*DURABLE, "resume", run, "--tools", "tools.py")
    assert (done.status, done.out) == (0, "before\nwiped logs\n")
    (call,) = shown(cli, run)["calls"]
    assert (call["arguments"], call["outcome"]) == ({"table": "users"}, "wiped logs")


def test_a_second_decision_is_told_of_the_first(cli: Command) -> None:
    run = asleep(cli)
    assert cli(*DURABLE, "approve", run, "--by", "ann").status == 0
    second = cli(*DURABLE, "deny", run, "--by", "bob")
    assert second.status == 1
    assert "granted by ann" in second.error
    assert shown(cli, run)["approvals"][0]["decision"]["by"] == "ann"


def test_of_several_calls_one_has_to_be_named_and_the_beginning_of_its_name_is_enough(cli: Command) -> None:
    run = asleep(cli, TWO)
    refused = cli(*DURABLE, "approve", run)
    assert (refused.status, refused.error) == (2, f"run {run} has 2 calls that wait for approval")
    names = re.findall(r"([0-9a-f]{32}-0) wipe", refused.tip)
    assert len(names) == 2
    assert cli(*DURABLE, "approve", run, names[0][:8], "--by", "ann").status == 0
    assert cli(*DURABLE, "deny", run, "--by", "ann").status == 0
    assert cli(*DURABLE, "approve", run, "nothing").error == f"run {run} has no call 'nothing' that waits for approval"


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("settled", "status", "ends"),
    [
        (["--happened", '"paid 5"'], 0, "paid 5\n"),
        (["--again"], 0, "paid 5\n"),
        (["--fail", "the bank says no"], 1, ""),
    ],
)
def test_a_call_in_flight_at_a_crash_is_settled(cli: Command, settled: list[str], status: int, ends: str) -> None:
    (cli.folder / "bank.py").write_text(CRASHING)
    command = started("--key", "k", "--tools", "bank.py", "-c", "await pay(5)")
    with cli.start(*command) as (process, _):
        assert finished(process).status == 9
    with cli.start(*command) as (process, _):
        deadline = time.monotonic() + SECONDS
        while "needs_attention" not in cli(*DURABLE, "list").out:
            assert time.monotonic() < deadline
            time.sleep(0.05)  # another process brings it about
        assert cli(*DURABLE, "settle", "k", *settled).status == 0
        ended = finished(process)
    assert (ended.status, ended.out) == (status, ends)
    assert "nobody knows whether it was done" in ended.err
    assert "with one of --happened JSON, --again, --fail TEXT" in ended.err
    assert status == 0 or "the bank says no" in ended.error


def test_a_call_in_flight_at_a_kill_is_settled_after_the_run_was_taken_up_and_the_refusal_before_that_says_so(
    cli: Command,
) -> None:
    (cli.folder / "bank.py").write_text(CRASHING)
    with cli.start(*started("--key", "k", "--tools", "bank.py", "-c", "await pay(5)")) as (process, _):
        assert finished(process).status == 9
    early = cli(*DURABLE, "settle", "k", "--again")
    assert early.error.endswith("has no call whose outcome is unknown; its status is running")
    assert "if its process was killed, `callgate runs --durable runs.db resume run_" in early.tip


def test_the_page_of_a_cancelled_run_tells_a_call_whose_outcome_nobody_knows(cli: Command) -> None:
    (cli.folder / "bank.py").write_text(CRASHING)
    with cli.start(*started("--key", "k", "--tools", "bank.py", "-c", "await pay(5)")) as (process, _):
        assert finished(process).status == 9
    assert "nobody knows" not in cli(*DURABLE, "show", "k").out
    assert cli(*DURABLE, "cancel", "k").status == 0
    page = cli(*DURABLE, "show", "k").out.splitlines()
    called = next(number for number, line in enumerate(page) if '  started  pay({"amount": 5})' in line)
    assert page[called + 1] == "    nobody knows whether it was done: the run ended without its outcome"


def test_a_run_whose_tool_is_gone_says_how_to_resume_it(cli: Command) -> None:
    run = asleep(cli)
    (cli.folder / "bank.py").write_text(CRASHING)
    assert cli(*DURABLE, "approve", run, "--by", "ann").status == 0
    with cli.start(*DURABLE, "resume", run, "--tools", "bank.py") as (process, _):
        deadline = time.monotonic() + SECONDS
        while "needs_attention" not in cli(*DURABLE, "list").out:
            assert time.monotonic() < deadline
            time.sleep(0.05)  # another process brings it about
        assert cli(*DURABLE, "resume", run, "--tools", "tools.py").out.endswith("wiped users\n")
        ended = finished(process)
    assert "the tool 'wipe' does not exist any more" in ended.err
    assert f"  mend it, then:  callgate runs --durable runs.db resume {run}" in ended.err
    assert "settle" not in ended.err


def test_a_cancelled_run_ends_without_any_process_at_it(cli: Command) -> None:
    run = asleep(cli)
    assert cli(*DURABLE, "cancel", run).status == 0
    assert shown(cli, run)["status"] == "cancelled"
    again = cli(*DURABLE, "cancel", run)
    assert (again.status, again.error) == (1, f"run {run!r} was cancelled already")
    assert cli(*DURABLE, "approve", run).status != 0


# looking


def test_runs_are_listed_in_pages_the_newest_first(cli: Command) -> None:
    runs = [asleep(cli, key=f"k{number}") for number in range(3)]
    first = cli(*DURABLE, "list", "--most", "2")
    assert [line.split()[0] for line in first.out.splitlines()] == [runs[2], runs[1]]
    assert first.err == f"2 of 3 runs; older ones: list --before {runs[1]}\n"
    assert f"{runs[2]}  waiting" in first.out
    assert "k2  waits for the approval of wipe" in first.out
    last = cli(*DURABLE, "list", "--before", runs[1])
    assert [line.split()[0] for line in last.out.splitlines()] == [runs[0]]
    assert cli(*DURABLE, "list", "--status", "failed").out == ""
    assert [each["id"] for each in json.loads(cli(*DURABLE, "list", "--json").out)] == runs[::-1]


def test_secrets_are_redacted_and_nothing_else_is_hidden_from_who_decides(cli: Command) -> None:
    long = "x" * 3_000
    code = f"await log_in(user='\\x1b[2J{long} end', password='geheimnis1')"
    run = asleep(cli, code)
    for arguments in (["list"], ["list", "--json"], ["show", run], ["show", run, "--json"], ["pending"]):
        done = cli(*DURABLE, *arguments)
        assert done.status == 0
        assert "geheimnis1" not in done.out + done.err, arguments
        assert "\x1b" not in done.out, arguments
    asked = cli(*DURABLE, "pending").out
    assert f"{long} end" in asked
    assert '"password": "[redacted]"' in asked


def test_what_a_program_says_about_its_end_has_one_line(cli: Command) -> None:
    done = cli(
        "run", "--durable", "runs.db", "--key", "k", "-c", "class X: pass\nraise ValueError('\\x1b[2J\\nresult:\\n  1')"
    )
    assert done.status != 0
    shown = cli(*DURABLE, "show", "k").out
    assert shown.count("\nresult:") == 1
    assert "\x1b" not in shown


def test_the_time_that_is_left_for_an_answer_is_shown_in_two_units(cli: Command) -> None:
    asleep(cli)
    assert re.search(r"asked \d+ s ago, expires in 6 d 23 h\n", cli(*DURABLE, "pending").out)


def test_who_decides_sees_how_much_of_long_arguments_is_missing(cli: Command) -> None:
    asleep(cli, f"await wipe(table='{'x' * 5_000}')")
    assert "1,013 characters not shown: --json has them" in cli(*DURABLE, "pending").out
    (asked,) = json.loads(cli(*DURABLE, "pending", "--json").out)
    assert asked["arguments"] == {"table": "x" * 5_000}


def test_runs_that_ended_long_ago_are_deleted(cli: Command) -> None:
    kept, ended = asleep(cli), asleep(cli)
    cli(*DURABLE, "cancel", ended)
    assert cli(*DURABLE, "prune", "--older-than", "1d").err == "deleted 0 runs\n"
    assert cli(*DURABLE, "prune", "--older-than", "0s").err == "deleted 1 run\n"
    assert [line.split()[0] for line in cli(*DURABLE, "list").out.splitlines()] == [kept]


# what is wrong with a command line


@pytest.mark.parametrize(
    ("arguments", "error", "tip"),
    [
        (["runs", "list"], "there is no file with runs", "callgate runs --durable FILE list"),
        (["runs", "--durable", "no.db", "list"], "there is no file no.db", "callgate run --durable FILE"),
        ([*DURABLE, "show", "run_x"], "there is no run 'run_x'", "`callgate runs --durable runs.db list`"),
        ([*DURABLE, "approve", "run_x"], "there is no run 'run_x'", "list"),
        ([*DURABLE, "approve", "k", "--arguments", "5"], "--arguments '5' is not an object", '{"NAME": VALUE'),
        ([*DURABLE, "approve", "k", "--arguments", "{"], "--arguments '{' is not JSON", '{"NAME": VALUE}'),
        ([*DURABLE, "settle", "k"], "settle takes one of", "--help"),
        ([*DURABLE, "settle", "k", "--again", "--fail", "x"], "settle takes one of", "--help"),
        ([*DURABLE, "settle", "k", "--happened", "x"], "--happened 'x' is not JSON", "'\"x\"'"),
        (["runs", "list", "--durable", "runs.db"], "No such option '--durable'", "runs --durable ... list"),
        ([*DURABLE, "settle", "k", "--again"], "has no call whose outcome is unknown; its status is waiting", "show"),
        ([*DURABLE, "prune", "--older-than", "soon"], "--older-than 'soon' is not a time", "30d"),
        (
            ["runs", "--durable", "runs.db", "--encryption-key-file", "no", "list"],
            "the key no cannot be read",
            "openssl",
        ),
        (
            ["runs", "--durable", "runs.db", "--encryption-key-file", "tools.py", "list"],
            "tools.py is not a key",
            "openssl",
        ),
        (["run", "--key", "k", "-c", "1"], "--key names a run that is kept", "--durable FILE"),
        (["run", "--durable", "runs.db", "--no-check", "-c", "1"], "is checked before it begins", "--no-check"),
        (["run", "--encryption-key-file", "k", "--durable", "r", "-c", "1"], "the key k cannot be read", "openssl"),
    ],
)
def test_usage_errors_exit_with_2_and_say_what_to_write(
    cli: Command, arguments: list[str], error: str, tip: str
) -> None:
    asleep(cli, key="k")
    done = cli(*arguments)
    assert (done.status, done.out) == (2, "")
    assert error in done.error
    assert tip in done.tip


def test_an_encrypted_file_opens_with_its_key_alone(cli: Command) -> None:
    (cli.folder / "key").write_text("ab" * 32 + "\n")
    (cli.folder / "other").write_text("cd" * 32 + "\n")
    key = ("--encryption-key-file", "key")
    assert cli(*started(*key, "-c", "1 + 1")).out == "2\n"
    assert "succeeded" in cli(*DURABLE, *key, "list").out
    for wrong in ((), ("--encryption-key-file", "other")):
        done = cli(*DURABLE, *wrong, "list")
        assert (done.status, done.out) == (1, "")
        assert "is encrypted" in done.error
        assert "--encryption-key-file" in done.tip


def test_a_file_that_is_no_store_is_refused_in_words(cli: Command) -> None:
    done = cli("runs", "--durable", "tools.py", "list")
    assert done.status == 1
    assert "tools.py" in done.error
