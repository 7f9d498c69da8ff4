"""``callgate compile``: what the fast path makes of a program, or why it does not take it. Runs nothing."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from typing import Any, TextIO

import click

from callgate import ConfigurationError, Runtime
from callgate.program.graph.reasons import NotAGraph
from callgate.runtime.fast_path.compilation import Compilation

from .check import finding_line
from .live import data_only, log_to_stderr
from .load import load_tools
from .mcp_option import listed, mcp_option, servers_from
from .options import allowed_from, inputs_from, limits_from, some_limit_options, tools_option
from .source import Source
from .words import FAILED, OK, Stop, emit, explain, say

__all__ = ["command"]

_LIMITS = {
    "max_source_bytes": "Bytes of the program's source",
}


@click.command("compile", short_help="Print a program as a plan, or why it is none.")
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
@click.option("--why", is_flag=True, help="Print all that keeps it from the fast path.")
@some_limit_options(_LIMITS)
def command(**options: Any) -> int:
    """Look at a program as the fast path does: FILE, or - for stdin, or -c CODE. Needs no sandbox.

    A program that is a graph of tool calls is printed as a plan, or, where no plan shows it, with the reason. Any other
    runs in the sandbox; then the reason is a line on stderr, file:line: construct: why not; what to write instead. With
    --why all reasons are, on stdout.

    Exit codes: 0 it takes the fast path, 1 it does not, 2 usage, 130 interrupted.
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
            runtime = Runtime(tools, sandbox=None, limits=limits)
            if _has_errors(runtime, source, inputs, allow):
                return FAILED
            compiled = runtime.compile(source.code, inputs=inputs, tools=allow)
            show = _show_why if options["why"] else _show_plan
            return show(data, source.name, compiled, options)
        except ConfigurationError as error:
            raise Stop(str(error), "callgate compile --help shows what each option takes") from None


def _check_choices(options: dict[str, Any]) -> None:
    if options["mermaid"] and (options["as_json"] or options["why"]):
        other = "--json" if options["as_json"] else "--why"
        raise Stop(f"{other} and --mermaid cannot both be on stdout", "leave one of them out")


def _has_errors(runtime: Runtime, source: Source, inputs: dict[str, Any], allow: list[str] | None) -> bool:
    """Say what is certain to fail: such a program is not run on either path."""
    found = runtime.check(source.code, inputs=list(inputs), tools=allow)
    errors = [finding for finding in found if finding.severity == "error"]
    for finding in errors:
        say(finding_line(source.name, finding), "red")
    if errors:
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        no_tools = not list(runtime.registry) and errors[0].code == "unknown-name"
        tip = "name the file that has the tools: --tools tools.py" if no_tools else errors[0].hint
        explain(f"the program would not be run: {errors[0]}{more}", tip)
    return bool(errors)


def _show_why(data: TextIO, name: str, compiled: Compilation, options: dict[str, Any]) -> int:
    if options["as_json"]:
        reasons = [dataclasses.asdict(reason) for reason in compiled.reasons]
        text = json.dumps({"path": "sandbox" if reasons else "plan", "reasons": reasons}, ensure_ascii=False)
    else:
        text = "\n".join(_reason_line(name, reason) for reason in compiled.reasons)
    with contextlib.redirect_stdout(data):
        emit(text or "on the fast path: nothing keeps it from there")
    return FAILED if compiled.reasons else OK


def _show_plan(data: TextIO, name: str, compiled: Compilation, options: dict[str, Any]) -> int:
    if not compiled.ok:
        first = compiled.reasons[0]
        say(_reason_line(name, first), "yellow")
        others = len(compiled.reasons) - 1
        more = f" (and {others} more reason{'' if others == 1 else 's'})" if others else ""
        tip = "`callgate compile --why` lists them all" if others else ""
        explain(f"line {first.line} is not certain to be part of a graph: the program runs in the sandbox{more}", tip)
        return FAILED
    if compiled.no_plan is not None and (options["as_json"] or options["mermaid"]):
        say(_reason_line(name, compiled.no_plan), "yellow")
        explain("the program takes the fast path, and no plan shows it", "run it with callgate run")
        return OK
    if options["as_json"]:
        text = json.dumps(compiled.plan, ensure_ascii=False)
    else:
        text = compiled.explain("mermaid" if options["mermaid"] else "text")
    with contextlib.redirect_stdout(data):
        emit(text)
    return OK


def _reason_line(name: str, reason: NotAGraph) -> str:
    """A reason as compilers write theirs: ``file:line: construct: why not; what to write instead``."""
    hint = f"; {reason.hint}" if reason.hint else ""
    return f"{name}:{reason.line}: {reason.construct}: {reason.message}{hint}"
