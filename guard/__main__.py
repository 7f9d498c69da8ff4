"""The guard for what is taken away: ``python guard [PART ...]``, in the root of the project.

  coverage    branch coverage per room, from the quick tests
  mutation    500 small faults: how many do the tests notice? (after coverage)
  comparison  the present comparison against the callgate of the base and of this checkout, in alternation
  report      everything against guard/base/*.json: writes guard/report.md; exit code 1 where something has fallen

Each part keeps what it has done in build/guard/COMMIT/ and goes on from there. ``--base CHECKOUT`` measures another
checkout, which has its own .venv with the tests' packages and coverage, and writes guard/base/*.json. Coverage of the
sandbox and the command line is the higher by up to three points where a Docker engine runs and has the image: measure
base and change on the same machine with an engine, after `callgate image build --base host`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import comparison
import measure
import mutation
import requirements
from report import report

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "guard/base"
PARTS = ("coverage", "mutation", "comparison", "report")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; without any, all of them")
    parser.add_argument("--base", type=Path, metavar="CHECKOUT", help="measure this checkout, as the base")
    parser.add_argument(
        "--against", default="", metavar="COMMIT", help="for the comparison; otherwise the base's commit"
    )
    options = parser.parse_args()
    if wrong := set(options.parts) - set(PARTS):
        parser.error(f"there is no part {wrong.pop()!r}; there are: {', '.join(PARTS)}")
    checkout = (options.base or ROOT).resolve()
    if git("diff", "HEAD", "--", ".", ":!guard", ":!docs", checkout=checkout):
        sys.exit(f"{checkout} has changes that are not committed: commit them, for figures are kept by commit")
    commit = git("rev-parse", "--short=7", "HEAD", checkout=checkout)
    folder = ROOT / "build/guard" / commit
    out = FIGURES if options.base else folder
    for part in options.parts or PARTS:
        if part == "coverage":
            measure.run(checkout, folder)
            figures = {"commit": commit, **measure.figures(checkout, folder)}
            (out / "coverage.json").write_text(json.dumps(figures, indent=1) + "\n")
        elif part == "mutation":
            before = {} if options.base else read(FIGURES / "mutation.json")["mutants"]
            mutation.run(checkout, folder, before, out / "mutation.json")
        elif part == "comparison":
            things = comparison.run(base_checkout(options.against), folder / "comparison")
            (out / "comparison.json").write_text(json.dumps(things, indent=1) + "\n")
        else:
            return told(out)
    return 0


def told(out: Path) -> int:
    """Write the report; 1 where something has fallen."""
    base, now = ({part: read(place / f"{part}.json") for part in PARTS[:2]} for place in (FIGURES, out))
    now["comparison"] = read(out / "comparison.json")
    table = requirements.read()
    text, fallen = report(base, now, table, requirements.faults(table))
    (ROOT / "guard/report.md").write_text(text)
    print(text)
    return bool(fallen)


def read(path: Path) -> Any:
    if not path.exists():
        sys.exit(f"{path} is not there yet: run that part first, with --base CHECKOUT for guard/base")
    return json.loads(path.read_text())


def base_checkout(commit: str) -> Path:
    """A checkout of the base, whose callgate runs in this checkout's environment."""
    commit = commit or read(FIGURES / "coverage.json")["commit"]
    place = ROOT / f"build/guard/checkouts/{commit}"
    if not place.exists():
        git("worktree", "add", "--detach", str(place), commit)
    return place


def git(*words: str, checkout: Path = ROOT) -> str:
    return subprocess.run(["git", *words], cwd=checkout, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


sys.exit(main())
