"""``callgate doctor``: which sandboxes work on this machine, and what to do if none does."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any

import click

from callgate import event_loop

from .offer import Offer
from .options import shared
from .words import Exit, emit_json, explain, one_line, page

if TYPE_CHECKING:
    from rich.console import Console

    from callgate.mcp import ServerStatus
    from callgate.sandbox.docker.doctor import DockerReport
    from callgate.sandbox.doctor import Report
    from callgate.sandbox.self_test import Fact, Trial

__all__ = ["command"]


@click.command("doctor")
@shared("mcp", "json")
def command(**options: Any) -> int:
    """Look at this machine; try each tier of the jail and srt by starting them, and docker by opening a container.

    The engine is that of DOCKER_HOST, of the current docker context, or the system's. A missing engine or srt is not an
    error.
    With --mcp, doctor starts each server, asks for its tools, and ends it; the report says what is wrong with it.

    Exit codes: 0 a sandbox works here, 3 none does.
    """
    from callgate.sandbox.doctor import examine

    logging.getLogger("callgate").addHandler(logging.NullHandler())  # warnings of backends are in the report
    offer = Offer(options)
    report = event_loop.run(examine)
    states = () if offer.servers is None else event_loop.run(_asked, offer)
    if options["json"]:
        known = {} if offer.servers is None else {"servers": [_entry(each) for each in states]}
        emit_json(report.to_dict() | known)
    else:
        _show(page(sys.stdout), report, states)
    if not report.ok:
        explain("no sandbox works here", report.verdict.partition(": ")[2] or "see the reasons above")
    return Exit.OK if report.ok else Exit.NO_SANDBOX


async def _asked(offer: Offer) -> tuple[ServerStatus, ...]:
    """Start the servers, ask for their tools, end them; returns the state of each."""
    assert offer.servers is not None
    async with offer.opened(offer.runtime()):
        return offer.servers.status()


def _entry(state: ServerStatus) -> dict[str, Any]:
    known = {"name": state.name, "state": state.state, "tools": len(state.tools)}
    return {**known, "error": state.error, "warnings": list(state.warnings)}


def _show(console: Console, report: Report, states: tuple[ServerStatus, ...]) -> None:
    from callgate.sandbox.srt.settings import missing

    _heading(console, "This machine")
    for fact in report.facts:
        _fact(console, fact)
    _heading(console, "The jail, tried")
    for trial in report.trials:
        _trial(console, f"tier {trial.tier}", trial)
    _heading(console, "Docker")
    _docker(console, report.docker)
    _heading(console, "srt")
    if report.srt.works or not missing():
        _trial(console, "tried", report.srt)
    else:
        _line(console, None, "tried", report.srt.reason)
    _heading(console, "What `auto` takes")
    console.print(f"  {one_line(report.description) if report.auto else 'nothing: programs are refused'}")
    if report.leaks:
        _list(console, f"What a program can still see or lacks in {report.auto}", report.leaks)
    _list(console, "What it does not defend against", report.not_confined)
    if states:
        _heading(console, "MCP servers")
    for state in states:
        _line(console, state.state == "running", state.name, state.line().partition(": ")[2])
        for warning in state.warnings:
            console.print(f"       {one_line(warning)}", style="yellow")
    console.print()
    console.print(f"Verdict: {one_line(report.verdict)}", style="bold green" if report.ok else "bold red")


def _docker(console: Console, docker: DockerReport) -> None:
    if not docker.host:
        _line(console, None, "engine", docker.reason)
        return
    for fact in docker.facts:
        _fact(console, fact)
    if docker.trial is not None:
        _trial(console, "tried", docker.trial)
    for obstacle in docker.obstacles if docker.works else ():
        _line(console, None, "auto", f"leaves it alone: {obstacle}")
    _list(console, "What a guest's container gets", docker.hardened)
    _list(console, "What this engine cannot give", docker.lacks)


def _trial(console: Console, name: str, trial: Trial) -> None:
    times = f"started in {trial.start_seconds * 1000:.0f} ms, a guest in {trial.open_seconds * 1000:.1f} ms"
    _line(console, trial.works, name, f"passes its self-test; {times}" if trial.works else trial.reason)
    if trial.sharing:
        _line(console, None, "shared memory", trial.sharing)
    if trial.works:
        _line(console, None, "files", trial.no_files or "programs read /input; what they leave in /output is kept")


def _heading(console: Console, text: str) -> None:
    console.print(f"\n{text}", style="bold")


def _list(console: Console, heading: str, lines: list[str]) -> None:
    _heading(console, heading)
    for line in lines or ["nothing known"]:
        console.print(f"  - {one_line(line)}")


def _fact(console: Console, fact: Fact) -> None:
    _line(console, fact.ok, fact.name, fact.found)
    if fact.ok is False and fact.remedy:
        console.print(f"       what to do: {one_line(fact.remedy)}", style="yellow")


def _line(console: Console, ok: bool | None, name: str, text: str) -> None:
    mark, style = {True: ("ok", "green"), False: ("no", "red"), None: ("--", "dim")}[ok]
    console.print(f"  {mark} ", style=style, end="")
    console.print(f" {name:<17} {one_line(text)}")
