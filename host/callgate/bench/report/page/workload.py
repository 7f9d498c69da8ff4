"""The section of one workload: what it is, its verdict, its plots, its table."""

from __future__ import annotations

from callgate.bench.report.cell_words import ended
from callgate.bench.report.verdicts import Verdict
from callgate.bench.results import Cell, Entry, Results, Task

from .bars import Bar, bar_swatch, bars
from .contest import OUTCOMES, contest, notes
from .drawing import legend
from .markup import Child, Element, el, foreign
from .overview import wall, whole_tokens
from .points import Point, points
from .scale import Linear, Log
from .texts import amount, capital, duration, sentence

__all__ = ["workload"]

_PARTS = (("model", "model_seconds"), ("tools", "tool_seconds"), ("overhead", "overhead_seconds"))
_TOKENS = (("input", "input_tokens"), ("output", "output_tokens"))
_LEGEND = (
    ("model", "waiting for the model"), ("tools", "tools at work"), ("overhead", "overhead of the runtime"),
    ("whisker", "from p10 to p90"), ("input", "input tokens"), ("output", "output tokens"),
)  # fmt: skip

Pair = tuple[Entry, Cell]


def workload(results: Results, task: Task, verdict: Verdict | None, name: str) -> Element:
    """The section.

    Args:
        results: of the run.
        task: the workload.
        verdict: on it; None where it was not begun.
        name: the section's id.
    """
    inside: list[Element] = [el("h2", capital(task.title))]
    said = sentence(verdict.text) if verdict else "Not measured."
    inside.append(el("p", foreign(said), class_="verdict"))
    inside.append(_described(task))
    pairs = [(entry, cell) for entry in results.entries if (cell := results.cell(task.name, entry.name))]
    right = sorted(
        ((entry, cell) for entry, cell in pairs if cell.outcome == "right" and cell.rounds),
        key=lambda pair: wall(pair[1]),
    )
    if right:
        inside.append(_plots(right, name))
    elif pairs:
        inside.append(el("p", "Nothing to plot: nobody has a right answer.", class_="left-out"))
    left = [f"{entry.title} ({ended(cell)})" for entry, cell in pairs if cell.outcome != "right"]
    if left and right:
        inside.append(el("p", "Not in the plots: ", foreign(", ".join(left)), ".", class_="left-out"))
    if pairs:
        inside.append(contest(results, task, verdict))
        inside += notes(pairs)
    inside += _answers(pairs)
    return el("section", *inside, id=name)


def _described(task: Task) -> Element:
    told = [("What it shows", task.about), ("Data and tools", task.data), ("Task", task.task), ("To know", task.note)]
    pairs: list[Child] = []
    for head, said in told:
        if said:
            pairs += [el("dt", head), el("dd", foreign(said))]
    return el("dl", *pairs, class_="brief")


def _plots(right: list[Pair], name: str) -> Element:
    panels: list[Element | None] = [
        _panel("Wall time", "p50, linear", _walls(right, f"{name}-wall")),
        _panel("Where it goes", "shares", _shares(right, f"{name}-shares"), "panel shares"),
        _overhead(right, f"{name}-overhead"),
        _panel("Tokens", "p50, linear", _tokens(right, f"{name}-tokens")),
    ]
    return el(
        "figure",
        el("figcaption", "Shorter is better. ", el("span", "The fastest is at the top; bold: callgate's modes.")),
        legend([(bar_swatch(kind), said) for kind, said in _LEGEND]),
        el("div", *(each for each in panels if each is not None), class_="panels many"),
        class_="card",
    )


def _panel(head: str, how: str, plot: Element, class_: str = "panel") -> Element:
    return el("div", el("h3", f"{head} ", el("span", how)), plot, class_=class_)


def _walls(right: list[Pair], name: str) -> Element:
    rows = []
    for entry, cell in right:
        figure, medians = cell.figure("wall_seconds"), _medians(cell)
        # medians of parts do not add up to the median of the whole: they share it
        share = figure.p50 / sum(medians) if sum(medians) else 0.0
        parts = tuple((kind, share * value) for (kind, _), value in zip(_PARTS, medians, strict=True))
        rows.append(
            Bar(
                label=entry.title, ours=entry.ours, parts=parts, said=duration(figure.p50), low=figure.p10,
                high=figure.p90,
            )
        )  # fmt: skip
    scale = Linear(max(max(row.high, sum(value for _, value in row.parts)) for row in rows))
    return bars(name, "Wall time, split into model, tools and overhead", rows, scale, duration)


def _medians(cell: Cell) -> list[float]:
    return [cell.figure(field).p50 for _, field in _PARTS]


def _shares(right: list[Pair], name: str) -> Element:
    rows = []
    for entry, cell in right:
        medians = _medians(cell)
        whole = sum(medians) or 1.0
        parts = tuple((kind, 100 * value / whole) for (kind, _), value in zip(_PARTS, medians, strict=True))
        said = f"tools {100 * medians[1] / whole:.0f} %"
        rows.append(Bar(label=entry.title, ours=entry.ours, parts=parts, said=said))
    title = "Shares of model, tools and overhead in wall time"
    return bars(name, title, rows, Linear(100), lambda value: f"{value:g} %", class_="again")


def _overhead(right: list[Pair], name: str) -> Element | None:
    rows = []
    for entry, cell in right:
        figure = cell.figure("overhead_seconds")
        rows.append(
            Point(
                label=entry.title, ours=entry.ours, value=figure.p50, said=duration(figure.p50), low=figure.p10,
                high=figure.p90,
            )
        )  # fmt: skip
    scale = Log.over(value for row in rows for value in (row.low, row.value, row.high))
    if scale is None:
        return None
    plot = points(name, "Overhead of the runtime", rows, scale, duration, class_="again")
    return _panel("Overhead", "p50, logarithmic", plot)


def _tokens(right: list[Pair], name: str) -> Element:
    rows = []
    for entry, cell in right:
        parts = tuple((kind, cell.median(field)) for kind, field in _TOKENS)
        count = whole_tokens(cell)
        said = amount(count) if count else "not counted"
        rows.append(Bar(label=entry.title, ours=entry.ours, parts=parts, said=said))
    scale = Linear(max(sum(value for _, value in row.parts) for row in rows))
    return bars(name, "Tokens, input and output", rows, scale, amount, class_="again")


def _answers(pairs: list[Pair]) -> list[Element]:
    said = [(entry, cell) for entry, cell in pairs if cell.answer]
    if not said:
        return []
    lines: list[Child] = []
    for entry, cell in said:
        word, class_ = OUTCOMES[ended(cell)]
        lines += [
            el("dt", foreign(entry.title), " ", el("span", word, class_=class_)),
            el("dd", foreign(cell.answer)),
        ]
    return [el("details", el("summary", "The model's last words, by contestant"), el("dl", *lines, class_="brief"))]
