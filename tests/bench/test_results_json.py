"""results.json: what is written is read, and whatever else is refused with a reason."""

from __future__ import annotations

import json
import math
import stat
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from bench.samples import cell, results, sample, steady
from callgate_bench.figures import Row
from callgate_bench.results import MAX_BYTES, Results, UnreadableResults, read, write


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "results.json"


@pytest.mark.parametrize(
    "run",
    [
        sample(),
        results(cell("plan", outcome="not measured"), interrupted="Ctrl-C"),
        Results(made="2026-11-22T10:00:00Z", sizes="quick run", command="", machine="", load="", sandbox=""),
        # single things may have numbers below zero
        results(rows=[Row(key="flat", measure="m", measured="-3 kB", numbers={"grown_bytes": [-3000]})]),
    ],
    ids=["whole", "interrupted", "just begun", "below zero"],
)
def test_what_was_written_is_read(path: Path, run: Results) -> None:
    write(run, path)
    assert read(path) == run
    assert json.loads(path.read_bytes()) == asdict(run)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def _without(*names: str) -> Callable[[dict[str, Any]], None]:
    def change(data: dict[str, Any]) -> None:
        for name in names:
            del data[name]

    return change


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (_without("cells"), ""),
        (_without("made"), "made: Field required"),
        (lambda data: data.update(made=7), "made: Input should be a valid string"),
        (lambda data: data.update(cells={}), "cells: Input should be a valid array"),
        (lambda data: data["cells"][0].update(outcome="fine"), "cells.0.outcome: Input should be 'right'"),
        (lambda data: data["cells"][0]["rounds"][0].update(turns=1.5), "cells.0.rounds.0.turns"),
        (lambda data: data["cells"][0]["rounds"][0].update(turns="1"), "cells.0.rounds.0.turns"),
        (
            lambda data: data["cells"][0]["rounds"][0].update(wall_seconds=-1),
            "cells.0.rounds.0.wall_seconds: Input should be greater than or equal to 0",
        ),
        (lambda data: data["cells"][0]["rounds"][0].update(wall_seconds=None), "cells.0.rounds.0.wall_seconds"),
        (lambda data: data["yardstick"]["seconds"].append(-0.5), "yardstick.seconds.5: Input should be greater"),
        (lambda data: data["model"].update(simulated="yes"), "model.simulated"),
        (lambda data: data["entries"][0].update(mode="telepathy"), "entries.0.mode"),
        (lambda data: data["rows"][0].update(verdict="good"), "rows.0.verdict"),
        (lambda data: data.update(schema_version=2), "has schema_version 2, this callgate reads 1"),
        (lambda data: data.update(schema_version="1"), "has schema_version 1"),
        (lambda data: data.update(schema_version=True), "has schema_version True"),
        (_without("schema_version"), "has schema_version None"),
        (lambda data: data.update(surprise=1), ""),
    ],
)
def test_what_is_not_a_run_is_refused(path: Path, change: Callable[[dict[str, Any]], None], reason: str) -> None:
    data = asdict(results(cell("plan", steady(1.0)), rows=sample().rows))
    change(data)
    path.write_text(json.dumps(data))
    if not reason:  # a later version may write more, an interrupted one less
        assert read(path).made
        return
    with pytest.raises(UnreadableResults) as refused:
        read(path)
    assert reason in str(refused.value)
    assert str(path) in str(refused.value)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b"\xff\xfe", "is not JSON"),
        (b"[]", "has schema_version None"),
        (b'{"schema_version": NaN}', "has schema_version nan"),
        (b'{"schema_version": ' + b"9" * 5000 + b"}", "is not JSON"),
        (b'{"schema_version": 1}', "Field required"),
        (b'{"schema_version": 1, "rows": ' + b"[" * 100_000, "is not JSON"),
        (b'{"schema_version": 1, "rows": ' + b"[" * 500 + b"]" * 500 + b"}", "is not a run of callgate bench"),
        (b'{"date": "2026-11-21", "machine": "Linux", "rows": []}', "has schema_version None"),
        (b'"' + b"a" * MAX_BYTES + b'"', "longer than"),
    ],
    ids=lambda value: value if isinstance(value, str) else value[:24].decode("utf-8", "replace"),
)
def test_what_is_hostile_is_refused_with_a_reason(path: Path, content: bytes, reason: str) -> None:
    path.write_bytes(content)
    with pytest.raises(UnreadableResults, match=reason):
        read(path)


@pytest.mark.parametrize(
    ("place", "reason"), [("/dev/zero", "longer than"), ("/nowhere/results.json", "cannot be read: No such file")]
)
def test_what_does_not_end_or_is_not_there_is_told(place: str, reason: str) -> None:
    with pytest.raises(UnreadableResults, match=reason):
        read(Path(place))


def test_what_json_or_unicode_has_no_words_for_does_not_lose_the_run(path: Path) -> None:
    row = Row(key="k", measure="m", measured="?", ratio=math.nan, numbers={"p50": math.inf, "all": (1, 2), "of": {3}})
    write(results(cell("plan", reason="a peer wrote \udcff"), rows=[row]), path)
    kept = read(path)
    assert (kept.rows[0].ratio, kept.rows[0].numbers) == (None, {"p50": None, "all": [1, 2], "of": "{3}"})
    assert kept.cells[0].reason == "a peer wrote ?"


def test_a_write_that_fails_leaves_the_file_before_and_nothing_else(path: Path) -> None:
    write(results(cell("plan", steady(1.0))), path)
    before = path.read_bytes()
    spoiled = results(rows=[Row(key="k", measure="m", measured="", numbers=_endless())])
    with pytest.raises((RecursionError, ValueError)):
        write(spoiled, path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def _endless() -> dict[str, Any]:
    numbers: dict[str, Any] = {}
    for _ in range(20_000):
        numbers = {"of": numbers}
    return numbers


def test_a_folder_that_is_not_there_is_an_os_error(path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        write(results(), path / "further" / "results.json")
