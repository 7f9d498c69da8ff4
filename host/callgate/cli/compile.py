"""``callgate compile``: the plan that a program is, or why it is none. Runs nothing, but for ``--why --run``."""

from __future__ import annotations

import contextlib
import json
from typing import Any, TextIO

import click

from callgate import ConfigurationError, Runtime, SandboxError
from callgate.sandbox.choose import SANDBOXES

from .check import finding_line
from .compile_why import Program, reason_line, show_why
from .live import data_only, log_to_stderr
from .load import load_tools
from .mcp_option import listed, mcp_option, servers_from
from .options import allowed_from, inputs_from, limits_from, some_limit_options, tools_option
from .source import Source
from .words import FAILED, NO_SANDBOX, OK, Stop, emit, explain, say

__all__ = ["command"]

_LIMITS = {
    "wall_seconds": "With --run: seconds, waiting for tools and for approval included",
    "max_tool_calls": "With --run: tool calls",
    "max_concurrent_calls": "With --run: tool calls that run at the same time",
    "max_source_bytes": "Bytes of the program's source",
}


@click.command("compile", short_help="Print the plan that a program is, or why it is none.")
@click.argument("file", required=False)
@click.option("-c", "--code", metavar="CODE", help="The program itself, instead of a file.")
@tools_option
@mcp_option
@click.option("--allow", multiple=True, metavar="TOOL", help="Offer only this tool; may be repeated.")
@click.option(
    "-i", "--input", "inputs", multiple=True, metavar="NAME=JSON", help="A variable of the program; may be repeated."
)
@click.option("--json", "as_json", is_flag=True, help="Print the plan alone, as `callgate plan -` takes it.")
@click.option("--mermaid", is_flag=True, help="Print the plan as a flowchart.")
@click.option("--why", is_flag=True, help="Print all that keeps it from the fast path, and what that costs.")
@click.option("--run", "run_it", is_flag=True, help="With --why: run the program once, and go by the calls it makes.")
@click.option("--statistics", metavar="FILE", help="With --why: go by what FILE knows of how long tools take.")
@click.option("--sandbox", type=click.Choice(SANDBOXES), default="auto", help="With --run: what confines the program.")
@click.option("-y", "--yes", is_flag=True, help="With --run: approve every call of a tool that asks for approval.")
@some_limit_options(_LIMITS)
def command(**options: Any) -> int:
    """Look at a program as the fast path does: FILE, or - for stdin, or -c CODE. Needs no sandbox.

    A program that is a graph of tool calls is printed as the plan it is run as. Any other runs in the sandbox; then the
    reason is a line on stderr, file:line: construct: why not; what to write instead. With --why all reasons are, on
    stdout, and what the fast path would have saved.

    Exit codes: 0 it takes the fast path, 1 it does not, 2 usage; with --run also 3 no sandbox works here, 4 a limit was
    reached, 130 interrupted.
    """
    limits = limits_from(options)
    inputs = inputs_from(options["inputs"])
    _check_choices(options)
    source = Source.read(options["file"], options["code"])
    log_to_stderr(verbose=False)
    with data_only() as data:
        tools = load_tools(options["tool_files"])
        tools = listed(servers_from(options["mcp_file"]), tools)
        allow = allowed_from(options["allow"], tools)
        try:
            look = Runtime(tools, sandbox=None, limits=limits, statistics=options["statistics"])
            program = Program(source, look, inputs, allow)
            if _has_errors(program):
                return FAILED
            return show_why(data, program, options) if options["why"] else _show_plan(data, program, options)
        except ConfigurationError as error:
            raise Stop(str(error), "callgate compile --help shows what each option takes") from None
        except SandboxError as error:
            raise Stop(str(error), "leave --run out, or see `callgate doctor`", NO_SANDBOX) from None


def _check_choices(options: dict[str, Any]) -> None:
    if options["mermaid"] and (options["as_json"] or options["why"]):
        other = "--json" if options["as_json"] else "--why"
        raise Stop(f"{other} and --mermaid cannot both be on stdout", "leave one of them out")
    for name in ("run_it", "statistics"):
        if options[name] and not options["why"]:
            flag = "--run" if name == "run_it" else "--statistics"
            raise Stop(f"{flag} is about what the fast path would save", f"write --why {flag}, or leave {flag} out")
    if options["run_it"] and options["mcp_file"]:
        raise Stop("--run is not there for the tools of --mcp", "leave --run out; `callgate run --mcp FILE` runs it")
    if options["run_it"] and options["statistics"]:
        raise Stop("--run measures, --statistics remembers: one of them is looked at", "leave one of them out")


def _has_errors(program: Program) -> bool:
    """Say what is certain to fail: such a program is not run on either path."""
    found = program.runtime.check(program.source.code, inputs=list(program.inputs), tools=program.allow)
    errors = [finding for finding in found if finding.severity == "error"]
    for finding in errors:
        say(finding_line(program.source.name, finding), "red")
    if errors:
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        no_tools = not list(program.runtime.registry) and errors[0].code == "unknown-name"
        tip = "name the file that has the tools: --tools tools.py" if no_tools else errors[0].hint
        explain(f"the program would not be run: {errors[0]}{more}", tip)
    return bool(errors)


def _show_plan(data: TextIO, program: Program, options: dict[str, Any]) -> int:
    compiled = program.compiled()
    if compiled.plan is None:
        first = compiled.reasons[0]
        say(reason_line(program.source.name, first), "yellow")
        others = len(compiled.reasons) - 1
        more = f" (and {others} more reason{'' if others == 1 else 's'})" if others else ""
        tip = f"`callgate compile --why` {'lists them all, and ' if others else ''}says what the fast path would save"
        explain(f"line {first.line} is not certain to be part of a graph: the program runs in the sandbox{more}", tip)
        return FAILED
    if options["as_json"]:
        text = json.dumps(compiled.plan, ensure_ascii=False)
    else:
        text = compiled.explain("mermaid" if options["mermaid"] else "text")
    with contextlib.redirect_stdout(data):
        emit(text)
    return OK
