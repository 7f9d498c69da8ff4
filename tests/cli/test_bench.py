"""``callgate bench`` as a person meets it: whole runs, interruption, comparison, and what it says of wrong options."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from callgate.cli import main
from callgate_bench import whole_run
from callgate_bench.figures import Row
from callgate_bench.model.talks import RealModel
from callgate_bench.report.drawn import MARK
from callgate_bench.results import Results
from callgate_bench.whole_run import Asked
from cli.command import Command

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="the jail needs Linux")]

ROOT = Path(__file__).parents[2]
FAST = (
    "--modes",
    "direct,plan,code-jail",
    "--peers",
    "none",
    "--turn-seconds",
    "0",
    "--token-seconds",
    "0",
    "--rounds",
    "1",
)


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


def test_a_run_gives_a_table_a_file_and_pages(done: Path) -> None:
    results = _results(done / "found")
    outcomes = {cell["contestant"]: cell["outcome"] for cell in results["cells"]}
    assert outcomes == {"direct": "right", "plan": "right", "code-jail": "right"}
    assert [row["key"] for row in results["rows"]] == ["slow"]
    assert results["interrupted"] == ""
    assert results["command"] == (
        "callgate bench --quick --only weather --only slow --modes direct,plan,code-jail --peers none --rounds 1 "
        "--turn-seconds 0.0 --token-seconds 0.0"
    )
    page = (done / "found" / "report.html").read_text()
    assert '<span class="bar">' in page
    table = (done / "table.txt").read_text()
    for text in (page, table, (done / "found" / "report.md").read_text()):
        assert "simulated" in text
        assert "20 gathered tools of 0.1 s" in " ".join(text.split())


def test_pages_can_be_made_again_from_the_file(done: Path) -> None:
    run = _command(done)("bench", "--from", "found/results.json", "--out", "again", "--markdown", "page.md")
    assert run.status == 0, run.err
    for name in ("results.json", "report.html", "report.md"):
        assert (done / "again" / name).read_text() == (done / "found" / name).read_text()
    assert (done / "page.md").read_text() == (done / "found" / "report.md").read_text()


def test_the_summary_goes_below_the_line_of_a_page_that_has_one(done: Path) -> None:
    (done / "mine.md").write_text(f"# Mine\n\n{MARK}\n")
    run = _command(done)("bench", "--from", "found/results.json", "--out", "again", "--markdown", "mine.md")
    assert run.status == 0, run.err
    assert (done / "mine.md").read_text().startswith(f"# Mine\n\n{MARK}\n\n## The last run\n\n**Of 1 workload")


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
    with _command(done).start("bench", "--quick", *options, "--out", "part") as (process, _):
        assert process.stderr is not None
        lines = [process.stderr.readline() for _ in range(3)]  # each without waits, then the first round
        assert lines == [b"weather: direct\n", b"weather: code-fast\n", b"weather: direct\n"]
        process.send_signal(by)
        told = process.stderr.read().decode()
        assert process.wait(30) == 130, told
    results = _results(done / "part")
    assert results["interrupted"].startswith("interrupted after ")
    assert {cell["outcome"] for cell in results["cells"]} == {"not measured"}
    assert "results.json" in told
    assert "interrupted" in (done / "part" / "report.html").read_text()


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


def test_a_wheel_has_no_comparison_and_says_where_to_get_it(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "pip", "wheel", "-qq", "--no-deps", "--no-build-isolation", "-w", ".", str(ROOT)]
    subprocess.run(build, cwd=tmp_path, check=True, timeout=120)
    (wheel,) = tmp_path.glob("callgate-*.whl")
    with zipfile.ZipFile(wheel) as file:
        file.extractall(tmp_path / "installed")
    alone = "sys.path[:] = ['installed', *(each for each in sys.path if not os.path.isdir(f'{each}/callgate_bench'))]"
    line = [sys.executable, "-c", f"import os, sys; {alone}; from callgate.cli import main; main(['bench', '--quick'])"]
    run = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 2
    assert run.stderr.splitlines() == [
        "ERROR the comparison is not in callgate's wheel: it runs from a clone",
        "TIP git clone REPOSITORY callgate && cd callgate && make bench",
    ]


def test_without_the_extra_it_says_how_to_install_it(tmp_path: Path) -> None:
    line = "import sys; sys.modules['jinja2'] = None; from callgate.cli import main; main(['bench', '--quick'])"
    run = subprocess.run(
        [sys.executable, "-c", line], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert run.returncode == 2
    assert "ERROR the comparison needs jinja2" in run.stderr
    assert "[bench]" in run.stderr


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
        (["--only", "workload"], "there is no 'workload'; did you mean workloads?", "weather"),
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
