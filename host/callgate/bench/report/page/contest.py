"""The table of one workload: what every contestant did, and how that compares with direct calls."""

from __future__ import annotations

from collections.abc import Sequence

from callgate.bench.report.cell_words import ended
from callgate.bench.report.held import Held, held
from callgate.bench.report.verdicts import Verdict
from callgate.bench.results import Cell, Entry, Results, Task

from .markup import Element, el, foreign, table
from .overview import grouped
from .texts import beside, brief, capital, duration, many, size, spread, whole

__all__ = ["OUTCOMES", "contest", "notes"]

OUTCOMES = {
    "right": ("✓ right", "good"),
    "wrong": ("✗ wrong", "bad"),
    "failed": ("✗ failed", "bad"),
    "cannot": ("– cannot", "warn"),
    "not tried": ("– not tried", "muted"),
    "not measured": ("… not measured", "muted"),
}
_LONGEST = 400
"""Characters of a reason or note."""
_FIGURES = (
    ("Wall time, p50", "narrow"), ("Model", ""), ("Tools", ""), ("Overhead", ""), ("Turns", ""), ("Tokens in", ""),
    ("Tokens out", ""), ("Calls", ""), ("Tools at once", ""), ("Peak memory", ""),
)  # fmt: skip


def contest(results: Results, task: Task, verdict: Verdict | None) -> Element:
    """The table.

    Args:
        results: of the run.
        task: the workload.
        verdict: on it; its direct calls are what others are held against.
    """
    base = verdict.direct if verdict else None
    stands = results.cell(task.name, base.name) if base else None
    heads = [el("th", "Contestant", scope="col", class_="first text"), el("th", "Answer", scope="col", class_="text")]
    heads += [el("th", name, scope="col", class_=class_ or "plain") for name, class_ in _FIGURES]
    if base:
        heads.insert(3, el("th", f"Beside {base.title}", scope="col", class_="narrow"))
    bodies = []
    for name, members in grouped(each for each in results.entries if not each.failure):
        rows = [el("tr", el("th", name, scope="rowgroup", colspan=len(heads)), class_="group")]
        for entry in members:
            cell = results.cell(task.name, entry.name)
            rows.append(_row(entry, cell or Cell(workload=task.name, contestant=entry.name, outcome="not measured"),
                             base, stands, len(heads)))  # fmt: skip
        bodies.append(el("tbody", *rows))
    return table(f"{capital(task.title)}: all contestants", heads, *bodies, class_="contest")


def _row(entry: Entry, cell: Cell, base: Entry | None, stands: Cell | None, columns: int) -> Element:
    word, class_ = OUTCOMES[ended(cell)]
    head, answer = el("th", foreign(entry.title), scope="row", class_="first"), el("span", word, class_=class_)
    if not cell.rounds:
        reasons = ". ".join(brief(each, _LONGEST) for each in (cell.reason, cell.note) if each)
        inside = el("div", answer, " ", el("span", foreign(reasons), class_="why"), class_="said")
        return el("tr", head, el("td", inside, colspan=columns - 1, class_="text"))
    times = el("span", many(len(cell.rounds), "round"), class_="sub")
    figures = [_figure(cell, name) for name in ("wall_seconds", "model_seconds", "tool_seconds", "overhead_seconds")]
    if base and stands:
        apart = entry.name != base.name and cell.outcome == "right"
        figures.insert(1, _compared(held(cell, stands, lambda each: each.wall_seconds) if apart else None))
    return el("tr", head, el("td", answer, times, class_="text number"), *figures, *_counts(cell))


def _figure(cell: Cell, name: str) -> Element:
    middle = duration(cell.figure(name).p50)
    around = spread(cell, name) if name in ("wall_seconds", "overhead_seconds") else ""
    if not around:
        return el("td", middle, class_="number")
    return el("td", middle, el("span", around, class_="sub"), class_="number")


def _compared(told: Held | None) -> Element:
    if told is None:
        return el("td", "–", class_="number")
    if told.says == "same":
        return el("td", "no difference", class_="muted")
    return el("td", beside(told.ratio), class_="number")


def _counts(cell: Cell) -> list[Element]:
    return [
        el("td", whole(cell.median("turns")), class_="number"),
        *(_tokens(cell.median(name)) for name in ("input_tokens", "output_tokens")),
        el("td", whole(cell.median("calls")), class_="number"),
        el("td", whole(cell.median("concurrency")), el("span", f"mean {cell.median('busy'):.3g}", class_="sub")),
        el("td", size(cell.peak_bytes) or "not measured", class_="number" if cell.peak_bytes else "muted"),
    ]


def _tokens(count: float) -> Element:
    return el("td", whole(count), class_="number") if count else el("td", "not counted", class_="muted")


def notes(pairs: Sequence[tuple[Entry, Cell]]) -> list[Element]:
    """What has to be known of contestants that have figures; those of whom the same is said, together."""
    told: dict[str, list[str]] = {}
    for entry, cell in pairs:
        for said in dict.fromkeys((cell.reason, cell.note)):
            if said and cell.rounds:
                told.setdefault(brief(said, _LONGEST), []).append(entry.title)
    if not told:
        return []
    items = (el("li", el("strong", foreign("; ".join(names))), ": ", foreign(said)) for said, names in told.items())
    return [el("h3", "Notes"), el("ul", *items, class_="left-out")]
