"""The page's begin: what came of the run, when and where it was made, with which model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from callgate.bench.figures import Figure
from callgate.bench.report.headline import headline
from callgate.bench.report.verdicts import Verdict, Winner
from callgate.bench.results import ModelUsed, Results, Task

from .markup import Child, Element, el, foreign
from .texts import brief, capital, duration, many, sentence, whole

__all__ = ["anchors", "circumstances", "contents", "judged", "top"]

_WINNERS: dict[Winner, str] = {
    "callgate": "callgate wins", "direct calls": "direct calls win", "mixed": "mixed", "neither": "no difference",
    "nobody": "no right answer", "not tried": "direct calls not tried",
    "unknown": "one side not measured",
}  # fmt: skip
_WIRES = {"openai": "OpenAI", "anthropic": "Anthropic"}


def anchors(tasks: Sequence[Task]) -> list[str]:
    """An id for the section of each workload; no two are the same."""
    found: list[str] = []
    for place, task in enumerate(tasks):
        name = f"workload-{re.sub(r'[^a-z0-9]+', '-', task.name.lower()).strip('-')}"
        found.append(f"{name}-{place}" if name in found else name)
    return found


def top(results: Results) -> Element:
    """Title, warnings, and the most important sentences."""
    inside: list[Element] = []
    if results.interrupted:
        inside.append(_box("alarm", "Interrupted. ", f"This run is not whole: {results.interrupted}. ", _left(results)))
    said = replace(headline(results), interrupted="", model="").sentences if results.cells else []
    what = "Which mode pays: direct tool calls, plans or programs" if results.cells else "callgate, measured"
    inside += [
        el("p", f"callgate bench · {_day(results.made)} · {results.sizes}", class_="eyebrow"),
        el("h1", what),
    ]
    inside += [el("p", sentence(each), class_="lede") for each in said[:1]]
    if said[1:]:
        inside.append(el("ul", *(el("li", sentence(each)) for each in said[1:])))
    if results.model is not None:
        inside.append(_model(results.model))
    inside.append(el("p", "Measured on ", foreign(results.machine), ".", class_="muted"))
    return el("header", *inside, class_="top")


def _left(results: Results) -> str:
    missing = sum(each.outcome == "not measured" for each in results.cells)
    if not missing:
        return "What is below was measured before."
    return f"{many(missing, 'pair')} of workload and contestant {'was' if missing == 1 else 'were'} not measured."


def _box(class_: str, head: str, *said: str) -> Element:
    return el("div", el("strong", head), *(foreign(text) for text in said), class_=class_, role="note")


def _model(model: ModelUsed) -> Element:
    if not model.simulated:
        return _box("label-box", "Real model. ", f"{model.name}. Its time and its tokens are the provider's figures.")
    waits = f"{duration(model.turn_seconds)} a turn and {duration(model.token_seconds)} an output token"
    return _box(
        "label-box",
        "Simulated model. ",
        "A script behind a real HTTP endpoint played the model and made no mistakes. Turns and tokens are counted from "
        f"real requests; its waits are settings: {waits}. With a real model, times and tokens will be different, and "
        "who wins may be, too.",
    )


def _day(made: str) -> str:
    try:
        found = datetime.fromisoformat(made)
    except ValueError:
        return made
    if found.tzinfo is not None:
        found = found.astimezone(UTC)
    return f"{found:%Y-%m-%d, %H:%M} UTC" if "T" in made else made


def circumstances(results: Results) -> Element:
    """When, where, with what."""
    told: list[tuple[str, str]] = [("Command", results.command), ("Began", _day(results.made))]
    if results.model is not None:
        told.append(("Model", _described(results.model)))
    told += [("Machine", results.machine), ("Sandbox", results.sandbox)]
    told.append(("Load average", f"{results.load} before, {results.load_after or 'unknown'} after (1, 5, 15 minutes)"))
    if results.yardstick.seconds:
        figure = Figure.of(results.yardstick.seconds)
        told.append(
            (
                "Steadiness",
                f"one piece of work, done {many(figure.count, 'time')} during the run, took {duration(figure.p50)} "
                f"(p50; {duration(figure.p10)} to {duration(figure.p90)} from p10 to p90)",
            )
        )
    pairs: list[Child] = []
    for name, value in told:
        if value:
            inside = el("code", value) if name == "Command" else foreign(value)
            pairs += [el("dt", name), el("dd", inside)]
    return el("section", el("h2", "The run"), el("dl", *pairs, class_="facts"), id="run")


def _described(model: ModelUsed) -> str:
    parts = [f"{'simulated' if model.simulated else 'real'}: {model.name}"]
    parts.append(f"{_WIRES.get(model.wire, model.wire)} wire format")
    if model.endpoint:
        parts.append(f"at {model.endpoint}")
    if model.simulated:
        parts.append(f"waits {duration(model.turn_seconds)} a turn, {duration(model.token_seconds)} an output token")
    if model.context_tokens:
        parts.append(f"refuses input of more than {whole(model.context_tokens)} tokens")
    parts.append(f"tokens counted by {model.tokenizer}")
    return "; ".join(parts)


def contents(results: Results) -> Element:
    """Links to the sections."""
    links = [(f"#{name}", task.title) for name, task in zip(anchors(results.tasks), results.tasks, strict=True)]
    if results.tasks:
        beside = [("#overview", "All workloads")] if len(results.tasks) > 1 else []
        judged_too = [("#verdicts", "Verdicts")] if results.cells else []
        links = [*judged_too, ("#run", "The run"), *beside, *links]
    if results.rows:
        links.append(("#single", "Single measurements"))
    if results.entries:
        links.append(("#contestants", "Contestants"))
    links.append(("#reading", "How to read this"))
    items = (el("li", el("a", brief(capital(said), 60), href=where)) for where, said in links)
    return el("nav", el("ul", *items), aria_label="Sections")


def judged(results: Results, verdicts: Sequence[Verdict]) -> Element:
    """The verdict of each workload."""
    places = {task.name: (task, name) for task, name in zip(results.tasks, anchors(results.tasks), strict=True)}
    items = []
    for each in verdicts:
        task, name = places[each.workload]
        won = el("span", _WINNERS[each.winner], class_="tag ours" if each.winner == "callgate" else "tag")
        link = el("a", capital(task.title), href=f"#{name}")
        side = el("div", el("div", link), won, class_="side")
        lines = [side, el("p", foreign(sentence(each.text)), class_="says")]
        lines += [el("p", foreign(text), class_="figures") for text in _figures(results, each)]
        items.append(el("li", *lines))
    return el(
        "section",
        el("h2", "Verdicts"),
        el(
            "p",
            "Who wins is about callgate's modes beside direct calls. Beside peers, like is held against like.",
            class_="muted",
        ),
        el("div", el("ol", *items, class_="verdicts"), class_="card"),
        id="verdicts",
    )


def _figures(results: Results, verdict: Verdict) -> list[str]:
    told = []
    for entry in (verdict.direct, verdict.mode):
        cell = entry and results.cell(verdict.workload, entry.name)
        if entry and cell:
            turns = int(cell.median("turns"))
            tokens = cell.median("input_tokens") + cell.median("output_tokens")
            counted = f"{whole(tokens)} tokens" if tokens else "tokens not counted"
            told.append(f"{entry.title}: {duration(cell.figure('wall_seconds').p50)}, {many(turns, 'turn')}, {counted}")
    lines = [" · ".join(told)] if told else []
    return [*lines, *(sentence(f"Beside peers, {each}") for each in verdict.peer_texts)]
