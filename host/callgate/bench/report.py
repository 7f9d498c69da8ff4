"""The report: a table for the terminal, JSON, Markdown. Formats rows; measures nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .rows import Row

__all__ = ["Report"]

_COLOURS = {"met": "green", "missed": "red", "open": "yellow", "for information": "dim"}
_TITLES = {
    ("engine", "plan", "makespan", "early"): "Benchmarks of plans",
    ("fast", "reads", "share"): "Benchmarks of the fast path",
    ("definitions",): "Benchmarks of the definitions",
    ("search",): "Benchmarks of tool search",
    ("docker",): "Benchmarks of the docker backend",
    ("gateway",): "Benchmarks of the MCP gateway",
}
"""Of the pages that hold some of the measurements."""
_HOW = """\
p50 unless said; p99 and the spread from the 10th to the 90th percentile follow it. A ratio is the median over
neighbouring pairs: ours and the peer's runs take turns, so that what disturbs one disturbs the other. *Pool warm* means
that the pool is full and its guests are waiting; both sides rest between runs until that is so. Peers run in a process
of their own.
"""
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
    "makespan": (
        "Timers: the event loop waits in whole milliseconds, rounded up, for each step on the path; the rest is "
        "reading the plan, and the work of steps that end at the same moment."
    ),
}
"""Why a target is missed where it is, as profiling shows it; by the row's group."""


@dataclass(slots=True)
class Report:
    """What one run of the harness found, and where."""

    date: str
    machine: str
    load: str
    sandbox: str
    sizes: str
    rows: list[Row] = field(default_factory=list)
    load_after: str = ""
    only: tuple[str, ...] = ()
    """Names of the measurements, where it was not all of them."""

    def to_json(self) -> str:
        """Everything, for programs."""
        told = {name: getattr(self, name) for name in ("date", "machine", "load", "load_after", "sandbox", "sizes")}
        return json.dumps({**told, "rows": [row.to_dict() for row in self.rows]}, indent=2, ensure_ascii=False) + "\n"

    def show(self, console: Console) -> None:
        """Print the table."""
        table = Table(show_lines=True, title=f"callgate, {self.sizes}")
        for heading, share in (("measure", 3), ("measured", 4), ("target", 2), ("", 1), ("ratio", 1), ("peer", 4)):
            table.add_column(heading, ratio=share, overflow="fold")
        for row in self.rows:
            colour = _COLOURS[row.verdict]
            peer = escape(row.peer) + (f"\n[dim]{escape(row.note)}[/dim]" if row.note else "")
            table.add_row(row.measure, row.measured, row.target, f"[{colour}]{row.verdict}[/]", _ratio(row), peer)
        console.print(table)
        console.print(f"{self.machine}\nload average before {self.load}, after {self.load_after}\n{self.sandbox}")

    def _command(self) -> str:
        return " ".join(["python -m callgate.bench", *(f"--only {name}" for name in self.only), "--markdown"])

    def to_markdown(self) -> str:
        """The page in the documentation."""
        lines = [
            f"# {_TITLES.get(self.only, 'Benchmarks')}",
            "",
            f"Written by `{self._command()}`; change the harness, not this page.",
            "",
            f"Measured {self.date} ({self.sizes}): {self.machine}.",
            "A virtual machine whose cores other work shares, also during the measurement, as the load shows:",
            "separate runs differ by a third and more, and some ratios by a factor of two.",
            f"Load average before: {self.load}; after: {self.load_after}.",
            f"Sandbox: {self.sandbox}.",
            "",
            _HOW,
            "| measure | measured | target | | ratio | peer | remarks |",
            "|---|---|---|---|---|---|---|",
            *(_markdown_row(row) for row in self.rows),
            "",
            *_verdicts(self.rows),
        ]
        return "\n".join(lines)


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
