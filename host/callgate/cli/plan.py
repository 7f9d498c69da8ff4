"""``callgate plan``: a declarative plan of tool calls, run on the host, with its steps live. Needs no sandbox."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import click

from callgate import ConfigurationError, Limits, PlanResult, Runtime, event_loop
from callgate.cut import duration

from .ending import only_end
from .live import data_only, log_to_stderr
from .live_view import ApproverBelow
from .load import load_tools
from .mcp_option import Ask, listed, mcp_option, servers_from, with_servers
from .options import allowed_from, limits_from, some_limit_options, tools_option
from .plan_approval import PlanApprover
from .plan_live import PlanScreen, tally
from .plan_look import say_faults, show_estimate, show_explanation, show_faults
from .source import Source
from .tips import plan_headline, plan_tip
from .words import FAILED, INTERRUPTED, LIMIT, OK, Stop, emit, explain, say

__all__ = ["command"]

_LIMITS = {
    "wall_seconds": "Seconds for the whole plan, waiting for tools and for approval included",
    "memory_bytes": "Memory for the results that references may need",
    "max_tool_calls": "Tool calls of one plan, and so its steps",
    "max_concurrent_calls": "Tool calls that run at the same time; more of them wait for their turn",
    "max_message_bytes": "Bytes of the plan, of one call's arguments, of one tool's result",
}
_PAGES = (".html", ".htm")
_WIDTH = 100
_COLUMNS_FOR = 512 * 1024
"""Characters; a longer plan is not read beforehand to line up its progress."""


class _Command(click.Command):
    """Spells out options whose value may be left out: `--explain FILE` must not take FILE for its value."""

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
        elif each == "--timeline":
            yield f"--timeline={left.pop(0) if left and left[0].lower().endswith(_PAGES) else ''}"
        else:
            yield each


@click.command("plan", cls=_Command, short_help="Run a declarative plan of tool calls; needs no sandbox.")
@click.argument("files", nargs=-1, metavar="FILE")
@tools_option
@mcp_option
@click.option("--allow", multiple=True, metavar="TOOL", help="Offer only this tool; may be repeated.")
@click.option("--check", is_flag=True, help="Print what is wrong with the plan, a line each, and run nothing.")
@click.option(
    "--explain",
    type=click.Choice(["text", "json", "mermaid"]),
    metavar="[=text|json|mermaid]",
    help="Print what the plan would do, and run nothing.",
)
@click.option("--estimate", is_flag=True, help="Print how long the plan would take, and its cost; run nothing.")
@click.option("--statistics", metavar="FILE", help="Keep in FILE how long tools take and how often they fail.")
@click.option("--json", "as_json", is_flag=True, help="Print the whole result as one JSON object on stdout.")
@click.option("--for-model", is_flag=True, help="Print what a model would be given, instead of the outputs.")
@click.option(
    "--timeline",
    metavar="[OUT.html]",
    help="Afterwards show when each step ran: on stderr, or as a page in OUT.html.",
)
@click.option(
    "--ask",
    multiple=True,
    metavar="[WHAT]",
    help="Show the plan and ask before it runs. With WHAT, ask before calls of this tool: a name, SERVER.TOOL, a "
    "pattern, or `destructive` for what may destroy; may be repeated.",
)
@click.option("-y", "--yes", is_flag=True, help="Approve every call of a tool that asks for approval.")
@click.option("-v", "--verbose", is_flag=True, help="Tell of every tool call, too, on stderr.")
@some_limit_options(_LIMITS)
def command(**options: Any) -> int:
    """Run a plan, which is JSON: FILE, or - for stdin. Every step runs as soon as its inputs are there.

    Progress goes to stderr. At the end the outputs are on stdout: one as its value (text as it is, else JSON), several
    as a JSON object by step. On a terminal, control characters in them are shown as escapes.

    Exit codes: 0 ok, 1 the plan was refused or a step failed, 2 usage, 4 a limit was reached, 130 interrupted.
    """
    limits = limits_from(options)
    _check_choices(options)
    source = _source(options["files"])
    page = _page_file(options["timeline"], source)
    asked = "" in options["ask"]
    if asked and options["yes"]:
        raise Stop("--yes approves what --ask wants to be asked about", "leave one of them out")
    ask = Ask(filter(None, options["ask"]), yes=options["yes"])
    log_to_stderr(options["verbose"])
    with data_only() as data:
        tools = ask.of(load_tools(options["tool_files"]))
        servers = servers_from(options["mcp_file"], ask)
        runs = not (options["check"] or options["explain"] or options["estimate"])
        try:
            if not runs:
                tools = listed(servers, tools, ask=ask)
            look = Runtime(tools, sandbox=None, limits=limits, statistics=options["statistics"])
            allow = None if runs else allowed_from(options["allow"], tools)
            if options["check"]:
                return show_faults(data, source, look.check_plan(source.code, tools=allow), options["as_json"])
            if options["explain"]:
                return show_explanation(data, look, source, options["explain"], allow)
            if options["estimate"]:
                return event_loop.run(show_estimate, data, look, source, options["as_json"], allow)
            screen = PlanScreen(
                [],
                lines=not options["as_json"] or options["verbose"],
                calls=options["verbose"],
            )
            run = functools.partial(
                _run, source, screen, look, options["allow"], everything=options["yes"], asked=asked
            )
            result = _interruptible(
                lambda: with_servers(servers, look.registry, run, ask=ask, warnings=options["verbose"]), screen
            )
            if screen.lost:  # the outputs are wanted all the same
                sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (for as long as the process lives)
        except ConfigurationError as error:
            raise Stop(str(error), "callgate plan --help shows what each option takes") from None
        return INTERRUPTED if result is None else _report(result, data, source, limits, page, options)


def _check_choices(options: dict[str, Any]) -> None:
    names = ("check", "explain", "estimate", "json", "for_model")
    chosen = [name for name in names if options["as_json" if name == "json" else name]]
    shown = [f"--{name.replace('_', '-')}" for name in chosen]
    if len(chosen) > 1 and chosen not in (["check", "json"], ["estimate", "json"]):
        tip = "write --explain=json" if set(chosen) == {"explain", "json"} else "leave one of them out"
        raise Stop(f"{' and '.join(shown)} cannot both be on stdout", tip)
    if options["timeline"] is not None and chosen and chosen[0] in ("check", "explain", "estimate"):
        raise Stop(f"--timeline shows a run, and {shown[0]} runs nothing", "leave one of them out")


def _source(files: tuple[str, ...]) -> Source:
    if not files:
        raise Stop(
            "there is no plan", "name a JSON file, or '-' to read the plan from stdin; before --ask, not after it"
        )
    if len(files) > 1:
        tip = (
            "leave one of them out; a timeline's page is named OUT.html, a form of --explain is written --explain=FORM"
        )
        raise Stop(f"there are two plans: {files[0]} and {files[1]}", tip)
    return Source.of(files[0], "plan")


def _page_file(given: str | None, source: Source) -> Path | None:
    """The file for the timeline's page; looked at before anything runs."""
    if not given:
        return None
    page = Path(given)
    if page.suffix.lower() not in _PAGES:
        raise Stop(f"--timeline writes a page, and {given!r} is no .html file", "for example --timeline=out.html")
    if not page.parent.is_dir():
        raise Stop(f"{given} cannot be written: there is no folder {page.parent}", "make it first, or name another")
    if page.is_dir():
        raise Stop(f"{given} cannot be written: it is a folder", "name a file")
    return page


def _steps(look: Runtime, source: Source, allow: list[str] | None) -> list[tuple[str, str]]:
    """Ids and tools of the plan, for the columns; none where it is refused anyway, or too long to read twice."""
    if len(source.code) > _COLUMNS_FOR:
        return []
    try:
        told = json.loads(look.explain_plan(source.code, "json", tools=allow))
    except ValueError:
        return []
    return [(step["id"], step["tool"]) for step in told["steps"]]


# running it


async def _run(
    source: Source, screen: PlanScreen, runtime: Runtime, allowed: tuple[str, ...], *, everything: bool, asked: bool
) -> PlanResult:
    allow = allowed_from(allowed, runtime.registry)
    screen.line_up(_steps(runtime, source, allow))
    terminal = sys.stdin.isatty() and not source.from_stdin
    runtime.gate.approve = ApproverBelow(everything=everything, terminal=terminal, screen=screen)
    approve = PlanApprover(terminal=terminal, screen=screen, look=runtime, allow=allow) if asked else None
    async with runtime:
        return await screen.during(
            lambda: runtime.execute_tool_plan(source.code, tools=allow, on_event=screen.put, approve_plan=approve)
        )


def _interruptible(run: Any, screen: PlanScreen) -> PlanResult | None:
    """What came of the run; None where it was interrupted, which is said."""
    try:
        result: PlanResult = event_loop.run(run)
    except KeyboardInterrupt:
        only_end()
        good = sum(step.status == "succeeded" for step in screen.ended)
        running = screen.under_way()
        others = f" and {len(running) - 5} more" if len(running) > 5 else ""
        rest = f"; under way: {', '.join(running[:5])}{others}" if running else ""
        say(f"interrupted: {good} step{'' if good == 1 else 's'} had succeeded{rest}", "bold red")
        return None
    return result


# afterwards


def _report(
    result: PlanResult, data: TextIO, source: Source, limits: Limits, page: Path | None, options: dict[str, Any]
) -> int:
    with contextlib.redirect_stdout(data):
        if options["as_json"]:
            emit(json.dumps(result.to_dict(), ensure_ascii=False))
        elif options["for_model"]:
            emit(result.for_model())
        else:
            _show_outputs(result)
    quiet = options["as_json"] and not options["verbose"]
    if not quiet or result.error is not None:
        say_faults(source, result.faults)
    if options["timeline"] == "" and result.steps:
        _draw(result)
    elif result.steps and not quiet:
        good = sum(step.status == "succeeded" for step in result.steps)
        took = duration(result.usage.wall_seconds)
        say(", ".join([f"{good}/{len(result.steps)} steps succeeded in {took}", *tally(result.steps)]))
    written = page is None or not result.steps or _write_page(result, page, quiet=quiet)
    if result.error is None:
        return OK if written else FAILED
    explain(plan_headline(result), plan_tip(result, limits))
    return LIMIT if result.error.limit is not None else FAILED


def _show_outputs(result: PlanResult) -> None:
    """One output as its value, several as an object, a line each; which it is depends on the plan alone."""
    if result.plan is None or not result.outputs:
        return
    wanted = result.plan.get("output_steps") or [step.id for step in result.steps]
    if len(wanted) == 1:
        (value,) = result.outputs.values()
        emit(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        return
    lines = [
        f"  {json.dumps(name, ensure_ascii=False)}: {json.dumps(value, ensure_ascii=False)}"
        for name, value in result.outputs.items()
    ]
    emit("{\n" + ",\n".join(lines) + "\n}")


def _draw(result: PlanResult) -> None:
    """The timeline, on stderr. It makes visible itself what could drive a terminal, and brings its own colours."""
    from callgate.runtime.plans.timeline import timeline_text

    terminal = sys.stderr.isatty()
    width = max(shutil.get_terminal_size((_WIDTH, 24)).columns if terminal else _WIDTH, 40)
    text = timeline_text(result, width, terminal and not os.environ.get("NO_COLOR"))
    print(text, file=sys.stderr, flush=True)


def _write_page(result: PlanResult, page: Path, *, quiet: bool) -> bool:
    from callgate.runtime.plans.timeline_page import timeline_page

    try:
        page.write_text(timeline_page(result), encoding="utf-8")
    except OSError as error:
        explain(f"the timeline {page} cannot be written: {error.strerror}", "name another file")
        return False
    if not quiet:
        say(f"timeline: {page}")
    return True
