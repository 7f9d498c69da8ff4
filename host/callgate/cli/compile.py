"""``callgate compile``: the plan that a program is on the fast path, or why it is not one. Runs nothing."""

from __future__ import annotations

import dataclasses
from typing import Any

import click

from callgate.program.graph.reasons import NotAGraph
from callgate.runtime.fast_path.compilation import Compilation

from .offer import Offer
from .options import Source, inputs_from, limit_options, option, options, shared
from .words import Exit, Stop, counted, data_only, emit, emit_json, explain, finding_line, log_to_stderr, say

__all__ = ["command"]


class Shown:
    """What is printed."""

    json = option(is_flag=True)
    """Print the plan alone, as `callgate plan -` takes it."""
    mermaid = option(is_flag=True)
    """Print the plan as a flowchart."""
    why = option(is_flag=True)
    """Print every reason why the program is not a graph."""


@click.command("compile")
@click.argument("file", required=False)
@shared("code", "tools", "mcp", "allow", "input")
@options(Shown)
@limit_options({"max_source_bytes": "Bytes of the program's source"})
def command(**options: Any) -> int:
    """Look at a program as the fast path does: FILE, or - for stdin, or -c CODE. Needs no sandbox.

    A program that is a graph of tool calls is printed as a plan, or, where no plan shows it, with the calls that begin
    at once. Any other program runs in the sandbox; then the reason is a line on stderr, file:line: construct: why not;
    what to write instead. With --why all reasons are on stdout.

    Exit codes: 0 the program takes the fast path, 1 it does not, 2 usage, 130 interrupted.
    """
    inputs = inputs_from(options["input"])
    if options["mermaid"] and (options["json"] or options["why"]):
        other = "--json" if options["json"] else "--why"
        raise Stop(f"{other} and --mermaid cannot both be on stdout", "leave one of them out")
    source = Source.read(options["file"], options["code"])
    log_to_stderr()
    with data_only():
        offer = Offer(options)
        offer.look()
        runtime, allow = offer.runtime(), offer.allowed()
        found = runtime.check(source.code, inputs=list(inputs), tools=allow)
        errors = [finding for finding in found if finding.severity == "error"]
        compiled = None if errors else runtime.compile(source.code, inputs=inputs, tools=allow)
    if compiled is not None:
        return (_show_why if options["why"] else _show_plan)(source.name, compiled, options)
    for finding in errors:  # such a program is not run on either path
        say(finding_line(source.name, finding), "red")
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    no_tools = not list(runtime.registry) and errors[0].code == "unknown-name"
    tip = "name the file that has the tools: --tools tools.py" if no_tools else errors[0].hint
    explain(f"the program would not be run: {errors[0]}{more}", tip)
    return Exit.FAILED


def _show_why(name: str, compiled: Compilation, options: dict[str, Any]) -> int:
    if options["json"]:
        reasons = [dataclasses.asdict(reason) for reason in compiled.reasons]
        emit_json({"path": "sandbox" if reasons else "plan", "reasons": reasons})
    else:
        lines = [_reason_line(name, reason) for reason in compiled.reasons]
        emit("\n".join(lines) or "on the fast path: nothing keeps it from there")
    return Exit.FAILED if compiled.reasons else Exit.OK


def _show_plan(name: str, compiled: Compilation, options: dict[str, Any]) -> int:
    if not compiled.ok:
        first, *others = compiled.reasons
        say(_reason_line(name, first), "yellow")
        more = f" (and {counted(len(others), 'more reason')})" if others else ""
        tip = "`callgate compile --why` lists them all" if others else ""
        explain(f"line {first.line} is not certain to be part of a graph: the program runs in the sandbox{more}", tip)
        return Exit.FAILED
    if compiled.no_plan is not None and (options["json"] or options["mermaid"]):
        say(_reason_line(name, compiled.no_plan), "yellow")
        tip = "without --json and --mermaid, see what begins"
        explain("the program takes the fast path, and no plan shows it", tip)
    elif options["json"]:
        emit_json(compiled.plan)
    else:
        emit(compiled.explain("mermaid" if options["mermaid"] else "text"))
    return Exit.OK


def _reason_line(name: str, reason: NotAGraph) -> str:
    """A reason as compilers write theirs: ``file:line: construct: why not; what to write instead``."""
    return f"{name}:{reason.line}: {reason.construct}: {reason.message}{f'; {reason.hint}' if reason.hint else ''}"
