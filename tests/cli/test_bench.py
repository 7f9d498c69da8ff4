"""``callgate bench`` as a person meets it: whole runs, interruption, comparison, and what it says of wrong options."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from callgate.bench import whole_run
from callgate.bench.model.talks import RealModel
from callgate.bench.results import Results
from callgate.bench.rows import Row
from callgate.bench.whole_run import Asked
from callgate.cli import main
from cli.command import Command

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="the jail needs Linux")]

FAST = ("--peers", "none", "--turn-seconds", "0", "--token-seconds", "0", "--rounds", "2")


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small run: a workload, and a single measurement."""
    folder = tmp_path_factory.mktemp("bench")
    run = _command(folder)("bench", "--quick", "--only", "weather", "--only", "slow", *FAST, "--out", "found")
    assert run.status == 0, run.err
    assert "weather: code-jail" in run.err
    assert "round" not in run.err, "where nobody watches a line that changes, there is a line for each thing"
    (folder / "table.txt").write_text(run.out)
    return folder


def _command(folder: Path) -> Command:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
    return Command(folder, kept | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUTF8": "1"})


def _results(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "results.json").read_text())
    return found


def test_a_run_gives_a_table_a_file_with_its_schema_and_pages(done: Path) -> None:
    results = _results(done / "found")
    jsonschema_rs.validate(json.loads((done / "found" / "results.schema.json").read_text()), results)
    outcomes = {cell["contestant"]: cell["outcome"] for cell in results["cells"]}
    here = {"direct", "direct-parallel", "plan", "code-jail", "code-fast"}
    assert {name for name, outcome in outcomes.items() if outcome == "right"} >= here
    assert [row["key"] for row in results["rows"]] == ["slow"]
    assert results["interrupted"] == ""
    assert results["command"] == (
        "callgate bench --quick --only weather --only slow --peers none --rounds 2 --turn-seconds 0.0 "
        "--token-seconds 0.0"
    )
    page = (done / "found" / "report.html").read_text()
    assert "<svg" in page
    table = (done / "table.txt").read_text()
    for text in (page, table, (done / "found" / "report.md").read_text()):
        assert "simulated" in text
        assert "20 gathered tools of 0.1 s" in " ".join(text.split())


def test_all_workloads_have_a_name_of_their_own(done: Path) -> None:
    run = _command(done)("bench", "--only", "workloads", "--only", "workload", "--peers", "none")
    assert "there is no 'workload'; did you mean workloads?" in run.error


def test_pages_can_be_made_again_from_the_file(done: Path) -> None:
    run = _command(done)("bench", "--from", "found/results.json", "--out", "again", "--markdown", "page.md")
    assert run.status == 0, run.err
    for name in ("results.json", "results.schema.json", "report.html", "report.md"):
        assert (done / "again" / name).read_text() == (done / "found" / name).read_text()
    assert (done / "page.md").read_text() == (done / "found" / "report.md").read_text()


def test_a_run_is_held_against_an_older_one(done: Path) -> None:
    older = _results(done / "found")
    for cell in older["cells"]:
        for each in cell["rounds"]:
            each["turns"] -= 1
    (done / "better.json").write_text(json.dumps(older))
    again = ("bench", "--from", "found/results.json", "--out", "compared", "--compare")
    same = _command(done)(*again, "found/results.json")
    assert same.status == 0, same.err
    worse = _command(done)(*again, "better.json")
    assert worse.status == 1
    assert "turns" in worse.err


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_what_was_measured_before_an_interruption_is_kept(done: Path, by: signal.Signals) -> None:
    options = ["--only", "weather", "--modes", "code-fast,direct", "--peers", "none", "--turn-seconds", "20"]
    options += ["--compare", "found/results.json"]
    with _command(done).start("bench", "--quick", *options, "--out", "part") as (process, _):
        assert process.stderr is not None
        lines = [process.stderr.readline() for _ in range(3)]  # each without waits, then the first round
        assert lines == [b"weather: direct\n", b"weather: code-fast\n", b"weather: direct\n"]
        process.send_signal(by)
        told = process.stderr.read().decode()
        assert process.wait(30) == 130
    results = _results(done / "part")
    assert results["interrupted"].startswith("interrupted after ")
    assert {cell["outcome"] for cell in results["cells"]} == {"not measured"}
    assert "results.json" in told
    assert "interrupted" in (done / "part" / "report.html").read_text()


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_under_trio_keeps_what_was_measured_before(done: Path, by: signal.Signals) -> None:
    options = ("--only", "call", "--peers", "none")
    with _command(done).start("bench", "--quick", *options, "--out", "trio") as (process, _):
        assert process.stderr is not None
        assert [process.stderr.readline() for _ in range(2)] == [b"call\n", b"call under trio\n"]
        process.send_signal(by)
        told = process.stderr.read().decode()
        assert process.wait(30) == 130
    assert "Traceback" not in told
    results = _results(done / "trio")
    assert results["interrupted"].startswith("interrupted after ")
    assert [row["key"] for row in results["rows"]] == ["call"]


def test_single_things_need_nothing_of_the_extra_and_nobody_to_read_what_is_being_done(done: Path) -> None:
    without = "import sys; sys.modules |= dict.fromkeys(('openai', 'anthropic', 'splintr')); "
    arguments = ["bench", "--quick", "--only", "slow", "--peers", "none", "--out", "alone"]
    line = [sys.executable, "-c", f"{without}from callgate.cli import main; main({arguments})"]
    read, write = os.pipe()
    os.close(read)
    try:
        run = subprocess.run(line, stdout=subprocess.PIPE, stderr=write, cwd=done, timeout=60, check=False)
    finally:
        os.close(write)
    assert run.returncode == 0
    assert "20 gathered tools of 0.1 s" in " ".join(run.stdout.decode().split())
    assert [row["key"] for row in _results(done / "alone")["rows"]] == ["slow"]


def test_a_run_that_is_ended_by_an_error_keeps_what_was_measured_before(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(asked: Asked, results: Results, told: Callable[[str], None], saved: Callable[[], None]) -> None:
        results.rows.append(Row(key="slow", measure="something", measured="1 ms", verdict="for information"))
        raise RuntimeError("out of the blue")

    monkeypatch.setattr(whole_run, "run", run)
    with pytest.raises(SystemExit) as ended:
        main(["bench", "--quick", "--only", "slow", "--out", str(tmp_path / "broken")])
    assert ended.value.code == 1
    out, err = capsys.readouterr()
    assert "something" in out
    assert "RuntimeError: out of the blue" in err
    results = _results(tmp_path / "broken")
    assert results["interrupted"].startswith("ended by RuntimeError: out of the blue after ")
    assert len(results["rows"]) == 1


def test_the_results_have_no_password_of_an_endpoint() -> None:
    model = RealModel(name="any", base_url="https://me:secret@models.example:8443/v1/@x?key=secret")
    results = whole_run.begin(dataclasses.replace(whole_run.QUICK_RUN, model=model))
    assert results.model is not None
    assert results.model.endpoint == "https://models.example:8443/v1/@x"


def test_where_a_file_cannot_be_written_the_tables_are_shown_all_the_same(done: Path) -> None:
    (done / "full" / "report.html").mkdir(parents=True)
    run = _command(done)("bench", "--from", "found/results.json", "--out", "full")
    assert run.status == 2
    assert run.error == "full/report.html cannot be written: Is a directory"
    assert "--out DIR" in run.tip
    assert "20 gathered tools of 0.1 s" in " ".join(run.out.split())


@pytest.mark.parametrize(
    ("options", "error", "tip"),
    [
        (["--only", "monitorin"], "there is no 'monitorin'; did you mean monitoring?", "weather"),
        (["--peers", "smolagent"], "did you mean smolagents?", "there are: "),
        (["--modes", "code"], "--modes: there is no 'code'", "code-jail"),
        (["--base-url", "http://127.0.0.1:1"], "--base-url is a real model's address", "--model NAME"),
        (["--from", "broken.json"], "broken.json is not JSON", "results.json"),
        (["--compare", "broken.json"], "broken.json is not JSON", "results.json"),
        (["--out", "broken.json/x"], "broken.json/x cannot be made", "--out DIR"),
        (["--out", "/proc/self"], "/proc/self cannot be written", "--out DIR"),
        (["--out", "taken"], "taken/results.json is a folder", "--out DIR"),
        (["--markdown", "nowhere/page.md"], "nowhere cannot be written", "--markdown FILE"),
        (["--model", "gpt-x"], "OPENAI_API_KEY", "--help"),
        (["--model", "gpt-x", "--only", "weather", "--peers", "none"], "OPENAI_API_KEY", "--help"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_measured(
    done: Path, options: list[str], error: str, tip: str
) -> None:
    (done / "broken.json").write_text("{")
    (done / "taken" / "results.json").mkdir(parents=True, exist_ok=True)
    run = _command(done)("bench", "--quick", *options)
    assert run.status == 2, run.err
    assert error in run.error
    assert tip in run.tip
    assert run.out == ""
