"""Runs the program of ``callgate run``, in the sandbox or on the fast path, with its output live."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, TextIO

from callgate import CallEnded, Displayed, Event, Printed, event_loop

from .files import save_or_name
from .offer import Offer
from .options import Source
from .pages import save_page
from .pictures import inline, protocol_of
from .screen import Approver, Drawing, Line, Screen, call_line
from .tips import headline, tip
from .words import Exit, OutputLost, counted, data_only, emit_json, explain, finding_line, say

if TYPE_CHECKING:
    from callgate import CodeResult

__all__ = ["run_program"]


def run_program(source: Source, inputs: dict[str, Any], options: dict[str, Any]) -> int:
    """Run a program; returns the exit code."""
    with data_only() as data:
        return event_loop.run(_run, Offer(options), data, source, inputs, options)


async def _run(offer: Offer, data: TextIO, source: Source, inputs: dict[str, Any], options: dict[str, Any]) -> int:
    path, verbose = options["path"], options["verbose"]
    screen = Screen(None if options["json"] else data)
    pictures = protocol_of(os.environ) if data.isatty() else None
    runtime = offer.runtime(
        approve=Approver(screen, yes=options["yes"], person=source.person), pool_size=0,
        **({"sandbox": None} if path == "plan" else {}),
    )  # fmt: skip

    shown = runtime.redaction.run(runtime.registry)

    def tell(event: Event) -> None:
        if isinstance(event, Printed):
            screen.add(event.text)
        elif isinstance(event, Displayed):
            if pictures is not None and (drawn := inline(event.artifact, pictures)):
                screen.add(Drawing(drawn))
        elif verbose and isinstance(event, CallEnded):
            screen.add(Line("call", call_line(shown.record(event.record)), "dim"))

    async with offer.opened(runtime, warnings=verbose):
        allow = offer.allowed()
        if verbose and path != "plan":
            where = "sandbox, where it is needed" if path == "auto" else "sandbox"
            say(f"{where}: {runtime.backend.description}", "dim")
        result = await screen.during(
            lambda: runtime.execute_code(
                source.code,
                inputs=inputs,
                tools=allow,
                check=not options["no_check"],
                path=path,
                on_event=tell,
                files=options["file"],
            )
        )
    if options["json"]:
        emit_json(result.to_dict(), data)
    elif result.ok:
        _show_value(result, screen)
    for finding in result.findings:
        say(finding_line(source.name, finding), "yellow" if finding.severity == "warning" else "red")
    for note in result.notes:
        say(f"note: {note}", "yellow")
    unsaved = save_or_name(result.artifacts, options["output_dir"])
    written = save_page(result, options)
    if verbose:
        say(_usage_line(result), "dim")
    if unsaved:
        explain(unsaved, "make room, or name another folder with --output-dir")
    if result.error is None:
        return Exit.FAILED if unsaved or not written else Exit.OK
    if screen.in_line:
        say("")
    shown.learn(result.calls)
    if result.error.traceback:
        say(shown.text(result.error.traceback.rstrip("\n")))
    explain(shown.text(headline(result)), tip(result, runtime.limits))
    if result.error.limit is not None:
        return Exit.LIMIT
    return Exit.NO_SANDBOX if result.error.kind == "SandboxCrashed" else Exit.FAILED


def _show_value(result: CodeResult, screen: Screen) -> None:
    text = result.value_repr
    if text is None and result.value is None:
        return
    if text is None:
        text = result.value if isinstance(result.value, str) else json.dumps(result.value, ensure_ascii=False)
    try:
        screen.write("\n" * screen.in_line + f"{text}\n")
    except OSError as fault:
        raise OutputLost(fault) from None


def _usage_line(result: CodeResult) -> str:
    used = result.usage
    parts = [f"{used.wall_seconds * 1000:.1f} ms", counted(len(result.calls), "tool call")]
    if result.speculative:
        parts.append(f"{len(result.speculative)} more begun early and not reached")
    parts.append(f"path: {result.path}")
    if used.cpu_seconds is not None:
        parts.append(f"cpu {used.cpu_seconds * 1000:.1f} ms")
    if used.peak_memory_bytes is not None:
        parts.append(f"peak memory {used.peak_memory_bytes / 2**20:.1f} MiB")
    return f"used: {', '.join(parts)}"
