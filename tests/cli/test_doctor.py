"""`callgate doctor` and `callgate demo`, on the machine that the tests run on."""

from __future__ import annotations

import json
import os

import anyio
import pytest

from callgate.sandbox.doctor import LEAKS, Report, examine
from cli.command import SECONDS, Command


@pytest.fixture(scope="module")
def report() -> Report:
    return anyio.run(examine)


def test_doctor_ends_with_a_verdict(cli: Command) -> None:
    done = cli("doctor")
    assert done.status == 0
    assert "tier 1" in done.out
    assert "What it does not defend against" in done.out
    assert done.out.splitlines()[-1].startswith("Verdict: programs run confined here")


def test_doctor_json_is_one_object(cli: Command) -> None:
    told = json.loads(cli("doctor", "--json").out)
    assert told["ok"] is True
    assert {trial["tier"] for trial in told["trials"]} == {1, 2}


def test_a_tier_works_or_says_why_not(report: Report) -> None:
    for trial in report.trials:
        assert trial.works or trial.reason
        assert not trial.works or f"tier {trial.tier}" in trial.description


def test_where_user_namespaces_are_forbidden_doctor_names_the_setting(cli: Command) -> None:
    done = cli.without_namespaces("doctor", "--json")
    told = json.loads(done.out)
    (fact,) = [fact for fact in told["facts"] if fact["name"] == "user namespaces"]
    assert fact["ok"] is False
    assert "sysctl -w user.max_user_namespaces=15000 (it is 0)" in fact["remedy"] or "forbid" in fact["remedy"]
    assert told["trials"][0]["works"] is False
    assert done.status == (0 if told["trials"][1]["works"] else 3)


def test_the_verdict_follows_from_the_trials(report: Report) -> None:
    working = [trial.tier for trial in report.trials if trial.works]
    assert report.tier == min(working, default=0)
    assert report.leaks == list(LEAKS.get(report.tier, ()))


def test_every_fact_that_is_not_ok_says_what_to_do(report: Report) -> None:
    for fact in report.facts:
        assert fact.ok is not False or fact.remedy, fact


def test_the_demo_answers_from_its_data_and_nothing_gets_out(cli: Command) -> None:
    done = cli("demo", environment={"NO_COLOR": "1"})
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("Sandbox: jail, tier ")
    assert "Closest capitals of 351 pairs: Vienna and Bratislava, 55 km" in done.out
    assert "55 tool calls made by one program" in done.out
    _, _, answers = done.out.partition("The kernel's answers\n")
    assert answers.count("  refused  ") == 6
    assert "  OPEN " not in answers
    assert "\x1b" not in done.out


def test_the_demo_stops_quietly_when_nobody_reads_on(cli: Command) -> None:
    with cli.start("demo") as (process, output):
        assert output.readline().startswith(b"Sandbox: ")
        output.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
        assert process.wait(SECONDS) in (0, 141)


def test_the_demo_has_colour_at_a_terminal(cli: Command) -> None:
    with cli.terminal("demo") as terminal:
        shown = terminal.read_all()
        assert terminal.wait() == os.EX_OK
    assert "\x1b[1m" in shown
