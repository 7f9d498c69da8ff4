"""``callgate check``: what is wrong with a program, before anything runs."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import click

from callgate import ConfigurationError, Finding, Runtime

from .live import data_only, log_to_stderr
from .load import load_tools
from .mcp_option import listed, mcp_option, servers_from
from .options import allowed_from, inputs_from, policy_option, tools_option
from .source import Source
from .words import FAILED, OK, Stop, emit, say

__all__ = ["command", "finding_line"]


def finding_line(name: str, finding: Finding) -> str:
    """A finding as compilers write theirs: ``file:line:column: severity code message``, then what to write instead."""
    place = f"{name}:{finding.line}:{finding.column}"
    return f"{place}: {finding.severity} {finding.code} {finding.message}; {finding.hint}"


@click.command("check", short_help="Look at a program without running it.")
@click.argument("file", required=False)
@click.option("-c", "--code", metavar="CODE", help="The program itself, instead of a file.")
@tools_option
@mcp_option
@click.option("--allow", multiple=True, metavar="TOOL", help="Offer only this tool; may be repeated.")
@click.option(
    "-i", "--input", "inputs", multiple=True, metavar="NAME[=JSON]", help="A variable it is given; may be repeated."
)
@policy_option
@click.option("--json", "as_json", is_flag=True, help="Print the findings as a JSON list.")
def command(**options: Any) -> int:
    """Look at a program: FILE, or - for stdin, or -c CODE. Runs nothing and needs no sandbox.
    The servers of --mcp are started for their tools, and ended.

    Each finding is a line on stdout. Exit codes: 0 no errors (warnings do not count), 1 errors, 2 usage.
    """
    source = Source.read(options["file"], options["code"])
    inputs = inputs_from(options["inputs"], values=False)
    with data_only():
        tools = load_tools(options["tool_files"])
        servers = servers_from(options["mcp_file"])
        log_to_stderr(verbose=False)
        tools = listed(servers, tools)
    allow = allowed_from(options["allow"], tools)
    try:
        runtime = Runtime(tools, policy=options["policy"])
        findings = runtime.check(source.code, inputs=list(inputs), tools=allow)
    except ConfigurationError as error:
        raise Stop(str(error), "callgate check --help shows what each option takes") from None
    if options["as_json"]:
        emit(json.dumps([dataclasses.asdict(finding) for finding in findings], ensure_ascii=False))
    else:
        for finding in findings:
            emit(finding_line(source.name, finding))
    errors = sum(finding.severity == "error" for finding in findings)
    if not findings:
        say("nothing found")
    return FAILED if errors else OK
