"""The rows of single things: as a table for the terminal, and in Markdown. Formats them; measures nothing."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from callgate.bench.report.cell_words import plainly
from callgate.bench.rows import Row

__all__ = ["HOW", "TITLES", "rows_markdown", "rows_table", "rows_title"]

_COLOURS = {"met": "green", "missed": "red", "open": "yellow", "for information": "dim"}
TITLES = {
    ("engine", "plan", "makespan", "early"): "Benchmarks of plans",
    ("fast", "reads", "share"): "Benchmarks of the fast path",
    ("definitions",): "Benchmarks of the definitions",
    ("search",): "Benchmarks of tool search",
    ("docker",): "Benchmarks of the docker backend",
    ("gateway",): "Benchmarks of the MCP gateway",
    (
        "planner-selection",
        "planner-model",
        "planner-learning",
        "planner-speed",
        "planner-retries",
        "planner-caches",
        "planner-timeouts",
    ): "Benchmarks of the tool planner",
}
"""Of the pages that hold some of the measurements, by the keys of their rows."""
HOW = """\
p50 unless said; p99 and the spread from the 10th to the 90th percentile follow it. A ratio is the median over
neighbouring pairs: ours and the peer's runs take turns, so that what disturbs one disturbs the other. *Pool warm* means
that the pool is full and its guests are waiting; both sides rest between runs until that is so. Peers run in a process
of their own.
"""
"""How to read the rows, for a page."""
_PAGES = (
    "A fresh child writes to some 770 of the pages it shares (reference counts, specialised code); the "
    "kernel needs about 2.3 µs for the copy of each"
)
_BOUNDS = {
    "warm": (
        "Nearly half of the time lies between request and reply: the guest's work, and two processes that "
        "wake each other. The rest is the host's, with cold caches after its rest: the check before, and the "
        "end of the run after."
    ),
    "cold": (
        f"{_PAGES}; the confinement itself (namespaces, a mount, Landlock, seccomp) takes about 1 ms, part of "
        "those pages included. The target was set where bubblewrap took 51 to 64 ms."
    ),
    "call": (
        "Host and guest work in turns, 20 to 40 µs of processor time each: JSON both ways, asyncio's loop, "
        "validation, the gate and the record. A bare round trip over two pipes takes 7 µs here."
    ),
    "gather": (
        "One run in a fresh guest, its start and its first calls included; in a guest that is warm, host and "
        "guest spend 11 and 14 µs of processor time a call."
    ),
    "throughput": (
        f"{_PAGES}; fork and exit took a fifth in a profile, the host spends 0.45 ms on a run. With both cores"
        " to itself it is bound by processor time; other work on them costs it directly."
    ),
    "memory": (
        "The child has rehearsed a run, so that the pages are its own before the program comes: about 380 of them."
    ),
    "loop": ("The same interpreter runs the same code: the machine was not still."),
    "engine": (
        "Half a dozen small objects and a dozen calls a step: its arguments, the call, its end, each follower told. "
        "With very many steps Python's cyclic garbage collector walks over all that is alive again and again."
    ),
    "plan": (
        "Without the garbage collector, of each 75 µs in a profile: reading and checking the plan 18, the gate 15, the "
        "engine 9, the results of steps, their events and the workers the rest. The collector adds 25 to 45: a step is "
        "some 20 objects that it walks over again and again."
    ),
    "fast": (
        "Two thirds of the time go into looking at a program for the first time: its tree is read, its calls are "
        "ordered, the plan is checked, a few hundred small steps of each. With another look at the same program, which "
        "is kept, a third is left. Both rest before they run: what then takes 2 ms takes 0.8 ms with warm caches."
    ),
    "docker": (
        "What goes to a guest and back passes the engine, the container's shim and its supervisor; each of them has "
        "to be woken: on cores with other work every one waits for its turn."
    ),
    "search": (
        "Half of it is adding up some 20 words for all tools and reading the sums out as bytes, a fifth finding the "
        "best of them, the rest the query's words and the result. A search that is repeated at once, its data still "
        "in the processor's cache, takes 0.12 ms."
    ),
    "planner-selection": (
        "Rules are there for when no model answers: they choose one tool for each part of a query, and none whose "
        "arguments they would have to guess. What a model is shown is what the tool search finds; see its own page."
    ),
    "planner-model": (
        "The model. What it writes fits the schema, which names the tools; which of them are needed it has to know."
    ),
    "planner-learning": (
        "A tool that fails 2 times in 5 is known after some 10 calls, a slow one after 20; and of the selections for "
        "which a tool is left out, one in 20 gives it another chance, on purpose."
    ),
    "planner-speed": (
        "A plan takes as long as its slowest call: of two calls that take equally long, running both at once saves "
        "half and no more, and where one takes much longer than the other, less. Most of these plans have two or three."
    ),
    "planner-retries": ("Failures that last: no retry mends them."),
    "planner-caches": ("Queries that were not asked before."),
    "planner-timeouts": ("Attempts that hang, several times in a row for one step."),
    "makespan": (
        "Timers: the event loop waits in whole milliseconds, rounded up, for each step on the path; the rest is "
        "reading the plan, and the work of steps that end at the same moment."
    ),
}
"""Why a target is missed where it is, as profiling shows it; by the row's group."""


def rows_title(rows: Sequence[Row]) -> str:
    """What a page with nothing but these rows is called."""
    return TITLES.get(tuple(dict.fromkeys(row.key for row in rows)), "Benchmarks")


def rows_table(rows: Sequence[Row], title: str) -> Table:
    """The rows for a terminal."""
    table = Table(show_lines=True, title=_cell(title))
    for heading, share in (("measure", 3), ("measured", 4), ("target", 2), ("", 1), ("ratio", 1), ("peer", 4)):
        table.add_column(heading, ratio=share, overflow="fold")
    for row in rows:
        peer = Text.assemble(plainly(row.peer), *([("\n" + plainly(row.note), "dim")] if row.note else []))
        verdict = Text(row.verdict, _COLOURS[row.verdict])
        table.add_row(*map(_cell, (row.measure, row.measured, row.target)), verdict, _ratio(row), peer)
    return table


def rows_markdown(rows: Sequence[Row]) -> list[str]:
    """The rows as lines of a page: a table, how many targets are met, and what bounds those that are missed."""
    return [
        "| measure | measured | target | | ratio | peer | remarks |",
        "|---|---|---|---|---|---|---|",
        *(_markdown_row(row) for row in rows),
        "",
        *_verdicts(rows),
    ]


def _cell(text: str) -> Text:
    return Text(plainly(text))


def _ratio(row: Row) -> str:
    return "" if row.ratio is None else f"{row.ratio:.2f} ×" if row.ratio >= 0.1 else f"{row.ratio:.3f} ×"


def _markdown_row(row: Row) -> str:
    verdict = f"**{row.verdict}**" if row.verdict in ("met", "missed") else row.verdict
    cells = (row.measure, row.measured, row.target, verdict, _ratio(row), row.peer, row.note)
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def _verdicts(rows: Sequence[Row]) -> list[str]:
    judged = [row for row in rows if row.target]
    missed = [row for row in judged if row.verdict == "missed"]
    unknown = [row for row in judged if row.verdict == "open"]
    lines = [f"{len(judged) - len(missed) - len(unknown)} of {len(judged)} targets met.", ""]
    if missed:
        lines += ["Missed, and what bounds it:", ""]
        lines += [f"- {row.measure}: target {row.target}. {_BOUNDS.get(row.key, '')}".rstrip() for row in missed]
        lines.append("")
    if unknown:
        lines += ["Not judged:", "", *(f"- {row.measure}: {row.peer}" for row in unknown), ""]
    return lines
