"""Runs that are killed, on demand: ``PYTHONPATH=tests python -m durable.kill --moments 1000 --seed 1``.

Each trial runs one program to its end in a chain of processes. All but the last of them are killed: at one of the
points that `world` counts, or at a time. People answer from another process. `judging` says what must hold at the end,
compared with a run that nobody killed. Prints a line for each fault, one for every 50 kills, and a table: its output is
a log that can be kept. Ends with 1 if there was a fault.

  --moments N      end when so many processes were killed
  --programs A,B   only these
  --workers N      trials at the same time, each in a process; by default one for each processor
  --breaks NAME    break the journal on purpose (see `broken`), and end at the first fault: the status is turned around
  --power          each kill is a power failure as well
  --first N        begin with the Nth trial
  --show N         one trial, with all that it says
  --folder PATH    where the files of trials lie for their time; by default in memory and on the disk
  --shared PATH    where runs that nobody killed are kept for other campaigns
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import platform
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import count

from callgate.version import __version__
from durable.kill import warm
from durable.kill.broken import BREAKS
from durable.kill.lives import adopt_orphans
from durable.kill.programs import PROGRAMS
from durable.kill.trials import Setting, Trial, begin, trial_now, undisturbed_now

MEMORY = "/dev/shm"
"""Where files are in memory, on Linux."""
PROGRESS = 50
"""Kills between two lines that say how far it is."""
SHOWN = 5
"""Faults of one trial that are printed."""
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


class Campaign:
    """Trials, some at the same time.

    Args:
        options: of the command line.
        disk: folder for the files of trials, on a disk.
        memory: folder for the files of others, in memory.
    """

    def __init__(self, options: argparse.Namespace, disk: str, memory: str) -> None:
        self._options = options
        self._setting = Setting(
            options.seed, options.breaks, options.power, disk, memory, options.shared, options.show is not None
        )
        self._names = options.programs.split(",") if options.programs else list(PROGRAMS)
        self._began = time.monotonic()
        self.kills = 0
        self.counts: dict[str, Counter[str]] = {}

    def run(self) -> None:
        """Run trials until enough processes were killed, or a journal that was broken on purpose has shown it."""
        shown = 0
        for each in self._trials():
            self.counts.setdefault(each.program, Counter()).update(each.counts)
            self.kills += each.kills
            found = each.faults
            for fault in [*found[:SHOWN], *([f"and {len(found) - SHOWN} faults more"] if found[SHOWN:] else [])]:
                print(f"trial {each.number} of seed {self._options.seed}, {each.program}: {fault}", flush=True)
            if each.shown:
                print(*each.shown, sep="\n")
            if self.kills // PROGRESS > shown:
                shown = self.kills // PROGRESS
                total = self.total()
                seconds = time.monotonic() - self._began
                print(
                    f"{self.kills} kills in {total['trials']} trials, {total['faults']} faults, {seconds:.0f} s",
                    flush=True,
                )

    def _is_over(self) -> bool:
        found = self.total()["faults"]
        return self.kills >= self._options.moments or bool(found and self._options.breaks)

    def _trials(self) -> Iterator[Trial]:
        """Trials as they end; no new ones begin when it is over."""
        names, numbers = self._names, count(self._options.first)
        if self._options.show is not None:
            numbers = iter([self._options.show])  # type: ignore[assignment]
            names = [names[self._options.show % len(names)]]
        if self._options.workers == 1:
            expected = {name: undisturbed_now(self._setting, name) for name in names}
            for number in numbers:
                name = names[number % len(names)]
                yield trial_now(self._setting, number, name, expected[name])
                if self._is_over():
                    return
            return
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(self._options.workers, spawn, initializer=begin) as pool:
            runs = [pool.submit(undisturbed_now, self._setting, name) for name in names]
            expected = {name: run.result() for name, run in zip(names, runs, strict=True)}
            waiting: set[Future[Trial]] = set()
            while waiting or not self._is_over():
                while len(waiting) < self._options.workers and not self._is_over():
                    if (number := next(numbers, None)) is None:
                        break
                    name = names[number % len(names)]
                    waiting.add(pool.submit(trial_now, self._setting, number, name, expected[name]))
                if not waiting:
                    return
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for each in done:
                    yield each.result()

    def total(self) -> Counter[str]:
        """What happened, in all programs."""
        return sum(self.counts.values(), Counter[str]())

    def table(self) -> str:
        """What happened, by program."""
        lines = [f"{'':20}" + "".join(f"{name:>10}" for name in COLUMNS)]
        for name, counts in [*sorted(self.counts.items()), ("all", self.total())]:
            lines.append(f"{name:20}" + "".join(f"{counts[column]:10}" for column in COLUMNS.values()))
        return "\n".join(lines)


def main() -> int:
    options = _options()
    adopt_orphans()
    print(
        f"callgate {__version__}, Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, "
        f"{platform.system()} {platform.release()}, seed {options.seed}, {options.moments} moments, "
        f"{options.workers} at the same time"
        + (f", broken on purpose: {BREAKS[options.breaks]}" if options.breaks else ""),
        flush=True,
    )
    began = time.monotonic()
    in_memory = options.folder or (MEMORY if os.access(MEMORY, os.W_OK) else None)
    with (
        tempfile.TemporaryDirectory(prefix="killed-", dir=options.folder) as disk,
        tempfile.TemporaryDirectory(prefix="killed-", dir=in_memory) as memory,
    ):
        campaign = Campaign(options, disk, memory)
        try:
            campaign.run()
        except KeyboardInterrupt:
            print("interrupted")
        finally:
            warm.close()
    total = campaign.total()
    print(campaign.table())
    print(
        f"{campaign.kills} processes killed in {total['trials']} trials, {total['faults']} faults, "
        f"{time.monotonic() - began:.0f} s"
    )
    return int(bool(total["faults"]) is not bool(options.breaks))


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
        "--workers", type=int, default=os.cpu_count() or 1, help="chains at the same time (default: processors)"
    )
    parser.add_argument(
        "--breaks", choices=list(BREAKS), default="", help="break the journal on purpose, and end at the first fault"
    )
    parser.add_argument("--power", action="store_true", help="make each kill a power failure as well")
    parser.add_argument("--show", type=int, help="run this trial alone, and show all its output")
    parser.add_argument("--folder", help="where the files of trials lie for their time")
    parser.add_argument("--shared", help="where runs that nobody killed are kept for other campaigns")
    options = parser.parse_args()
    if options.show is not None:
        options.workers = 1
    return options


if __name__ == "__main__":
    sys.exit(main())
