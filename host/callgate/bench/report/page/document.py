"""The page as a whole."""

from __future__ import annotations

from callgate.bench.report.verdicts import verdicts
from callgate.bench.results import Results

from .drawing import patterns
from .markup import Element, document, el
from .overview import overview
from .reading import reading
from .single import contestants, single
from .style import sheet
from .texts import brief
from .top import anchors, circumstances, contents, judged, top
from .workload import workload

__all__ = ["render"]

_NOTHING_FROM_OUTSIDE = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def render(results: Results) -> str:
    """The report as one HTML document: no scripts, nothing from outside, the same text for the same results."""
    found = {each.workload: each for each in verdicts(results)}
    sections: list[Element] = []
    if found:
        sections.append(judged(results, tuple(found.values())))
    sections.append(circumstances(results))
    if len(results.tasks) > 1:
        sections.append(overview(results))
    for task, name in zip(results.tasks, anchors(results.tasks), strict=True):
        sections.append(workload(results, task, found.get(task.name), name))
    if results.rows:
        sections.append(single(results.rows))
    if results.entries:
        sections.append(contestants(results))
    body = el(
        "body",
        patterns(),
        top(results),
        el("main", contents(results), *sections, reading(results)),
        el("footer", el("p", f"Made by {brief(results.command, 200)}."), class_="foot"),
    )
    return document(el("html", _head(results), body, lang="en"))


def _head(results: Results) -> Element:
    state = " (interrupted)" if results.interrupted else ""
    style = el("style")
    style.text = sheet()
    return el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", http_equiv="Content-Security-Policy", content=_NOTHING_FROM_OUTSIDE),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("title", f"callgate bench, {brief(results.made, 40)}{state}"),
        style,
    )
