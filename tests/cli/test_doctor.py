"""`callgate doctor` and `callgate demo`, on the machine that the tests run on."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import anyio
import pytest

from callgate.sandbox.doctor import DOCKER_LEAKS, LEAKS, Report, examine
from cli.command import SECONDS, Command
from sandbox.docker.images import have_engine_and_image, without
from sandbox.docker.peer import Answer, drip, garbage, listening, silence

pytestmark = pytest.mark.sampled


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
    assert told["ok"] is (told["trials"][1]["works"] or told["docker"]["works"] or told["srt"]["works"])
    assert done.status == (0 if told["ok"] else 3)


def test_the_verdict_follows_from_the_trials(report: Report) -> None:
    working = [trial.tier for trial in report.trials if trial.works]
    assert report.tier == min(working, default=0)
    assert report.leaks == list(DOCKER_LEAKS if report.auto == "docker" else LEAKS.get(report.tier, ()))
    docker = report.docker.works and not report.docker.obstacles
    assert report.auto == (
        "jail, tier 1" if 1 in working else "docker" if docker else "jail, tier 2" if working else ""
    )


def test_doctor_json_tells_of_docker(report: Report) -> None:
    told = json.loads(json.dumps(report.to_dict()))["docker"]
    assert set(told) == {"works", "reason", "obstacles", "host", "facts", "hardened", "lacks", "trial"}
    assert told["works"] or told["reason"]


def test_where_an_engine_answers_doctor_says_what_it_is_what_it_hardens_and_what_it_lacks(
    cli: Command, report: Report
) -> None:
    if not report.docker.host:
        pytest.skip(report.docker.reason)
    shown = cli("doctor").out.partition("\nDocker\n")[2]
    names = ["engine", "runs as", "runtimes", "seccomp", "limits", "image"]
    places = [shown.index(f"  {name} ") for name in names]
    assert places == sorted(places)
    assert "What a guest's container gets\n  - " in shown
    assert "What this engine cannot give\n  - " in shown


def test_no_engine_is_no_error(cli: Command) -> None:
    done = cli("doctor", environment={"DOCKER_HOST": "unix:///nowhere/docker.sock"})
    assert (done.status, done.err) == (0, "")
    assert "no Docker engine listens at unix:///nowhere/docker.sock" in done.out
    assert "install and start Docker" in done.out


@pytest.mark.parametrize("answer", [garbage, silence, drip])
def test_doctor_ends_in_time_whatever_listens(cli: Command, tmp_path: Path, answer: Answer) -> None:
    with listening(tmp_path / "peer.sock", answer) as host:
        started = time.monotonic()
        done = cli("doctor", environment={"DOCKER_HOST": host})
        assert time.monotonic() - started < 15
    assert (done.status, done.err) == (0, "")
    assert host in done.out


def test_what_listens_cannot_drive_the_terminal(cli: Command, tmp_path: Path) -> None:
    with listening(tmp_path / "peer.sock", garbage) as host:
        shown = cli("doctor", environment={"DOCKER_HOST": host}).out
    assert "\x1b" not in shown
    assert "\x9b" not in shown


@pytest.mark.slow
def test_without_namespaces_auto_takes_docker_where_it_is_ready_and_doctor_says_so(cli: Command) -> None:
    anyio.run(have_engine_and_image)
    report = anyio.run(examine)
    if not report.docker.works or report.docker.obstacles:
        without(report.docker.reason or report.docker.obstacles[0])
    told = json.loads(cli.without_namespaces("doctor", "--json").out)
    if told["trials"][0]["works"]:
        pytest.skip("namespaces cannot be switched off here")
    assert told["auto"] == "docker"
    assert told["description"].startswith("docker")
    ran = cli.without_namespaces("run", "-v", "--path", "sandbox", "-c", "6 * 7")
    assert ran.out == "42\n"
    assert "sandbox: docker" in ran.err


def test_without_namespaces_and_an_engine_auto_takes_tier_2(cli: Command) -> None:
    alone = Command(cli.folder, cli.environment | {"DOCKER_HOST": "unix:///nowhere/docker.sock"})
    told = json.loads(alone.without_namespaces("doctor", "--json").out)
    if told["trials"][0]["works"] or not told["trials"][1]["works"]:
        pytest.skip("namespaces cannot be switched off here, or tier 2 does not work")
    assert told["auto"] == "jail, tier 2"
    ran = alone.without_namespaces("run", "-v", "--path", "sandbox", "-c", "6 * 7")
    assert ran.out == "42\n"
    assert "sandbox: jail, tier 2" in ran.err


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
