"""results.json: what is written is read, described by its schema, and whatever else is refused with a reason."""

from __future__ import annotations

import json
import math
import stat
from collections.abc import Callable
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from bench.samples import cell, results, sample, steady
from callgate_bench import results as contract
from callgate_bench.report.results_json import (
    MAX_BYTES,
    SCHEMA,
    UnreadableResults,
    read,
    write,
    write_schema,
)
from callgate_bench.results import Results
from callgate_bench.rows import Row


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "results.json"


def fits(value: Any) -> bool:
    return jsonschema_rs.Draft202012Validator(SCHEMA).is_valid(value)


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
def test_what_was_written_is_read_and_fits_the_schema(path: Path, run: Results) -> None:
    write(run, path)
    assert read(path) == run
    assert json.loads(path.read_bytes()) == asdict(run)
    assert fits(json.loads(path.read_bytes()))
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_the_schema_is_a_schema_and_is_written_beside_the_file(tmp_path: Path) -> None:
    write_schema(tmp_path / "results.schema.json")
    schema = json.loads((tmp_path / "results.schema.json").read_bytes())
    assert schema == SCHEMA
    jsonschema_rs.meta.validate(schema)


def test_the_schema_has_every_field_of_every_dataclass() -> None:
    parts = {"Results": SCHEMA, **SCHEMA["$defs"]}
    everything = (*vars(contract).values(), Row)
    made = {each.__name__: each for each in everything if isinstance(each, type) and is_dataclass(each)}
    made.pop("Figure")
    assert set(parts) == set(made)
    for name, part in parts.items():
        names = [each.name for each in fields(made[name])]
        assert (list(part["properties"]), part["required"]) == (names, names)


def test_the_schema_says_what_the_fields_are() -> None:
    told = SCHEMA["$defs"]["Round"]["properties"]
    assert told["overhead_seconds"]["description"] == "all the rest: what the runtime itself took."
    assert all(each.get("description") for each in told.values())


def _without(*names: str) -> Callable[[dict[str, Any]], None]:
    def change(data: dict[str, Any]) -> None:
        for name in names:
            del data[name]

    return change


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (_without("cells"), ""),
        (_without("made"), "made: field required"),
        (lambda data: data.update(made=7), "made: input should be a valid string"),
        (lambda data: data.update(cells={}), "cells: input should be a valid array"),
        (lambda data: data["cells"][0].update(outcome="fine"), "cells.0.outcome: input should be 'right'"),
        (lambda data: data["cells"][0]["rounds"][0].update(turns=1.5), "cells.0.rounds.0.turns"),
        (lambda data: data["cells"][0]["rounds"][0].update(turns="1"), "cells.0.rounds.0.turns"),
        (
            lambda data: data["cells"][0]["rounds"][0].update(wall_seconds=-1),
            "cells.0.rounds.0.wall_seconds: input should be greater than or equal to 0",
        ),
        (lambda data: data["cells"][0]["rounds"][0].update(wall_seconds=None), "cells.0.rounds.0.wall_seconds"),
        (lambda data: data["yardstick"]["seconds"].append(-0.5), "yardstick.seconds.5: input should be greater"),
        (lambda data: data["model"].update(simulated="yes"), "model.simulated"),
        (lambda data: data["entries"][0].update(mode="telepathy"), "entries.0.mode"),
        (lambda data: data["rows"][0].update(verdict="good"), "rows.0.verdict"),
        (lambda data: data.update(schema_version=2), "has schema_version 2, this callgate reads 1"),
        (lambda data: data.update(schema_version="1"), "has schema_version 1"),
        (lambda data: data.update(schema_version=True), "has schema_version True"),
        (_without("schema_version"), "it has no schema_version"),
        (lambda data: data.update(surprise=1), ""),
    ],
)
def test_what_is_not_a_run_is_refused_by_schema_and_reader(
    path: Path, change: Callable[[dict[str, Any]], None], reason: str
) -> None:
    data = results(cell("plan", steady(1.0)), rows=sample().rows).to_dict()
    change(data)
    assert not fits(data)
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
        (b"[]", "it has no schema_version"),
        (b'{"schema_version": 1, "schema_version": 1}', "occurs twice"),
        (b'{"schema_version": NaN}', "NaN is not JSON"),
        (b'{"schema_version": 1e999}', "too large"),
        (b'{"schema_version": ' + b"9" * 5000 + b"}", "is not JSON"),
        (b'{"schema_version": 1}', "field required"),
        (b'{"schema_version": 1, "rows": ' + b"[" * 100_000, "is not JSON"),
        (b'{"schema_version": 1, "rows": ' + b"[" * 500 + b"]" * 500 + b"}", "is not a run of callgate bench"),
        (b'{"date": "2026-11-21", "machine": "Linux", "rows": []}', "it has no schema_version"),
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
