"""Many programs, on demand: ``PYTHONPATH=tests python -m replays --programs 20000 --seed 1``.

Each is recorded once, with answers and timers in a random order, and replayed cut off at every event: see `recording`.
A program with a fault is made smaller and printed with its number. Ends with 1 if there was any.

  --first N        begin with the Nth program
  --theme NAME     only programs of this theme (see `programs.THEMES`)
  --processes N    so many processes, each with sandboxes of its own
  --show N         print the Nth program and what came of it, and nothing else
  --keep           do not make programs smaller
"""

from __future__ import annotations

import argparse
import collections
import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed

from replays.campaign import share
from replays.programs import THEMES
from replays.recording import Checked

A_TIME = 100
"""Programs that a process takes at once, with new sandboxes."""


def main() -> int:
    options = _options()
    themes = (options.theme,) if options.theme else THEMES
    if options.show is not None:
        (checked,) = share(options.seed, themes, True, range(options.show, options.show + 1))
        print(_told(checked, options.seed), f"--- {checked.events} events, {checked.runs} runs", sep="\n")
        return 1 if checked.faults else 0
    counts: collections.Counter[str] = collections.Counter()
    started = time.monotonic()
    last = options.first + options.programs
    shares = [range(first, min(first + A_TIME, last)) for first in range(options.first, last, A_TIME)]
    with ProcessPoolExecutor(options.processes, multiprocessing.get_context("spawn")) as pool:
        waiting = [pool.submit(share, options.seed, themes, options.keep, numbers) for numbers in shares]
        for done, work in enumerate(as_completed(waiting), 1):
            for each in work.result():
                counts.update(
                    programs=1, events=each.events, runs=each.runs, calls=each.calls, different=bool(each.faults)
                )
                counts[each.ended] += 1
                if each.faults:
                    print(_told(each, options.seed), flush=True)
            if done % 10 == 0 or done == len(shares):
                told = ", ".join(f"{what} {count:,}" for what, count in sorted(counts.items()))
                print(f"{time.monotonic() - started:.0f} s: {told}", flush=True)
    return 1 if counts["different"] else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="replays", description="See the file's docstring.")
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--theme", choices=THEMES)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--show", type=int)
    parser.add_argument("--keep", action="store_true")
    return parser.parse_args()


def _told(checked: Checked, seed: int) -> str:
    program = checked.program
    head = f"\n=== program {checked.number} of seed {seed} ==="
    return "\n".join([head, *checked.faults, "-----", program.source, f"inputs: {program.inputs}"])


if __name__ == "__main__":
    sys.exit(main())
