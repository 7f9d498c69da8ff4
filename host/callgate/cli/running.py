"""Runs the program of ``callgate run``, in the sandbox or on the fast path, with its output live."""

from __future__ import annotations

import contextlib
import json
import os
from typing import TYPE_CHECKING, Any, TextIO

from callgate import CallEnded, Displayed, Event, PlanResult, Printed, event_loop

from .files import save_or_name
from .offer import Offer
from .options import Source
from .pages import save_page
from .pictures import inline, protocol_of
from .screen import Approver, Drawing, Line, Screen, call_line
from .tips import headline, tip
from .words import Exit, OutputLost, counted, data_only, emit_json, explain, finding_line, say

if TYPE_CHECKING:
    from callgate import CodeResult, Runtime
    from callgate.runtime.replay.check import ReplayCheck
    from callgate.runtime.run_redaction import RunRedaction

__all__ = ["resume_run", "run_program"]

_REPLAY_TIP = "get what changes from run to run by a tool or an input; docs/durable.md lists what is made the same"


def run_program(source: Source, inputs: dict[str, Any], options: dict[str, Any]) -> int:
    """Run a program; returns the exit code."""
    with data_only() as data, contextlib.ExitStack() as stack:
        if options["durable"] is not None:
            from .kept_runs import refusals_told

            stack.enter_context(refusals_told(options))
        return event_loop.run(_run, Offer(options), data, source, inputs, options)


async def _run(offer: Offer, data: TextIO, source: Source, inputs: dict[str, Any], options: dict[str, Any]) -> int:
    path, verbose = options["path"], options["verbose"]
    screen = Screen(None if options["json"] else data)
    pictures = protocol_of(os.environ) if data.isatty() else None
    durable = options["durable"] is not None
    ask = None if durable and not options["yes"] else Approver(screen, yes=options["yes"], person=source.person)
    runtime = offer.runtime(
        approve=ask, pool_size=0, **({"sandbox": None} if path == "plan" else {}), **({"path": path} if durable else {})
    )

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

        replay: ReplayCheck | None = None
        how: dict[str, Any] = {
            "inputs": inputs, "tools": allow, "check": not options["no_check"], "on_event": tell,
            "files": options["file"],
        }  # fmt: skip

        async def run() -> CodeResult:
            nonlocal replay
            if options["replay_check"]:
                from callgate.runtime.replay.check import replay_check

                replay = await replay_check(runtime, source.code, **how)
                return replay.result
            if durable:
                from .kept_runs import start_and_finish

                return await start_and_finish(runtime, source, inputs, allow, options, tell)
            return await runtime.execute_code(source.code, path=path, **how)

        result = await screen.during(run)
    return _ended(result, source.name, runtime, shown, screen, data, options, replay)


async def resume_run(offer: Offer, data: TextIO, run: str, options: dict[str, Any]) -> int:
    """Go on with a run that is kept, as `run_program` runs one. Returns the exit code."""
    from .kept_runs import finish

    screen = Screen(None if options["json"] else data)
    runtime = offer.runtime(approve=Approver(screen, yes=True, person=False) if options["yes"] else None, pool_size=0)
    shown = runtime.redaction.run(runtime.registry)

    def tell(event: Event) -> None:
        if isinstance(event, Printed):
            screen.add(event.text)
        elif options["verbose"] and isinstance(event, CallEnded):
            screen.add(Line("call", call_line(shown.record(event.record)), "dim"))

    async with offer.opened(runtime, warnings=options["verbose"]):
        result = await screen.during(lambda: finish(runtime, run, options, tell))
    if isinstance(result, PlanResult):
        from .plan import report

        return report(result, data, Source(run, ""), runtime, options)
    return _ended(result, run, runtime, shown, screen, data, options)


def _ended(
    result: CodeResult,
    name: str,
    runtime: Runtime,
    shown: RunRedaction,
    screen: Screen,
    data: TextIO,
    options: dict[str, Any],
    replay: ReplayCheck | None = None,
) -> int:
    """Say how a program ended; returns the exit code."""
    if options["json"]:
        emit_json(result.to_dict() | ({} if replay is None else {"replay": replay.to_dict()}), data)
    elif result.ok:
        _show_value(result, screen)
    for finding in result.findings:
        say(finding_line(name, finding), "yellow" if finding.severity == "warning" else "red")
    for note in result.notes:
        say(f"note: {note}", "yellow")
    unsaved = save_or_name(result.artifacts, options["output_dir"])
    written = save_page(result, options)
    if options["verbose"]:
        say(_usage_line(result), "dim")
    if replay is not None and replay.again is not None:
        if screen.in_line:
            say("")
        if replay.difference is not None:
            explain(shown.text(f"the program does not do the same again: {replay.difference}"), _REPLAY_TIP)
            return Exit.FAILED
        say(f"replay: the same again: {replay.again}", "green")
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
