"""``callgate run``: a program, in the sandbox or on the fast path, with its output live."""

from __future__ import annotations

import contextlib
import json
import sys
import warnings
from collections.abc import Callable
from typing import Any, TextIO

import click

from callgate import CodeResult, ConfigurationError, Event, Limits, Runtime, SandboxError, event_loop
from callgate.sandbox.unsafe import UnsandboxedWarning

from .approval import Approver
from .check import finding_line
from .live import Screen, data_only, log_to_stderr
from .load import load_tools
from .mcp_option import Ask, ask_option, mcp_option, servers_from, with_servers
from .options import (
    allowed_from,
    inputs_from,
    limit_options,
    limits_from,
    policy_option,
    sandbox_from,
    sandbox_options,
    tools_option,
)
from .source import Source
from .tips import headline, tip
from .words import FAILED, LIMIT, NO_SANDBOX, OK, OutputLost, Stop, emit, explain, say

__all__ = ["command", "watch"]

PATHS = ("auto", "plan", "sandbox")


@click.command("run", short_help="Run a program.")
@click.argument("file", required=False)
@click.option("-c", "--code", metavar="CODE", help="The program itself, instead of a file.")
@tools_option
@mcp_option
@click.option("--allow", multiple=True, metavar="TOOL", help="Offer only this tool; may be repeated.")
@click.option(
    "-i", "--input", "inputs", multiple=True, metavar="NAME=JSON", help="A variable of the program; may be repeated."
)
@sandbox_options
@policy_option
@click.option(
    "--path",
    type=click.Choice(PATHS),
    default="auto",
    help="Where it runs. Default auto: as a plan on the host where it is certain to be a graph, else in the sandbox.",
)
@click.option("--no-check", is_flag=True, help="Do not look at the program before it runs.")
@ask_option
@click.option("-y", "--yes", is_flag=True, help="Approve every call of a tool that asks for approval.")
@click.option("-v", "--verbose", is_flag=True, help="Tell of every tool call, and what the run used, on stderr.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print the whole result as one JSON object, and nothing else, on stdout."
)
@limit_options
def command(**options: Any) -> int:
    """Run a program: FILE, or - for stdin, or -c CODE. It runs in the sandbox, unless it is certain to be a graph of
    tool calls: then it runs as a plan, with the same outcome (see --path).

    What it prints appears on stdout at once; its value, unless it is None, is the last line: text as it is, anything
    else as JSON. On a terminal, control characters in it are shown as escapes.

    Exit codes: 0 ok, 1 the program failed, 2 usage, 3 no sandbox works here, 4 a limit was reached, 130 interrupted.
    """
    limits = limits_from(options)
    if options["no_check"] and options["policy"] != "none":
        raise Stop("--policy is held by the check that --no-check leaves out", "leave out one of the two")
    inputs = inputs_from(options.pop("inputs"))
    sandbox = sandbox_from(options)
    source = Source.read(options.pop("file"), options.pop("code"))
    ask = options["ask"] = Ask(options["ask"], yes=options["yes"])
    log_to_stderr(options["verbose"])
    with data_only() as data:
        runtime_options = {
            "tools": ask.of(load_tools(options.pop("tool_files"))),
            **(sandbox if options["path"] != "plan" else {"sandbox": None}),
            "policy": options.pop("policy"),
            "limits": limits,
        }
        options["servers"] = servers_from(options.pop("mcp_file"), ask)
        return event_loop.run(_run, data, source, inputs, runtime_options, options)


async def _run(
    data: TextIO, source: Source, inputs: dict[str, Any], runtime_options: dict[str, Any], options: dict[str, Any]
) -> int:
    verbose, as_json = options["verbose"], options["as_json"]
    screen = Screen(None if as_json else data, calls=verbose)
    terminal = sys.stdin.isatty() and not source.from_stdin
    approver = Approver(everything=options["yes"], terminal=terminal, screen=screen)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnsandboxedWarning)
            if runtime_options["sandbox"] == "unsafe":
                say(
                    "WARNING sandbox 'unsafe': nothing confines this program, it may do whatever you may do",
                    "bold yellow",
                )
            runtime = Runtime(**runtime_options, approve=approver, pool_size=0)

            async def work() -> CodeResult:
                allow = allowed_from(options["allow"], runtime.registry)
                async with runtime:
                    if verbose and options["path"] != "plan":
                        where = "sandbox, where it is needed" if options["path"] == "auto" else "sandbox"
                        say(f"{where}: {runtime.backend.description}", "dim")
                    return await watch(
                        runtime, screen, source.code, path=options["path"],
                        inputs=inputs, tools=allow, check=not options["no_check"],
                    )  # fmt: skip

            result = await with_servers(
                options["servers"], runtime.registry, work, ask=options["ask"], warnings=verbose
            )
    except ConfigurationError as error:
        raise Stop(str(error), "callgate run --help shows what each option takes") from None
    except SandboxError as error:
        raise Stop(str(error), "`callgate doctor` says what works on this machine and what to do", NO_SANDBOX) from None
    if as_json:
        with contextlib.redirect_stdout(data):
            emit(json.dumps(result.to_dict(), ensure_ascii=False))
    return _report(result, screen, source, runtime.limits, verbose=verbose, as_json=as_json)


async def watch(
    runtime: Runtime, screen: Screen, code: str, *, told: Callable[[Event], None] | None = None, **options: Any
) -> CodeResult:
    """Run a program and show what it tells; `told` hears of it, too. Raises `OutputLost`."""

    def put(event: Event) -> None:
        screen.put(event)
        if told is not None:
            told(event)

    return await screen.during(lambda: runtime.execute_code(code, on_event=put, **options))


def _report(result: CodeResult, screen: Screen, source: Source, limits: Limits, *, verbose: bool, as_json: bool) -> int:
    if result.ok and not as_json:
        try:
            _show_value(result, screen)
        except OSError as fault:
            raise OutputLost(fault) from None
    for finding in result.findings:
        say(finding_line(source.name, finding), "yellow" if finding.severity == "warning" else "red")
    for note in result.notes:
        say(f"note: {note}", "yellow")
    if verbose:
        say(_usage_line(result), "dim")
    if result.error is None:
        return OK
    if screen.in_line:
        say("")
    if result.error.traceback:
        say(result.error.traceback.rstrip("\n"))
    explain(headline(result), tip(result, limits))
    if result.error.limit is not None:
        return LIMIT
    return NO_SANDBOX if result.error.kind == "SandboxCrashed" else FAILED


def _show_value(result: CodeResult, screen: Screen) -> None:
    if result.value_repr is not None:
        text = result.value_repr
    elif result.value is None:
        return
    else:
        text = result.value if isinstance(result.value, str) else json.dumps(result.value, ensure_ascii=False)
    start = "\n" if screen.in_line else ""
    screen.write(f"{start}{text}\n")


def _usage_line(result: CodeResult) -> str:
    used = result.usage
    parts = [
        f"{used.wall_seconds * 1000:.1f} ms",
        f"{len(result.calls)} tool call{'' if len(result.calls) == 1 else 's'}",
    ]
    if result.speculative:
        parts.append(f"{len(result.speculative)} more begun early and not reached")
    parts.append(f"path: {result.path}")
    if used.cpu_seconds is not None:
        parts.append(f"cpu {used.cpu_seconds * 1000:.1f} ms")
    if used.peak_memory_bytes is not None:
        parts.append(f"peak memory {used.peak_memory_bytes / 2**20:.1f} MiB")
    return f"used: {', '.join(parts)}"
