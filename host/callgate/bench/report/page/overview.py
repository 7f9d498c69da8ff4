"""All workloads beside each other: two plots, and a table of everyone's wall time."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from callgate.bench.report.cell_words import ended
from callgate.bench.results import Cell, Entry, Results, Task

from .dots import Dot, Lanes, dot_swatch, dots
from .drawing import legend
from .markup import Element, el, foreign, table
from .scale import Log
from .texts import amount, brief, capital, duration

__all__ = ["GROUPS", "grouped", "overview", "wall", "whole_tokens"]

GROUPS = ((True, "callgate's modes"), (False, "peers"))
_MODES = {"direct": "direct calls", "plan": "plan", "code": "program"}


def wall(cell: Cell) -> float:
    """Seconds, p50."""
    return cell.figure("wall_seconds").p50


def whole_tokens(cell: Cell) -> float:
    """Input and output, p50 of each."""
    return cell.median("input_tokens") + cell.median("output_tokens")


def grouped(entries: Iterable[Entry]) -> list[tuple[str, list[Entry]]]:
    """callgate's modes, then the peers; without those groups that have nobody."""
    all_of_them = list(entries)
    found = [(name, [each for each in all_of_them if each.ours == ours]) for ours, name in GROUPS]
    return [(name, members) for name, members in found if members]


def overview(results: Results) -> Element:
    """The section."""
    plots = [
        _plot(results, "overview-wall", "Wall time", "p50; logarithmic scale", wall, duration),
        _plot(results, "overview-tokens", "Tokens, in and out", "p50; logarithmic scale", whole_tokens, amount),
    ]
    shown = [plot for plot in plots if plot is not None]
    inside: list[Element] = [el("h2", "All workloads")]
    if shown:
        items = [(dot_swatch(mode, ours=True), _MODES[mode]) for mode in _MODES]
        items.append((dot_swatch("code", ours=False), "small and hollow: a peer"))
        figure = el(
            "figure",
            el(
                "figcaption",
                "Further left is better. ",
                el("span", "Only right answers are shown. "),
                el("span", "At the right: the least of callgate's modes.", class_="beside"),
            ),
            legend(items),
            el("div", *shown, class_="panels two"),
            class_="card",
        )
        inside.append(figure)
    inside.append(_matrix(results))
    return el("section", *inside, id="overview")


def _plot(
    results: Results, name: str, title: str, how: str, of: Callable[[Cell], float], said: Callable[[float], str]
) -> Element | None:
    rows = [_lanes(results, task, of, said) for task in results.tasks]
    scale = Log.over(dot.value for row in rows for dot in row.dots)
    if scale is None:
        return None
    head = el("h3", f"{title} ", el("span", how))
    return el("div", head, dots(name, f"{title} of all workloads, {how}", rows, scale, said), class_="panel")


def _lanes(results: Results, task: Task, of: Callable[[Cell], float], said: Callable[[float], str]) -> Lanes:
    pairs = [(entry, results.cell(task.name, entry.name)) for entry in results.entries]
    right = [(entry, of(cell)) for entry, cell in pairs if cell and cell.outcome == "right" and cell.rounds]
    marks = tuple(
        Dot(mode=entry.mode, ours=entry.ours, value=value, said=f"{brief(entry.title, 40)} {said(value)}")
        for entry, value in right
    )
    ours = [(value, entry.title) for entry, value in right if entry.ours]
    least = min(ours, key=lambda pair: pair[0], default=None)
    span = f"{brief(least[1], 28)}, {said(least[0])}" if least else "no right answer"
    return Lanes(label=capital(task.title), dots=marks, said=span)


def _matrix(results: Results) -> Element:
    heads = [el("th", "p50 of wall time", scope="col", class_="first text")]
    heads += [el("th", capital(task.title), scope="col") for task in results.tasks]
    bodies = []
    for name, members in grouped(each for each in results.entries if not each.failure):
        rows = [el("tr", el("th", name, scope="rowgroup", colspan=len(heads)), class_="group")]
        for entry in members:
            cells = [_time(results.cell(task.name, entry.name)) for task in results.tasks]
            head = el("th", foreign(entry.title), scope="row", class_="first")
            rows.append(el("tr", head, *cells))
        bodies.append(el("tbody", *rows))
    return table("Wall time of everyone in every workload", heads, *bodies, class_="matrix")


def _time(cell: Cell | None) -> Element:
    if cell is None:
        return el("td", "not measured", class_="muted")
    if cell.outcome != "right" or not cell.rounds:
        return el("td", ended(cell), class_="bad" if cell.outcome in ("wrong", "failed") else "muted")
    return el("td", duration(wall(cell)), class_="number")
