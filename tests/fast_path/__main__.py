"""A longer run, on demand: ``PYTHONPATH=tests python -m fast_path --programs 20000 --seed 1``.

Unlike the tests it draws programs by plain chance, which gives more variety than hypothesis does, and goes on after a
difference. Each one is made smaller and printed, with both results. Ends with 1 if there was any.

  --theme NAME     only programs of this theme (see `programs.THEMES`)
  --at-once N      so many programs at the same time
  --first N        begin with the Nth program
  --show N         print the Nth program and what came of it, and nothing else
  --reasons        which constructs kept programs from the fast path, and how often
  --ignore REGEX   say nothing of differences like this
  --keep           do not make programs smaller
"""

from __future__ import annotations

import argparse
import collections
import random
import re
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from fast_path.paths import Outcome, Paths, differences, open_paths
from fast_path.programs import THEMES, Program, write
from fast_path.reduction import reduced

MOST_CHARACTERS = 2000
OTHERS = 5
"""Of the programs that are no graph, one of so many is run."""


@dataclass(frozen=True)
class Run:
    """A program that was drawn, and what came of it."""

    number: int
    theme: str
    program: Program
    graph: bool
    outcomes: tuple[Outcome, ...] = ()
    found: tuple[str, ...] = ()

    @property
    def what(self) -> str:
        if not self.graph:
            return "no graph"
        result = self.outcomes[0].result
        return f"{'ended well' if result.ok else 'failed'}, by the {result.path}"


def main() -> int:
    options = _options()
    themes = [options.theme] if options.theme else list(THEMES)
    counts: collections.Counter[str] = collections.Counter()
    reasons: collections.Counter[str] = collections.Counter()
    started = time.monotonic()
    with open_paths() as paths, ThreadPoolExecutor(options.at_once) as threads:

        def run(number: int) -> Run:
            theme = themes[number % len(themes)]
            program = write(random.Random(f"{options.seed} {number}").randrange, theme)
            graph = paths.is_graph(program)
            if not graph and number % OTHERS and options.show is None and options.path != "written":
                return Run(number, theme, program, graph)
            fast, sandbox, found = paths.compare(program, options.path)
            return Run(number, theme, program, graph, (fast, sandbox), tuple(found))

        if options.show is not None:
            shown = run(options.show)
            _show(shown.program, *shown.outcomes)
            return 1 if shown.found else 0
        for done, each in enumerate(threads.map(run, range(options.first, options.first + options.programs)), 1):
            counts.update([each.what, f"{each.theme}: {each.what}"])
            if each.outcomes:
                result = each.outcomes[0].result
                began = [*result.calls, *result.speculative]
                counts["calls"] += len(result.calls)
                counts["calls that began early"] += sum(call.early for call in began)
                counts["calls for nothing"] += len(result.speculative)
            if not each.graph:
                reasons[paths.reason(each.program)] += 1
            if each.found and not (options.ignore and re.search(options.ignore, "\n".join(each.found))):
                counts["different"] += 1
                print(
                    f"\n=== program {each.number} of seed {options.seed} ({each.theme}) ===",
                    *_cut(each.found),
                    sep="\n",
                )
                _show(each.program, *each.outcomes) if options.keep else _show_smaller(paths, each, options.path)
            if done % 500 == 0:
                print(f"{done} in {time.monotonic() - started:.0f} s: {_summary(counts)}", flush=True)
    for what in sorted(counts):
        print(f"{counts[what]:6}  {what}")
    for reason, count in reasons.most_common(60) if options.reasons else ():
        print(f"{count:6}  {reason}")
    return 1 if counts["different"] else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="fast_path", description="See the file's docstring.")
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--theme", choices=list(THEMES))
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--show", type=int)
    parser.add_argument("--path", choices=["auto", "written", "sandbox"], default="auto")
    parser.add_argument("--reasons", action="store_true")
    parser.add_argument("--ignore")
    parser.add_argument("--keep", action="store_true")
    return parser.parse_args()


def _cut(texts: Iterable[str]) -> list[str]:
    return [text if len(text) < MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}..." for text in texts]


def _summary(counts: collections.Counter[str]) -> str:
    return ", ".join(f"{what} {count}" for what, count in sorted(counts.items()) if ": " not in what)


def _show_smaller(paths: Paths, run: Run, path: str) -> None:
    """Print a smaller program with the same difference, as far as its first words tell."""
    what = run.found[0].partition(":")[0]

    def shows(source: str) -> bool:
        found = paths.compare(Program(source, run.program.inputs), path)[2]
        return what in [line.partition(":")[0] for line in found]

    if not shows(run.program.source):
        print("(not every time)")
        _show(run.program, *run.outcomes)
        return
    smaller = Program(reduced(run.program.source, shows), run.program.inputs)
    _show(smaller, *paths.compare(smaller, path)[:2])


def _show(program: Program, *outcomes: Outcome) -> None:
    print("-----", program.source, f"inputs: {program.inputs}", sep="\n")
    for outcome in outcomes:
        result = outcome.result
        print(
            f"--- {result.path}: ok={result.ok} value={result.value!r} {result.value_repr!r}\n    logs {result.logs!r}"
        )
        for name, calls in (("calls", result.calls), ("speculative", result.speculative)):
            if calls:
                print(*_cut([f"    {name} {[(call.tool, call.arguments, call.status) for call in calls]}"]))
        if result.error is not None:
            print(f"    {result.error.kind}, line {result.error.line}: {result.error.message!r}")
            print("    " + result.error.traceback.replace("\n", "\n    "))
    print("   ", *_cut(differences(*outcomes)), sep="\n    ")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
