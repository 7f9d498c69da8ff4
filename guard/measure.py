"""Run the quick tests of a checkout under coverage: branches per room, and which test runs which line."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import coverage

from rooms import COMPARISON, SOURCES, room_of

BY_THE_CLOCK = ("host_stays_responsive", "host_is_not_filled", "looking_at_programs", "large_contracts")
"""Tests in tests/guard that hold the host's time against bounds: under coverage they fail, or take an hour."""
QUICK = ["-m", "not slow", "-k", "not trio", "--ignore=tests/examples/test_installing.py"]
QUICK += [f"--ignore=tests/guard/test_{name}.py" for name in BY_THE_CLOCK]
"""The same tests at every commit: one event loop, nothing slow, no probes."""
NOT_RUN = ("probes", "__pycache__")
OF_THE_COMPARISON = "bench"
SAMPLED = ("plan", "protocol", "program", "guest", "runtime", "guard", "fast_path", "search", "tools")
"""Folders of tests that ask the rooms of the mutation sample: for these it is kept which test runs which line."""
WORKERS = 2

RC = """
[run]
branch = true
parallel = true
data_file = {folder}/data
source = {sources}
disable_warnings = no-data-collected,module-not-measured,module-not-imported,already-imported
"""
CHILD_RC = "patch = _exit, fork\n"
GUEST_RC = "patch = _exit\nsigterm = true\ncontext = ${GUARD_TEST-}\n"


def parts(checkout: Path) -> list[str]:
    """Folders of tests, and test files that stand beside them: those of the sample first, the comparison's last."""
    names = {each.name for each in (checkout / "tests").iterdir() if each.is_dir() or each.name.startswith("test_")}
    names = {name for name in names if (checkout / "tests" / name).is_file() or is_run(checkout / "tests" / name)}
    order = [*SAMPLED, *sorted(names - {*SAMPLED, OF_THE_COMPARISON}), OF_THE_COMPARISON]
    return [name for name in order if name in names]


def is_run(folder: Path) -> bool:
    return folder.name not in NOT_RUN and any(folder.rglob("test_*.py"))


def run(checkout: Path, folder: Path) -> None:
    """Run all parts that have not been run yet. Each leaves ``data``, ``junit.xml`` and ``log`` in its own folder."""
    for part in parts(checkout):
        place = folder / part
        if (place / "data").exists():
            continue
        place.mkdir(parents=True, exist_ok=True)
        for each in place.iterdir():
            each.unlink()
        print(f"coverage: tests/{part}", flush=True)
        run_tests(checkout, place, part)
        measurement = coverage.Coverage(data_file=str(place / "data"), config_file=str(place / "rc"))
        measurement.combine([str(place)])
        measurement.save()


def run_tests(checkout: Path, place: Path, part: str) -> None:
    """Run one part, by the checkout's own Python, under coverage."""
    rc = RC.format(folder=place, sources=",".join(str(checkout / each) for each in SOURCES))
    (place / "rc").write_text(rc)
    (place / "rc.child").write_text(rc + CHILD_RC)
    (place / "rc.guest").write_text(rc + GUEST_RC)
    environ = dict(os.environ, PYTHONPATH=str(Path(__file__).parent), COVERAGE_PROCESS_START=str(place / "rc"))
    environ |= {"GUARD_CONTEXTS": "1"} if part in SAMPLED else {}
    command = [str(checkout / ".venv/bin/python"), "-m", "pytest", "-p", "contexts", "-p", "no:cacheprovider", "-q"]
    command += [
        "--hypothesis-profile=guard",
        "-o",
        "timeout=900",
        f"--numprocesses={WORKERS}",
        "--dist=loadfile",
        f"--junitxml={place}/junit.xml",
    ]
    with (place / "log").open("w") as log:
        command += [*QUICK, f"tests/{part}"]
        subprocess.run(command, cwd=checkout, env=environ, stdout=log, stderr=subprocess.STDOUT, check=False)
    if not (place / "junit.xml").exists():
        raise SystemExit(f"pytest did not come to its end: see {place}/log")


def times(folder: Path) -> dict[str, tuple[str, float]]:
    """Test -> ``passed``, ``failed`` or ``skipped``, and its seconds; of all parts that were run."""
    found = {}
    for file in sorted(folder.glob("*/junit.xml")):
        for case in ElementTree.parse(file).getroot().iter("testcase"):
            name = f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"
            kinds = {each.tag for each in case}
            outcome = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
            found[name] = (outcome, float(case.get("time", 0)))
    return found


def figures(checkout: Path, folder: Path) -> dict[str, Any]:
    """Branches and lines per room. The comparison's own tests count for the comparison's room only."""
    names = parts(checkout)
    rooms = by_room(checkout, [folder / name for name in names if name != OF_THE_COMPARISON])
    everything = by_room(checkout, [folder / name for name in names])
    rooms[COMPARISON] = everything[COMPARISON]
    outcomes = times(folder)
    failed = sorted(test for test, (outcome, _) in outcomes.items() if outcome == "failed")
    counts = Counter(outcome for outcome, _ in outcomes.values())
    return {"tests": {**counts, "which failed": failed}, "rooms": dict(sorted(rooms.items()))}


def by_room(checkout: Path, folders: list[Path]) -> dict[str, dict[str, Any]]:
    """Room -> branches, lines, those that were run, and the share of branches in percent."""
    rooms: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as place:
        measurement = coverage.Coverage(data_file=f"{place}/data", config_file=str(folders[0] / "rc"))
        measurement.combine([str(folder / "data") for folder in folders], keep=True)
        measurement.json_report(outfile=f"{place}/json")
        files = json.loads(Path(place, "json").read_text())["files"]
    for name, file in files.items():
        path = (Path.cwd() / name).relative_to(checkout).as_posix()
        room = rooms.setdefault(room_of(path), Counter())
        for key in ("covered_branches", "num_branches", "covered_lines", "num_statements"):
            room[key] += file["summary"][key]
    for room in rooms.values():
        room["percent"] = round(100 * room["covered_branches"] / (room["num_branches"] or 1), 2)
    return rooms
