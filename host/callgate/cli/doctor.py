"""``callgate doctor``: what confines programs on this machine, and what to do where nothing does."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import anyio
import click

from .words import NO_SANDBOX, OK, emit, explain, page

if TYPE_CHECKING:
    from rich.console import Console

    from callgate.sandbox.doctor import Fact, Report

__all__ = ["command"]


@click.command("doctor", short_help="Say what confines programs on this machine, and what to do where nothing does.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as one JSON object.")
def command(as_json: bool) -> int:
    """Look at this machine and try each tier of the jail by starting it.

    Exit codes: 0 programs run confined here, 3 no sandbox works here.
    """
    from callgate.sandbox.doctor import examine

    report = anyio.run(examine)
    if as_json:
        emit(json.dumps(report.to_dict(), ensure_ascii=False))
    else:
        _show(report)
    if not report.ok:
        explain("no sandbox works here", report.verdict.partition(": ")[2] or "see the reasons above")
    return OK if report.ok else NO_SANDBOX


def _show(report: Report) -> None:
    console = page(sys.stdout)
    _heading(console, "This machine")
    for fact in report.facts:
        _fact(console, fact)
    _heading(console, "The jail, tried")
    for trial in report.trials:
        if trial.works:
            times = f"started in {trial.start_seconds * 1000:.0f} ms, a guest in {trial.open_seconds * 1000:.1f} ms"
            _line(console, True, f"tier {trial.tier}", f"passes its self-test; {times}")
        else:
            _line(console, False, f"tier {trial.tier}", trial.reason)
    _heading(console, "What `auto` takes")
    console.print(f"  {report.description if report.ok else 'nothing: programs are refused'}")
    if report.leaks:
        _heading(console, f"What a program can still see or lacks in tier {report.tier}")
        for leak in report.leaks:
            console.print(f"  - {leak}")
    _heading(console, "What it does not defend against")
    for open_ in report.not_confined:
        console.print(f"  - {open_}")
    _heading(console, "Besides")
    for fact in report.alternatives:
        _fact(console, fact)
    console.print()
    console.print(f"Verdict: {report.verdict}", style="bold green" if report.ok else "bold red")


def _heading(console: Console, text: str) -> None:
    console.print()
    console.print(text, style="bold")


def _fact(console: Console, fact: Fact) -> None:
    _line(console, fact.ok, fact.name, fact.found)
    if fact.ok is False and fact.remedy:
        console.print(f"       what to do: {fact.remedy}", style="yellow")


def _line(console: Console, ok: bool | None, name: str, text: str) -> None:
    mark, style = {True: ("ok", "green"), False: ("no", "red"), None: ("--", "dim")}[ok]
    console.print(f"  {mark} ", style=style, end="")
    console.print(f" {name:<17} {text}")
