"""``callgate plan``: runs a declarative plan of tool calls on the host, and shows its steps. Needs no sandbox."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TextIO

import click

from callgate import CallEnded, CallStarted, Event, PlanResult, Runtime, StepEnded, StepResult, StepStarted, event_loop
from callgate.cut import duration

from .commands import only_end
from .offer import Offer
from .options import Source, flag, limit_options, option, options, shared
from .pages import save_page
from .plan_look import PlanApprover, say_faults, show_estimate, show_explanation, show_faults
from .screen import Approver, Line, Screen, call_line, short, step_line
from .tips import plan_headline, plan_tip
from .words import Exit, Stop, counted, data_only, emit, emit_json, explain, log_to_stderr, one_line, say

if TYPE_CHECKING:
    from rich.console import RenderableType

    from callgate.runtime.run_redaction import RunRedaction

__all__ = ["command"]

_LIMITS = {
    "wall_seconds": "Seconds for the whole plan, waiting for tools and for approval included",
    "memory_bytes": "Memory for the results that references may need",
    "max_tool_calls": "Tool calls of one plan, and so its steps",
    "max_concurrent_calls": "Tool calls that run at the same time; more calls wait for their turn",
    "max_message_bytes": "Bytes of the plan, of one call's arguments, of one tool's result",
}
_WIDTH = 100
_MOST_SHOWN = 12
"""Rows of the live table."""


class _Command(click.Command):
    """Spells out options that may stand without a value: `--explain FILE` must not take FILE for its value."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, list(_spelled_out(args)))


def _spelled_out(args: list[str]) -> Iterator[str]:
    left = list(args)
    while left:
        each = left.pop(0)
        if each == "--":
            yield from [each, *left]
            return
        if each == "--explain":
            yield "--explain=text"
        elif each == "--ask":
            takes_value = left and left[0][:1] != "-" and not left[0].lower().endswith(".json")
            yield f"--ask={left.pop(0) if takes_value else ''}"
        else:
            yield each


class Looked:
    """Options that look at a plan."""

    check = option(is_flag=True)
    """Print the faults of the plan, a line each, and run nothing."""
    explain = option(type=click.Choice(["text", "json", "mermaid"]), metavar="[=text|json|mermaid]")
    """Print what the plan would do, and run nothing."""
    estimate = option(is_flag=True)
    """Print how long the plan would take and what it would cost, and run nothing."""
    for_model = option(is_flag=True)
    """Print what a model would read, instead of the outputs."""
    timeline = option(is_flag=True)
    """Afterwards show on stderr when each step ran."""
    ask = option(multiple=True, metavar="[WHAT]")
    """Show the plan and ask before it runs. With WHAT, ask before calls of this tool: a name, SERVER.TOOL, a pattern,
    or `destructive` for what may destroy; may be repeated."""


@click.command("plan", cls=_Command)
@click.argument("files", nargs=-1, metavar="FILE")
@shared("tools", "mcp", "allow")
@options(Looked)
@shared("statistics", "audit", "trace", "yes", "verbose", "json")
@limit_options(_LIMITS)
def command(**options: Any) -> int:
    """Run a plan, which is JSON: FILE, or - for stdin. Every step runs as soon as its inputs are there.

    Progress goes to stderr. At the end the outputs are on stdout: one as its value (text as it is, else JSON), several
    as a JSON object by step. On a terminal, control characters in them are shown as escapes.

    Exit codes: 0 ok, 1 the plan was refused or a step failed, 2 usage, 4 a limit was reached, 130 interrupted.
    """
    _check_choices(options)
    source = _source(options["files"])
    if "" in options["ask"] and options["yes"]:
        raise Stop("--yes approves what --ask wants to be asked about", "leave one of them out")
    log_to_stderr(options["verbose"])
    with data_only() as data:
        offer = Offer(options)
        if options["check"] or options["explain"] or options["estimate"]:
            return _look(data, offer, source, options)
        run = _Run(offer, source, options)
        try:
            result = event_loop.run(run.run)
        except KeyboardInterrupt:
            only_end()
            say(run.interrupted(), "bold red")
            return Exit.INTERRUPTED
        return report(result, data, source, run.runtime, options)


def _check_choices(options: dict[str, Any]) -> None:
    chosen = [name for name in ("check", "explain", "estimate", "json", "for_model") if options[name]]
    if len(chosen) > 1 and chosen not in (["check", "json"], ["estimate", "json"]):
        tip = "write --explain=json" if set(chosen) == {"explain", "json"} else "leave one of them out"
        raise Stop(f"{' and '.join(flag(name) for name in chosen)} cannot both be on stdout", tip)
    for shows in ("timeline", "trace"):
        if options[shows] and chosen and chosen[0] in ("check", "explain", "estimate"):
            raise Stop(f"--{shows} shows a run, and --{chosen[0]} runs nothing", "leave one of them out")


def _source(files: tuple[str, ...]) -> Source:
    if not files:
        tip = "name a JSON file, or '-' to read the plan from stdin; before --ask, not after it"
        raise Stop("there is no plan", tip)
    if len(files) > 1:
        tip = "leave one out; a page is written with --trace OUT.html, a form of --explain is named --explain=FORM"
        raise Stop(f"there are two plans: {files[0]} and {files[1]}", tip)
    return Source.of(files[0], "plan")


def _look(data: TextIO, offer: Offer, source: Source, options: dict[str, Any]) -> int:
    """Do what ``--check``, ``--explain`` or ``--estimate`` asks; runs nothing."""
    offer.look()
    look, allow = offer.runtime(), offer.allowed()
    if options["check"]:
        return show_faults(data, source, look.check_plan(source.code, tools=allow), options["json"])
    if options["explain"]:
        return show_explanation(data, look, source, options["explain"], allow)
    return event_loop.run(show_estimate, data, look, source, options["json"], allow)


class _Run:
    """One run of a plan: a line for each step that ended, and a live table of the running ones."""

    def __init__(self, offer: Offer, source: Source, options: dict[str, Any]) -> None:
        self._offer = offer
        self._source = source
        self._options = options
        self._screen = Screen(lines=not options["json"] or options["verbose"], table=self._table)
        approver = Approver(self._screen, yes=options["yes"], person=source.person)
        self.runtime = offer.runtime(approve=approver)
        self._redaction = self.runtime.redaction.run(self.runtime.registry)
        self._began = time.monotonic()
        self._running: dict[str, tuple[str, float]] = {}
        self._ended: list[StepResult] = []
        self._calls = 0

    async def run(self) -> PlanResult:
        """Run the plan. Raises `ConfigurationError`."""
        runtime, code = self.runtime, self._source.code
        async with self._offer.opened(runtime, warnings=self._options["verbose"]):
            allow = self._offer.allowed()
            approve = None
            if "" in self._options["ask"]:
                approve = PlanApprover(person=self._source.person, screen=self._screen, look=runtime, allow=allow)
            return await self._screen.during(
                lambda: runtime.execute_tool_plan(code, tools=allow, on_event=self._tell, approve_plan=approve)
            )

    def interrupted(self) -> str:
        """What to say after Ctrl-C: how many steps had succeeded, and which were running."""
        good = sum(step.status == "succeeded" for step in self._ended)
        running = [f"{short(name)} ({short(tool)})" for name, (tool, _) in self._running.items()]
        others = f" and {len(running) - 5} more" if len(running) > 5 else ""
        rest = f"; under way: {', '.join(running[:5])}{others}" if running else ""
        return f"interrupted: {counted(good, 'step')} had succeeded{rest}"

    def _tell(self, event: Event) -> None:
        match event:
            case StepStarted():
                self._running[event.id] = (event.tool, time.monotonic())
            case StepEnded(step):
                self._running.pop(step.id, None)
                self._ended.append(step)
                step = self._redaction.step(step)
                self._screen.add(step_line(step))
                self._screen.add(*(Line("", f"note: {one_line(each, 240)}", "yellow") for each in step.warnings[:3]))
            case CallStarted():
                self._calls += 1
            case CallEnded() if self._options["verbose"]:
                self._screen.add(Line("call", call_line(self._redaction.record(event.record)), "dim"))

    def _table(self) -> RenderableType:
        """The live table: the running steps, and a line of numbers."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        now, running = time.monotonic(), list(self._running.copy().items())
        table = Table.grid("", "", "", "", padding=(0, 2, 0, 0))
        for name, (tool, since) in running[:_MOST_SHOWN]:
            cells = ("runs   ", short(name), short(tool), f"{now - since:.1f} s")
            table.add_row(*(Text(cell, "cyan", no_wrap=True) for cell in cells))
        more = f" ({len(running) - _MOST_SHOWN} not shown)" if len(running) > _MOST_SHOWN else ""
        done = f"{counted(len(self._ended), 'step')} ended, {len(running)} under way{more}"
        return Group(table, Text(f"{done}, {counted(self._calls, 'call')}, {now - self._began:.1f} s", "dim"))


# afterwards


def report(result: PlanResult, data: TextIO, source: Source, runtime: Runtime, options: dict[str, Any]) -> int:
    if options["json"]:
        emit_json(result.to_dict(), data)
    elif options["for_model"]:
        emit(result.for_model(), data)
    else:
        _show_outputs(result, data)
    quiet = options["json"] and not options["verbose"]
    if not quiet or result.error is not None:
        say_faults(source, result.faults)
    shown = _for_people(result, runtime.redactor())
    if options["timeline"] and result.steps:
        _draw(shown)
    elif result.steps and not quiet:
        say(_summary(result))
    written = save_page(result, options)
    if result.error is None:
        return Exit.OK if written else Exit.FAILED
    explain(plan_headline(shown), plan_tip(result, runtime.limits))
    return Exit.LIMIT if result.error.limit is not None else Exit.FAILED


def _for_people(result: PlanResult, redaction: RunRedaction) -> PlanResult:
    """The result with redacted steps and error."""
    redaction.learn(result.calls)
    error = result.error and replace(result.error, message=redaction.text(result.error.message, is_cut=True))
    return replace(result, steps=[redaction.step(step) for step in result.steps], error=error)


def _summary(result: PlanResult) -> str:
    named = {"failed": "failed", "unknown_outcome": "with an unknown outcome", "skipped": "skipped"}
    counts = {status: sum(step.status == status for step in result.steps) for status in ("succeeded", *named)}
    others = [f", {counts[status]} {words}" for status, words in named.items() if counts[status]]
    took = duration(result.usage.wall_seconds)
    return f"{counts['succeeded']}/{len(result.steps)} steps succeeded in {took}{''.join(others)}"


def _show_outputs(result: PlanResult, data: TextIO) -> None:
    """Print one output as its value, several as an object; which of the two depends on the plan alone."""
    if result.plan is None or not result.outputs:
        return
    wanted = result.plan.get("output_steps") or [step.id for step in result.steps]
    written = json.JSONEncoder(ensure_ascii=False).encode
    if len(wanted) == 1:
        (value,) = result.outputs.values()
        emit(value if isinstance(value, str) else written(value), data)
    else:
        lines = [f"  {written(name)}: {written(value)}" for name, value in result.outputs.items()]
        emit("{\n" + ",\n".join(lines) + "\n}", data)


def _draw(result: PlanResult) -> None:
    """Print the timeline on stderr. `timeline_text` escapes control characters, and brings its own colours."""
    from callgate.runtime.plans.timeline import timeline_text

    terminal = sys.stderr.isatty()
    width = max(shutil.get_terminal_size((_WIDTH, 24)).columns if terminal else _WIDTH, 40)
    text = timeline_text(result, width, terminal and not os.environ.get("NO_COLOR"))
    with contextlib.suppress(OSError):  # the reader has gone; the plan has run
        print(text, file=sys.stderr, flush=True)
