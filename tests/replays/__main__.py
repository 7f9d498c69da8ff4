"""Many programs, on demand: ``PYTHONPATH=tests python -m replays --programs 20000 --seed 1``.

Each is recorded once, with answers and timers in a random order, and replayed cut off at every event: see `recording`.
A program with a fault is made smaller and printed with its number. A run that hangs is a fault, and so is a process
that hangs: see `workers`. Prints a line for every 500 programs: its output is a log that can be kept. Ends with 1 if
there was a fault.

  --first N        begin with the Nth program
  --theme NAME     only programs of this theme (see `programs.THEMES`)
  --workers N      so many processes, each with sandboxes of its own; by default one for each processor
  --show N         print the Nth program and what came of it, and nothing else
  --keep           do not make programs smaller
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import os
import platform
import sys
import time
from functools import partial

from callgate.version import __version__
from replays.campaign import share
from replays.programs import THEMES
from replays.recording import RUN_SECONDS, Checked, drawn
from replays.workers import Hung, results

A_TIME = 100
"""Programs that a process takes at once, with new sandboxes."""
PROGRESS = 500
"""Programs between two lines that say how far it is."""
QUIET_SECONDS = 2 * RUN_SECONDS
"""After which a process hangs that begins no run: a run that hangs ends sooner."""


def main() -> int:
    options = _options()
    themes = (options.theme,) if options.theme else THEMES
    if options.show is not None:
        shown: list[Checked] = []
        share(options.seed, themes, True, [options.show], lambda *_: None, lambda _, each: shown.append(each))
        (checked,) = shown
        print(_told(checked, options.seed), f"--- {checked.events} events, {checked.runs} runs", sep="\n")
        return 1 if checked.faults else 0
    print(
        f"callgate {__version__}, Python {platform.python_version()}, {platform.system()} {platform.release()}, "
        f"seed {options.seed}, {options.programs:,} programs from {options.first}, {options.workers} processes",
        flush=True,
    )
    counts: collections.Counter[str] = collections.Counter(programs=0, different=0)
    started = time.monotonic()
    last, shown_at = options.first + options.programs, 0
    shares = [range(first, min(first + A_TIME, last)) for first in range(options.first, last, A_TIME)]
    work = partial(share, options.seed, themes, options.keep)

    def progress() -> None:
        told = ", ".join(f"{what} {count:,}" for what, count in sorted(counts.items()))
        print(f"{time.monotonic() - started:.0f} s: {told}", flush=True)

    with contextlib.suppress(KeyboardInterrupt):  # what there is until then is printed
        for each in results(work, shares, options.workers, QUIET_SECONDS):
            if isinstance(each, Hung):
                counts.update(programs=len(each.at), different=1, hangs=1)
                print(_told_of_hung(each, options.seed, themes), flush=True)
                continue
            counts.update(programs=1, events=each.events, runs=each.runs, calls=each.calls, different=bool(each.faults))
            counts[each.ended] += 1
            if each.faults:
                print(_told(each, options.seed), flush=True)
            if counts["programs"] // PROGRESS > shown_at:
                shown_at = counts["programs"] // PROGRESS
                progress()
    progress()
    print(f"{counts['programs']:,} programs, {counts['different']} differences")
    return 1 if counts["different"] else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="replays", description="See the file's docstring.")
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--theme", choices=THEMES)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--show", type=int)
    parser.add_argument("--keep", action="store_true")
    return parser.parse_args()


def _told(checked: Checked, seed: int) -> str:
    program = checked.program
    head = f"\n=== program {checked.number} of seed {seed} ==="
    return "\n".join([head, *checked.faults, "-----", program.source, f"inputs: {program.inputs}"])


def _told_of_hung(hung: Hung, seed: int, themes: tuple[str, ...]) -> str:
    lines = [f"\n=== a process hangs: {hung.why}; its stacks were printed. It was at {len(hung.at)} programs ==="]
    for number, what in hung.at.items():
        lines += [f"--- program {number} of seed {seed}, at {what!r}", drawn(seed, number, themes).source]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
