"""Runs that are killed, on demand: ``PYTHONPATH=tests python -m durable.kill --moments 1000 --seed 1``.

Each trial runs one program to its end in a chain of processes. All but the last of them are killed: at one of the
points that `world` counts, or at a time. People answer from another process. `judging` says what must hold at the end,
compared with a run that nobody killed. Prints a line for each fault, and a table. Ends with 1 if there was a fault.

  --moments N      end when so many processes were killed
  --programs A,B   only these
  --breaks NAME    break the journal on purpose (see `broken`), and end at the first fault: the status is turned around
  --power          each kill is a power failure as well
  --show N         one trial, with all that it says
"""

from __future__ import annotations

import argparse
import contextlib
import platform
import random
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import anyio

from durable.kill.broken import BREAKS
from durable.kill.judging import Told, faults
from durable.kill.lives import Kill, Lives, adopt_orphans
from durable.kill.programs import PROGRAMS
from durable.kill.world import entries

AT_A_TIME = 0.3
"""Share of the kills at a time; the others are at points."""
ANOTHER = 0.6
"""Chance that one more process is killed."""
PROGRESS = 50
"""Trials between two lines that say how far it is."""
SHOWN = 5
"""Faults of one trial that are printed."""
MOST = 6
"""Processes of one run that are killed."""
LEAVES = ("", "", "soft", "hard")
"""See `Lives.leaves`."""
LOOPS = ("asyncio", "asyncio", "trio")
COLUMNS = {
    "trials": "trials",
    "at points": "killed at a point",
    "at times": "killed at a time",
    "happened": "settled: it happened",
    "again": "settled: make it again",
    "approved": "approved",
    "denied": "denied",
    "repeated": "made again under its key",
    "faults": "faults",
}
"""Of the table: trials; processes killed; calls in doubt that people settled; approvals that they answered; calls in
flight at a kill that another process made again; faults."""


@dataclass(frozen=True)
class Expected:
    """A run that nobody killed."""

    told: Told
    points: int
    seconds: float


class Campaign:
    """Trials, one after the other.

    Args:
        folder: for their files.
        options: of the command line.
    """

    def __init__(self, folder: Path, options: argparse.Namespace) -> None:
        self._folder = folder
        self._options = options
        self._began = time.monotonic()
        self._expected: dict[str, Expected] = {}
        self.counts: dict[str, Counter[str]] = {}

    async def run(self) -> None:
        """Run trials until enough processes were killed, or a journal that was broken on purpose has shown it."""
        names = self._options.programs.split(",") if self._options.programs else list(PROGRAMS)
        number = self._options.first
        while sum(self._kills_of(name) for name in self.counts) < self._options.moments:
            name = names[number % len(names)]
            found = await self.trial(number, name)
            for fault in [*found[:SHOWN], *([f"and {len(found) - SHOWN} faults more"] if found[SHOWN:] else [])]:
                print(f"trial {number} of seed {self._options.seed}, {name}: {fault}", flush=True)
            if self._options.show is not None or (found and self._options.breaks):
                return
            number += 1
            if number % PROGRESS == 0:
                kills, seconds = sum(map(self._kills_of, self.counts)), time.monotonic() - self._began
                print(f"{number} trials, {kills} kills in {seconds:.0f} s", flush=True)

    def _kills_of(self, name: str) -> int:
        return self.counts[name]["killed at a point"] + self.counts[name]["killed at a time"]

    async def trial(self, number: int, name: str) -> list[str]:
        """Run a program through some kills; returns the faults."""
        expected = await self._undisturbed(name)
        chance = random.Random(f"{self._options.seed} {number}")
        kills = list(_kills(chance, expected))
        leaves = chance.choice(LEAVES)
        loops = [{"KILL_LOOP": chance.choice(LOOPS)} for _ in range(len(kills) + 1)] if not self._options.breaks else []
        power = self._options.power or self._options.breaks == "unsynced"
        with tempfile.TemporaryDirectory(prefix=f"{number}-", dir=self._folder) as folder:
            lives = Lives(Path(folder), name, "hard" if power else leaves, self._options.breaks, power)
            await lives.run(kills, loops)
            ledger = entries(lives.folder)
            found = [*lives.faults]
            if lives.told is not None:
                found += faults(lives.told, expected.told, ledger, lives.kept)
            lives.counts["trials"] += 1
            lives.counts["faults"] += len(found)
            lives.counts["made again under its key"] += len({(each.key, each.process) for each in ledger}) - len(
                {each.key for each in ledger}
            )
            if self._options.show is not None:
                print(name, kills, loops, repr(leaves), dict(lives.counts), *ledger, lives.told, sep="\n")
        self.counts.setdefault(name, Counter()).update(lives.counts)
        return found

    async def _undisturbed(self, name: str) -> Expected:
        if name not in self._expected:
            with tempfile.TemporaryDirectory(prefix=f"{name}-", dir=self._folder) as folder:
                lives = Lives(Path(folder), name)
                await lives.run([])
                if lives.told is None or lives.faults or lives.told.ok is not PROGRAMS[name].ends_well:
                    raise SystemExit(f"{name} does not run even without kills: {lives.told} {lives.faults}")
                if found := faults(lives.told, lives.told, entries(lives.folder), ()):
                    raise SystemExit(f"{name}: the rules do not hold even without kills: {found}")
                self._expected[name] = Expected(lives.told, lives.points, lives.seconds)
        return self._expected[name]

    def table(self) -> str:
        """What happened, by program."""
        total = sum(self.counts.values(), Counter[str]())
        lines = [f"{'':20}" + "".join(f"{name:>10}" for name in COLUMNS)]
        for name, counts in [*sorted(self.counts.items()), ("all", total)]:
            lines.append(f"{name:20}" + "".join(f"{counts[column]:10}" for column in COLUMNS.values()))
        return "\n".join(lines)


def _kills(chance: random.Random, expected: Expected) -> Iterator[Kill]:
    """Kills of the processes of one run, each in what the kills before it have left of the run."""
    left = 1.0
    for number in range(MOST):
        if number and chance.random() > ANOTHER:
            return
        part = chance.random() ** (1 + number) * left  # a process that goes on has less to do
        if chance.random() < AT_A_TIME:
            yield Kill(seconds=part * expected.seconds)
        else:
            yield Kill(point=1 + int(part * expected.points))
        left -= part


def main() -> int:
    options = _options()
    adopt_orphans()
    began = time.monotonic()
    print(
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {platform.system()} "
        f"{platform.release()}, seed {options.seed}, {options.moments} moments"
        + (f", broken on purpose: {BREAKS[options.breaks]}" if options.breaks else ""),
        flush=True,
    )
    with tempfile.TemporaryDirectory(prefix="killed-", dir=options.folder) as folder:
        campaign = Campaign(Path(folder), options)
        with contextlib.suppress(KeyboardInterrupt):  # what there is until then is printed
            anyio.run(campaign.run)
    found = sum(counts["faults"] for counts in campaign.counts.values())
    print(campaign.table())
    print(f"{found} faults in {time.monotonic() - began:.0f} s")
    return int(bool(found) is not bool(options.breaks))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="durable.kill",
        description="Run durable programs, kill their processes, and look for lost or repeated calls.",
    )
    parser.add_argument("--moments", type=int, default=100, help="end after this number of kills (default 100)")
    parser.add_argument("--seed", type=int, default=1, help="of all choices (default 1)")
    parser.add_argument("--first", type=int, default=0, help="number of the first trial")
    parser.add_argument("--programs", default="", help="only these, with commas between them")
    parser.add_argument(
        "--breaks", choices=list(BREAKS), default="", help="break the journal on purpose, and end at the first fault"
    )
    parser.add_argument("--power", action="store_true", help="make each kill a power failure as well")
    parser.add_argument("--show", type=int, help="run this trial alone, and show all its output")
    parser.add_argument("--folder", help="where the files of trials lie for their time")
    options = parser.parse_args()
    if options.show is not None:
        options.first = options.show
    return options


if __name__ == "__main__":
    sys.exit(main())
