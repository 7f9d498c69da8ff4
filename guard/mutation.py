"""Put one fault after another into a copy of a checkout, and see which test notices."""

from __future__ import annotations

import json
import queue
import random
import shutil
import subprocess
import threading
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

from coverage import CoverageData

import measure
from mutants import Mutant, sample

SEED = 9
AT_A_TIME = 2
SECONDS = 150.0
"""Longest wait for the tests of one mutant; what hangs is noticed."""
MOST_FILES = 5
MOST_TESTS = 50
MOST_SECONDS = 30.0
"""Of the tests that run the line of a mutant: so many files, tests, and seconds by the measured times."""
LEFT_OUT = (".git", ".venv", "__pycache__", ".*_cache", ".hypothesis", "build", "dist")


class Tests:
    """Which tests run which line, and how long each takes: from the coverage run."""

    def __init__(self, checkout: Path, folder: Path) -> None:
        self._checkout = checkout
        self._data = [CoverageData(str(folder / part / "data")) for part in measure.SAMPLED if (folder / part).exists()]
        for each in self._data:
            each.read()
        self._times = {name: took for name, (outcome, took) in measure.times(folder).items() if outcome == "passed"}
        self._of_file: dict[str, list[str]] = defaultdict(list)
        for test in self._times:
            self._of_file[test.split("::")[0]].append(test)
        self._lines: dict[str, dict[int, list[str]]] = {}

    def _by_line(self, path: str) -> dict[int, list[str]]:
        if path not in self._lines:
            lines = self._lines[path] = defaultdict(list)
            for data in self._data:
                for line, tests in data.contexts_by_lineno(str(self._checkout / path)).items():
                    lines[line] += tests
        return self._lines[path]

    def of(self, mutant: Mutant, before: str | None = None) -> list[str]:
        """Tests to run: the one that noticed it `before`, and of the files with most tests of these lines in turn, the
        fastest first.

        A guest serves all tests of a file and counts to the first of them; so others of the file are asked, too.
        """
        by_line = self._by_line(mutant.path)
        covering: dict[str, set[str]] = defaultdict(set)
        for line in mutant.lines:
            for test in by_line.get(line, ()):
                if test in self._times:
                    covering[test.split("::")[0]].add(test)
        files = []
        for file in sorted(covering, key=lambda each: (-len(covering[each]), each))[:MOST_FILES]:
            files.append(sorted(covering[file], key=lambda each: self._times[each]))
            if file.startswith("tests/guest/"):
                others = sorted(set(self._of_file[file]) - covering[file])
                files[-1] += random.Random(mutant.key).sample(others, len(others))
        chosen = [test for turn in zip_longest(*files) for test in turn if test]
        if before in self._times:
            chosen = [before, *(test for test in chosen if test != before)]
        spent = 0.0
        for number, test in enumerate(chosen):
            spent += self._times[test]
            if number and (spent > MOST_SECONDS or number >= MOST_TESTS):
                return chosen[:number]
        return chosen


@dataclass
class Bench:
    """A copy of the checkout with a warm process: mutants go in one at a time."""

    checkout: Path
    copy: Path
    bad: set[str] = field(default_factory=set)
    """Tests that fail in this copy without any fault."""
    good: set[str] = field(default_factory=set)

    def __enter__(self) -> Bench:
        shutil.rmtree(self.copy, ignore_errors=True)
        shutil.copytree(self.checkout, self.copy, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT))
        shared = self.copy.parent / "shared"
        if not shared.exists():
            shared.symlink_to(self.checkout.parent / "shared")
        python = str(self.checkout / ".venv/bin/python")
        # a file's time of change is too coarse for mutants that follow each other within a second
        compiled = [python, "-m", "compileall", "-q", "--invalidation-mode", "checked-hash", "host", "sandbox_image"]
        subprocess.run(compiled, cwd=self.copy, check=True)
        command = [python, str(Path(__file__).with_name("warm.py")), str(self.copy)]
        self._warm = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_: object) -> None:
        with self._warm:
            self._warm.kill()
        shutil.rmtree(self.copy, ignore_errors=True)

    def ask(self, tests: list[str]) -> dict[str, Any]:
        assert self._warm.stdin is not None
        assert self._warm.stdout is not None
        self._warm.stdin.write(json.dumps({"tests": tests, "seconds": SECONDS}) + "\n")
        self._warm.stdin.flush()
        return dict(json.loads(self._warm.stdout.readline()))

    def try_it(self, mutant: Mutant, tests: list[str]) -> str | None:
        """The test that fails with the fault and passes without; ``None`` if the fault goes unnoticed."""
        file = self.copy / mutant.path
        source = file.read_bytes()
        while tests := [each for each in tests if each not in self.bad]:
            file.write_bytes(mutant.applied(source))
            try:
                said = self.ask(tests)
            finally:
                file.write_bytes(source)
            if said["status"] in (0, 5):
                return None
            killer = said["killer"]
            if (
                killer is None
            ):  # the process ended, or hung; if these tests do so without the fault, too, ask their files
                if self.ask(tests)["status"] == 0:
                    return "(ended or hung)"
                files = list(dict.fromkeys(each.split("::")[0] for each in tests))
                tests = [] if files == tests else files
            elif killer in self.good or self.ask([killer])["status"] == 0:
                self.good.add(killer)
                return str(killer)
            else:
                self.bad.add(killer)
        return None


def run(checkout: Path, folder: Path, before: dict[str, str | None], out: Path) -> None:
    """Try the sample and write `out`. What `out` has already is not tried again.

    Args:
        before: the base's mutants, each with the test that noticed it.
    """
    tests = Tests(checkout, folder)
    results: dict[str, str | None] = json.loads(out.read_text())["mutants"] if out.exists() else {}
    chosen = sample(checkout, SEED, list(before))
    waiting: queue.SimpleQueue[Mutant] = queue.SimpleQueue()
    for mutant in sorted(chosen, key=lambda each: each.rank(SEED)):
        if mutant.key not in results:
            waiting.put(mutant)
    lock = threading.Lock()

    def work(number: int) -> None:
        with Bench(checkout, folder / "scratch" / str(number) / "main") as bench:
            while True:
                try:
                    mutant = waiting.get_nowait()
                except queue.Empty:
                    return
                with lock:
                    asked = tests.of(mutant, before.get(mutant.key))
                killer = bench.try_it(mutant, asked) if asked else None
                with lock:
                    results[mutant.key] = killer
                    write(out, chosen, results)
                    done = f"{len(results)} of {len(chosen)}: {'noticed' if killer else 'UNNOTICED'}"
                    print(f"mutation: {done}: {mutant.key}", flush=True)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(AT_A_TIME)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    write(out, chosen, results)


def write(out: Path, chosen: list[Mutant], results: dict[str, str | None]) -> None:
    rooms: dict[str, dict[str, int]] = {}
    for mutant in chosen:
        if mutant.key in results:
            room = rooms.setdefault(mutant.room, {"killed": 0, "tried": 0})
            room["tried"] += 1
            room["killed"] += results[mutant.key] is not None
    kept = {mutant.key: results[mutant.key] for mutant in chosen if mutant.key in results}
    found = {"seed": SEED, "rooms": dict(sorted(rooms.items())), "mutants": dict(sorted(kept.items()))}
    out.write_text(json.dumps(found, indent=1) + "\n")
