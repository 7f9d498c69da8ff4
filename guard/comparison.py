"""This checkout's comparison, run in alternation against the callgate of the base and of this checkout."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).parents[1]
THINGS = ("warm", "call", "gather", "fast", "plan", "makespan", "reference", "weather", "fan-out")
ROUNDS = 3
TOLERANCE = 1.05
SECONDS = 1800.0
"""Longest time for one run of the comparison."""
NAMES = ("measure", "entry", "task", "workload", "contestant", "mode")
"""Fields of a results.json that say what was measured."""


def run(base: Path, folder: Path) -> dict[str, Any]:
    """Run what has not been run yet, and compare the figures of the two sides."""
    harness = folder / "harness"
    harness.mkdir(parents=True, exist_ok=True)
    link = harness / "callgate_bench"
    link.unlink(missing_ok=True)
    link.symlink_to(HERE / "host/callgate_bench")
    for number in range(ROUNDS):
        measure(harness, base, folder / f"base-{number}.json")
        measure(harness, HERE, folder / f"now-{number}.json")
    return {"commit": base.name, "things": compared(folder)}


def measure(harness: Path, checkout: Path, out: Path) -> None:
    """Run the comparison once, with the callgate of a checkout."""
    if out.exists():
        return
    print(f"comparison: {out.name}", flush=True)
    unfinished = out.with_suffix(".unfinished")
    only = [word for thing in THINGS for word in ("--only", thing)]
    command = [str(HERE / ".venv/bin/python"), "-P", "-m", "callgate_bench", "--quick", *only, str(unfinished)]
    roots = (harness, checkout / "host", checkout / "sandbox_image")
    environ = dict(os.environ, PYTHONPATH=":".join(map(str, roots)))
    nothing, pipe = subprocess.DEVNULL, subprocess.PIPE
    done = subprocess.run(command, env=environ, stdout=nothing, stderr=pipe, text=True, timeout=SECONDS, check=False)
    if done.returncode or not unfinished.exists():
        raise SystemExit(f"the comparison of {checkout} failed:\n{done.stderr}")
    unfinished.rename(out)


def compared(folder: Path) -> dict[str, dict[str, Any]]:
    """Thing measured -> medians of both sides, their ratio, and whether it is slower.

    Slower: the median of the rounds grew by more than `TOLERANCE`, and every round now is slower than all of the base.
    """
    sides = [[read(folder / f"{side}-{number}.json") for number in range(ROUNDS)] for side in ("base", "now")]
    things = {}
    for name in sides[0][0]:
        before, now = ([figures[name] for figures in side if name in figures] for side in sides)
        if len(before) == len(now) == ROUNDS:
            ratio = median(now) / median(before)
            slower = ratio > TOLERANCE and min(now) > max(before)
            things[name] = {"base": median(before), "now": median(now), "ratio": round(ratio, 3), "slower": slower}
    return things


def read(path: Path) -> dict[str, float]:
    return dict(figures(json.loads(path.read_text())))


def figures(results: Any, place: str = "") -> Iterator[tuple[str, float]]:
    """Every duration of callgate in a results.json: the names on the way to it, and its median in seconds."""
    if isinstance(results, list):
        if results and isinstance(results[0], dict) and "overhead_seconds" in results[0]:
            yield place, median(each["overhead_seconds"] for each in results)
            return
        for each in results:
            yield from figures(each, place)
    elif isinstance(results, dict):
        if "p50" in results and "p10" in results:
            yield place, results["p50"]
            return
        names = [results[key] for key in NAMES if isinstance(results.get(key), str)]
        for key, value in results.items():
            if key != "peer":
                yield from figures(value, " / ".join([*filter(None, [place]), *names, key]))
