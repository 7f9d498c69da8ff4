"""``callgate check``: the faults of a program, found without running it."""

from __future__ import annotations

import dataclasses
from typing import Any

import click

from .offer import Offer
from .options import Source, inputs_from, shared
from .words import Exit, data_only, emit, emit_json, finding_line, log_to_stderr, say

__all__ = ["command"]


@click.command("check")
@click.argument("file", required=False)
@shared("code", "tools", "mcp", "allow", "input", "policy", "json")
def command(**options: Any) -> int:
    """Look at a program: FILE, or - for stdin, or -c CODE. Runs nothing and needs no sandbox.
    The servers of --mcp are started for their tools, and ended. --input NAME needs no value.

    Each finding is a line on stdout. Exit codes: 0 no errors (warnings do not count), 1 errors, 2 usage.
    """
    source = Source.read(options["file"], options["code"])
    inputs = inputs_from(options["input"], values=False)
    log_to_stderr()
    with data_only():
        offer = Offer(options)
        offer.look()
        findings = offer.runtime().check(source.code, inputs=list(inputs), tools=offer.allowed())
    if options["json"]:
        emit_json([dataclasses.asdict(finding) for finding in findings])
    else:
        for finding in findings:
            emit(finding_line(source.name, finding))
    if not findings:
        say("nothing found")
    return Exit.FAILED if any(finding.severity == "error" for finding in findings) else Exit.OK
