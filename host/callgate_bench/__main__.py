"""``python -m callgate_bench``: measure whichever callgate is importable, and write results.json; nothing is shown.

`callgate bench` does more, with the command line of its own checkout. This one is for measuring another checkout: with
PYTHONPATH naming that one's ``host`` and ``sandbox_image``, and a folder that has this package.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from callgate_bench import whole_run
from callgate_bench.results import write
from callgate_bench.singles.measures import MEASURES
from callgate_bench.workloads import WORKLOADS

__all__ = ["main"]


def main() -> None:
    """Read the arguments, measure, write."""
    parser = argparse.ArgumentParser(prog="python -m callgate_bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, a faster model")
    parser.add_argument("--only", action="append", choices=[*WORKLOADS, *MEASURES], help="may be repeated")
    parser.add_argument("--modes", help="callgate's modes, with commas between; all by default")
    parser.add_argument("--peers", default="", help="peers, with commas between; none by default")
    parser.add_argument("out", type=Path, help="the file for the results")
    given = parser.parse_args()
    base = whole_run.QUICK_RUN if given.quick else whole_run.FULL_RUN
    only = set(given.only or (*WORKLOADS, *MEASURES))
    asked = replace(
        base,
        workloads=tuple(name for name in WORKLOADS if name in only),
        measures=tuple(name for name in MEASURES if name in only),
        modes=tuple(given.modes.split(",")) if given.modes else base.modes,
        peers=tuple(name for name in base.peers if name in given.peers.split(",")),
        command=f"python -m callgate_bench {' '.join(sys.argv[1:-1])}",
    )
    results = whole_run.begin(asked)

    whole_run.run(asked, results, lambda doing: print(doing, file=sys.stderr), lambda: write(results, given.out))


if __name__ == "__main__":
    main()
