"""The tables of a run as texts: made once, and drawn by the terminal, Markdown and the page. Knows no format.

The summary is one sentence, a table of ratios against every opponent, and the single things beside their targets. The
details are a table for each workload, and who took part. Everything from a contestant is made plain here: one line,
and nothing that moves a cursor or turns a line around.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Literal

from callgate_bench.figures import Figure, Row, Verdict, seconds
from callgate_bench.report.ratios import Match, Pair, Ratio, Winner, match
from callgate_bench.results import Cell, Confined, Entry, Results, Task

__all__ = ["Column", "Section", "Tone", "Value", "View", "view"]

Tone = Literal["", "better", "worse", "split"]
"""Who wins: ``better``: callgate, or a target is met. ``worse``: the opponent, or a target is missed. ``split``: one
side on time, the other on tokens, or not judged."""

_BY_WINNER: dict[Winner, tuple[str, Tone]] = {
    "callgate": ("✓ ", "better"), "opponent": ("✗ ", "worse"), "split": ("± ", "split"),
}  # fmt: skip
"""The sign before a ratio, since not everyone sees colours, and its tone."""
_BY_VERDICT: dict[Verdict, Tone] = {"met": "better", "missed": "worse", "open": "split"}
_SANDBOXED: tuple[Confined, ...] = ("kernel", "container", "language")
_HANDED_OVER = {"direct": "calls", "plan": "a plan", "code": "a program"}
_PARTS = ("model", "tool", "overhead")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        title: its heading.
        number: the column holds figures, which stand on the right.
        detail: a narrow terminal leaves the column out.
    """

    title: str
    number: bool = False
    detail: bool = False


@dataclass(frozen=True, slots=True)
class Value:
    """One field of a table.

    Attributes:
        text: what stands in it.
        tone: who wins.
        parts: lengths of a bar in percent: model, tools, own work. Empty for no bar.
    """

    text: str
    tone: Tone = ""
    parts: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """A table with a value for each column of a row, with `about` before it and `notes` after it."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Value, ...], ...]
    about: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """A run.

    Attributes:
        alarm: the run was interrupted, and why; else empty.
        sentence: what a person would quote.
        facts: name and value: when, where and with what it was measured.
        summary: the ratios, and the single things.
        details: the workloads, and who took part.
    """

    alarm: str
    sentence: str
    facts: tuple[tuple[str, str], ...]
    summary: tuple[Section, ...]
    details: tuple[Section, ...]


def view(results: Results) -> View:
    """The view of a run, also of one that was interrupted."""
    results = _plain(results)
    pairs = {task.name: _pairs(results, task) for task in results.tasks}
    tasks = [task for task in results.tasks if pairs[task.name]]
    measured = {each.contestant for each in results.cells}
    peers = [each for each in results.entries if not each.ours and each.name in measured]
    matches = {task.name: _matches(pairs[task.name], peers) for task in tasks}
    summary = [_ratios(tasks, peers, matches)] if tasks else []
    summary += [_single_things(results.rows)] if results.rows else []
    details = [_workload(task, pairs[task.name], results) for task in tasks]
    details += [_contestants(results)] if results.entries else []
    return View(
        alarm=f"The run was interrupted: {results.interrupted}." if results.interrupted else "",
        sentence=_sentence([direct for direct, *_ in matches.values()], results.rows),
        facts=tuple(_facts(results)),
        summary=tuple(summary),
        details=tuple(details),
    )


def _plain(value: Any) -> Any:
    """`value` with every string in one line, and without characters that a terminal would act on."""
    if isinstance(value, str):
        return "".join(each if each.isprintable() else "?" for each in " ".join(value.split()))
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{each.name: _plain(getattr(value, each.name)) for each in fields(value)})
    return value


def _pairs(results: Results, task: Task) -> list[Pair]:
    """The contestants of a workload with their cells."""
    pairs = [(entry, results.cell(task.name, entry.name)) for entry in results.entries]
    return [(entry, cell) for entry, cell in pairs if cell is not None]


def _matches(pairs: Sequence[Pair], peers: Sequence[Entry]) -> list[Match]:
    """Callgate's modes against direct calls, then against each peer, like beside like."""
    ours = [pair for pair in pairs if pair[0].ours and pair[0].mode != "direct"]
    found = [match(ours, [pair for pair in pairs if pair[0].ours and pair[0].mode == "direct"])]
    for peer in peers:
        sandboxed = peer.mode == "code" and peer.confined in _SANDBOXED
        alike = [pair for pair in ours if pair[0].mode == peer.mode]
        alike = [pair for pair in alike if not sandboxed or pair[0].confined in _SANDBOXED]
        found.append(match(alike, [pair for pair in pairs if pair[0] is peer]))
    return found


def _sentence(found: Sequence[Match], rows: Sequence[Row]) -> str:
    counts = [
        (words, sum(each.winner in winners for each in found))
        for words, winners in (
            ("beats direct calls in", ("callgate",)),
            ("loses in", ("opponent",)),
            ("wins on one of time and tokens and loses on the other in", ("split",)),
            ("neither wins nor loses in", ("nobody", "unknown")),
        )
    ]
    outcomes = ", ".join(f"{words} {count}" for words, count in counts if count)
    judged = [row for row in rows if row.verdict in ("met", "missed")]
    met = f"{sum(row.verdict == 'met' for row in judged)} of {len(judged)} targets are met" if judged else ""
    workloads = "1 workload" if len(found) == 1 else f"{len(found)} workloads"
    parts = [f"Of {workloads}, callgate's fastest mode {outcomes}" if outcomes else "", met]
    return f"{'; '.join(part for part in parts if part) or 'Nothing was measured'}."


def _facts(results: Results) -> Iterator[tuple[str, str]]:
    yield "made", f"{results.made}, {results.sizes}, by {results.command or 'callgate bench'}"
    yield "machine", results.machine
    yield "load average", f"{results.load} before, {results.load_after or 'unknown'} after"
    if results.sandbox:
        yield "sandbox", results.sandbox
    if results.yardstick.seconds:
        figure = Figure.of(results.yardstick.seconds)
        spread = f"{seconds(figure.p10)} to {seconds(figure.p90)}"
        yield "yardstick", f"{seconds(figure.p50)} ({spread}), {figure.count} times"
    model = results.model
    if model is not None and model.simulated:
        waits = f"{seconds(model.turn_seconds)} a turn and {seconds(model.token_seconds)} an output token"
        limit = f"refuses input beyond {model.context_tokens:,} tokens"
        yield "model", f"simulated: a script that makes no mistakes, waits {waits}, {limit}; {model.wire} format"
        yield "tokens", f"counted by {model.tokenizer} in what went over the wire"
    elif model is not None:
        yield "model", f"real: {model.name}, {model.wire} format, {model.endpoint}; tokens are the provider's count"


def _ratios(tasks: Sequence[Task], peers: Sequence[Entry], matches: dict[str, list[Match]]) -> Section:
    found = ((task.title, matches[task.name]) for task in tasks)
    return Section(
        title="Callgate beside direct calls and peers",
        about=(
            "Wall time / tokens of callgate's fastest mode, as multiples of the opponent's: below 1, callgate takes "
            "less. ✓: callgate wins. ✗: the opponent wins. ±: one wins on time, the other on tokens. No mark: no "
            "difference beyond the spread, or nothing to compare.",
            "Direct calls are the faster of one call a turn and calls in parallel. Beside a peer that takes plans "
            "stands callgate's plan, beside one that runs programs in a sandbox the faster of jail and docker, beside "
            "one without a sandbox the fastest way to run a program.",
        ),
        columns=(
            Column("workload"), Column("callgate's fastest"), Column("direct calls", number=True),
            *(Column(peer.title, number=True) for peer in peers),
        ),
        rows=tuple((Value(title), _fastest(each[0]), *map(_won, each)) for title, each in found),
    )  # fmt: skip


def _fastest(direct: Match) -> Value:
    if direct.ours is None:
        return Value("–")
    entry, cell = direct.ours
    return Value(f"{entry.name}, {seconds(cell.figure('wall_seconds').p50)}")


def _won(each: Match) -> Value:
    if each.time is not None:
        text = f"{_multiple(each.time)} / {_multiple(each.tokens)}"
    else:
        text = "callgate has no answer" if each.winner == "opponent" else each.ended or "–"
    mark, tone = _BY_WINNER.get(each.winner, ("", ""))
    return Value(f"{mark}{text}", tone)


def _multiple(ratio: Ratio | None) -> str:
    return "–" if ratio is None else f"{ratio.value:.0f}" if ratio.value >= 10 else f"{ratio.value:.2f}"


def _single_things(rows: Sequence[Row]) -> Section:
    columns = (
        Column("measure"), Column("measured"), Column("target"), Column("verdict"), Column("ratio", number=True),
        Column("peer"), Column("remarks", detail=True),
    )  # fmt: skip
    made = (
        (
            Value(row.measure), Value(row.measured), Value(row.target),
            Value(row.verdict, _BY_VERDICT.get(row.verdict, "")),
            Value("" if row.ratio is None else f"{row.ratio:.2f} ×" if row.ratio >= 0.1 else f"{row.ratio:.3f} ×"),
            Value(row.peer), Value(row.note),
        )
        for row in rows
    )  # fmt: skip
    about = (
        "p50, its p99, and in brackets the 10th to the 90th percentile. A ratio is callgate's figure over the peer's: "
        "the median over runs that took turns."
    )
    return Section(title="Single things and their targets", about=(about,), columns=columns, rows=tuple(made))


def _workload(task: Task, pairs: Sequence[Pair], results: Results) -> Section:
    simulated = results.model is not None and results.model.simulated
    columns = (
        Column("contestant"), Column("outcome"), Column("turns", number=True), Column("tokens in", number=True),
        Column("out", number=True), Column("wall", number=True), Column("10 to 90 %", number=True, detail=True),
        Column("model (simulated)" if simulated else "model", number=True, detail=True), Column("tools", number=True),
        Column("own work", number=True), Column("at once", number=True, detail=True),
    )  # fmt: skip
    shown = [pair for pair in pairs if pair[1].outcome != "not measured"]
    longest = max((cell.figure("wall_seconds").p50 for _, cell in shown if _counts(cell)), default=0.0)
    rows = tuple((Value(entry.title), Value(cell.ended), *_figures(cell, longest)) for entry, cell in shown)
    return Section(title=task.title, about=(task.about,), columns=columns, rows=rows, notes=tuple(_reasons(pairs)))


def _counts(cell: Cell) -> bool:
    return cell.outcome == "right" and bool(cell.rounds)


def _figures(cell: Cell, longest: float) -> list[Value]:
    if not _counts(cell):
        return [Value("–")] * 9
    wall = cell.figure("wall_seconds")
    parts = [cell.figure(f"{name}_seconds").p50 for name in _PARTS]
    bar = tuple(round(100 * part / longest, 2) for part in parts) if longest else ()
    spread = "one round" if wall.count == 1 else f"{seconds(wall.p10)} to {seconds(wall.p90)}"
    counts = [_count(cell.median(name)) for name in ("turns", "input_tokens", "output_tokens", "concurrency")]
    return [
        *map(Value, counts[:3]), Value(seconds(wall.p50), parts=bar), Value(spread),
        *map(Value, map(seconds, parts)), Value(counts[3]),
    ]  # fmt: skip


def _count(value: float) -> str:
    """A count; – for 0, which means not counted."""
    return f"{value / 1e6:.2f}M" if value >= 1_000_000 else f"{value:,.0f}" if value else "–"


def _reasons(pairs: Sequence[Pair]) -> Iterator[str]:
    """Why cells have no figures; contestants with the same reason together."""
    by_reason: dict[str, list[str]] = {}
    for entry, cell in pairs:
        if cell.outcome != "right":
            reason = f": {cell.reason}" if cell.reason and cell.outcome != "not measured" else ""
            by_reason.setdefault(f"{cell.ended}{reason}", []).append(entry.title)
    yield from (f"{'; '.join(names)} {reason}" for reason, names in by_reason.items())


def _contestants(results: Results) -> Section:
    headings = ("contestant", "name", "takes", "confined by", "words for the model", "version", "remarks")
    rows = (
        (
            entry.title, entry.name, _HANDED_OVER[entry.mode], entry.confined or "unknown",
            "callgate's" if entry.ours or not entry.own_words else "its own", entry.version or "–",
            _remarks(entry, results),
        )
        for entry in results.entries
    )  # fmt: skip
    values = tuple(tuple(map(Value, row)) for row in rows)
    return Section(title="Who took part", columns=tuple(map(Column, headings)), rows=values)


def _remarks(entry: Entry, results: Results) -> str:
    if entry.failure:
        return f"took no part: {entry.failure}"
    notes = [each.note for each in results.cells if each.contestant == entry.name and each.note]
    return "; ".join(dict.fromkeys([entry.about, *notes]))
