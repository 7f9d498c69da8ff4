"""`callgate run --replay-check`: words, exit codes, and what reaches stdout."""

from __future__ import annotations

import json

import pytest

from cli.command import Command

pytestmark = pytest.mark.sampled


def test_what_was_the_same_is_on_stderr_and_the_output_appears_once(cli: Command) -> None:
    code = "import time\nprint((await get_weather('Oslo')).temp, time.time() > 0)"
    done = cli("run", "--replay-check", "--tools", "tools.py", "-c", code)
    assert (done.status, done.out) == (0, "4 True\n")
    assert done.err.startswith("replay: the same again: 1 call with arguments, 1 event, 7 characters printed (SHA-256 ")


def test_a_difference_is_an_error_with_both_sides(cli: Command) -> None:
    done = cli("run", "--replay-check", "-c", "print('one')\nprint(open('/dev/urandom', 'rb').read(9))")
    assert done.status == 1
    assert done.error.startswith("the program does not do the same again: print 2, line 2: the first run had ")
    assert "docs/durable.md" in done.tip


def test_a_program_that_fails_the_same_way_twice_has_its_own_error(cli: Command) -> None:
    done = cli("run", "--replay-check", "-c", "raise ValueError('no')")
    assert done.status == 1
    assert done.error == "the program failed at line 1: ValueError: no"
    assert "and the error, ValueError" in done.err


def test_a_program_with_threads_is_refused_with_the_finding(cli: Command) -> None:
    done = cli("run", "--replay-check", "-c", "import threading\nthreading.Thread(target=print).start()")
    assert (done.status, done.out) == (1, "")
    assert "<command>:2:1: error not-replayable threading.Thread starts a thread" in done.err


def test_json_has_the_comparison_and_the_environment(cli: Command) -> None:
    replay = json.loads(cli("run", "--replay-check", "--json", "-c", "1 + 1").out)["replay"]
    assert replay["difference"] is None
    assert replay["again"].startswith("0 calls")
    assert replay["environment"]["Python"].startswith("CPython 3.")


def test_a_plan_cannot_be_checked(cli: Command) -> None:
    done = cli("run", "--replay-check", "--path", "plan", "-c", "1")
    assert done.status == 2
    assert done.error == "--replay-check runs the program in the sandbox, and --path plan does not"
