"""Hold the figures of this commit against those of the base, as a page."""

from __future__ import annotations

from math import sqrt
from typing import Any

from requirements import Requirement
from rooms import COMPARISON

POINTS = 1.0
"""A room's branch coverage may fall by so many points."""
Figures = dict[str, Any]


def report(base: Figures, now: Figures, table: list[Requirement], faults: list[str]) -> tuple[str, list[str]]:
    """The page, and what has fallen.

    Args:
        base: ``coverage`` and ``mutation`` of the base.
        now: the same of this commit, and ``comparison``.
        table: behaviours and their tests.
        faults: what is wrong with the table.
    """
    fallen: list[str] = []
    found = coverage_lines(base["coverage"], now["coverage"], fallen)
    found += mutation_lines(base["mutation"], now["mutation"], fallen)
    found += comparison_lines(now["comparison"], fallen)
    found += ["", "## Behaviours that a user can see", "", f"{len(table)} rows in `guard/requirements.toml`."]
    fallen += faults
    commits = f"Base: {base['coverage']['commit']}. Now: {now['coverage']['commit']}. Written by `make guard`."
    verdict = ["**Fallen:**", "", *(f"- {each}" for each in fallen)] if fallen else ["**Nothing has fallen.**"]
    return "\n".join(["# What the guard found", "", commits, "", *verdict, *found, ""]), fallen


def coverage_lines(base: Figures, now: Figures, fallen: list[str]) -> list[str]:
    lines = ["", "## Branch coverage", "", "| room | before | now | |", "|---|---|---|---|"]
    for room in sorted({*base["rooms"], *now["rooms"]}):
        before, after = base["rooms"].get(room), now["rooms"].get(room)
        note = "new" if before is None else "gone"
        if before and after:
            change = after["percent"] - before["percent"]
            note = f"{change:+.2f}" if room != COMPARISON else f"{change:+.2f}, not held"
            if change < -POINTS and room != COMPARISON:
                fallen.append(f"branch coverage of {room}: {before['percent']} → {after['percent']} %")
        lines.append(f"| {room} | {_share(before)} | {_share(after)} | {note} |")
    return [*lines, "", f"Tests: {_tests(base)} before; {_tests(now)} now."]


def _share(room: dict[str, float] | None) -> str:
    return f"{room['percent']} % of {room['num_branches']:,}" if room else ""


def _tests(figures: Figures) -> str:
    return ", ".join(f"{figures['tests'].get(each, 0):,} {each}" for each in ("passed", "skipped", "failed"))


def mutation_lines(base: Figures, now: Figures, fallen: list[str]) -> list[str]:
    """A room has to kill as many as before; where mutants had to be replaced, up to one standard error fewer."""
    lines = [
        "",
        "## Mutants",
        "",
        "| room | killed before | killed now | replaced | allowed |",
        "|---|---|---|---|---|",
    ]
    for room, before in base["rooms"].items():
        after = now["rooms"].get(room, {"killed": 0, "tried": 0})
        replaced = sum(key.startswith(f"{room} | ") and key not in base["mutants"] for key in now["mutants"])
        rate = before["killed"] / before["tried"]
        allowed = sqrt(replaced * rate * (1 - rate))
        if after["tried"] < before["tried"] or after["killed"] < before["killed"] - allowed:
            fallen.append(f"kills in {room}: {_kills(before)} → {_kills(after)}")
        lines.append(f"| {room} | {_kills(before)} | {_kills(after)} | {replaced} | {allowed:.1f} fewer |")
    lost = [key for key, killer in now["mutants"].items() if killer is None and base["mutants"].get(key)]
    lines += ["", f"Mutants that a test noticed before and none notices now: {len(lost)}.", ""]
    return [*lines, *(f"- `{key}` (before: `{base['mutants'][key]}`)" for key in lost)]


def _kills(room: dict[str, int]) -> str:
    return f"{room['killed']} of {room['tried']}"


def comparison_lines(comparison: Figures, fallen: list[str]) -> list[str]:
    lines = ["", f"## The comparison, in alternation with the callgate of {comparison['commit']}", ""]
    lines += ["| p50 | before | now | ratio |", "|---|---|---|---|"]
    for name, thing in comparison["things"].items():
        if thing["slower"]:
            fallen.append(f"slower: {name}, {thing['ratio']} ×")
        lines.append(
            f"| {name} | {1e3 * thing['base']:.3g} ms | {1e3 * thing['now']:.3g} ms | {thing['ratio']:.2f} × |"
        )
    return lines
