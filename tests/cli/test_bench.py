"""``callgate bench`` as a person meets it: whole runs, interruption, comparison, and what it says of wrong options."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

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
    import os

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


def test_what_was_measured_before_an_interruption_is_kept(done: Path) -> None:
    options = ("--only", "weather", "--modes", "code-fast,direct", "--peers", "none", "--turn-seconds", "20")
    with _command(done).start("bench", "--quick", *options, "--out", "part") as (process, _):
        assert process.stderr is not None
        lines = [process.stderr.readline() for _ in range(3)]  # each without waits, then the first round
        assert lines == [b"weather: direct\n", b"weather: code-fast\n", b"weather: direct\n"]
        process.send_signal(signal.SIGINT)
        told = process.stderr.read().decode()
        assert process.wait(30) == 130
    results = _results(done / "part")
    assert results["interrupted"].startswith("interrupted after ")
    assert {cell["outcome"] for cell in results["cells"]} == {"not measured"}
    assert "results.json" in told
    assert "interrupted" in (done / "part" / "report.html").read_text()


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
        (["--model", "gpt-x", "--only", "weather", "--peers", "none"], "OPENAI_API_KEY", "--help"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_measured(
    done: Path, options: list[str], error: str, tip: str
) -> None:
    (done / "broken.json").write_text("{")
    run = _command(done)("bench", "--quick", *options)
    assert run.status == 2, run.err
    assert error in run.error
    assert tip in run.tip
    assert run.out == ""
