"""What keeps a program from the fast path, and what that costs: in words, or as one JSON object."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sys
import warnings
from dataclasses import dataclass
from typing import Any, TextIO

from callgate import CodeResult, Runtime, event_loop
from callgate.plan.estimate import PlanEstimate
from callgate.program.graph.reasons import NotAGraph
from callgate.runtime.fast_path.advice import (
    Outlook,
    Savings,
    Witness,
    constants_of,
    leaves,
    named_calls,
    outlook,
    savings,
    seen_calls,
)
from callgate.runtime.fast_path.compilation import Compilation
from callgate.sandbox.unsafe import UnsandboxedWarning

from .approval import Approver
from .live import Screen
from .plan_live import duration
from .run import watch
from .source import Source
from .tips import headline, tip
from .words import FAILED, LIMIT, NO_SANDBOX, OK, emit, explain

__all__ = ["Program", "reason_line", "show_why"]

_MOST_LINES = 10
_HOW_TO_KNOW = "--run runs it once and measures, --statistics FILE goes by what earlier runs have kept there"


def reason_line(name: str, reason: NotAGraph) -> str:
    """A reason as compilers write theirs: ``file:line: construct: why not; what to write instead``."""
    hint = f"; {reason.hint}" if reason.hint else ""
    return f"{name}:{reason.line}: {reason.construct}: {reason.message}{hint}"


@dataclass(frozen=True, slots=True)
class Program:
    """The program that is looked at, and what it would be run with."""

    source: Source
    runtime: Runtime
    inputs: dict[str, Any]
    allow: list[str] | None

    def compiled(self) -> Compilation:
        """The plan that it is, or why it is none."""
        return self.runtime.compile(self.source.code, inputs=self.inputs, tools=self.allow)


def show_why(data: TextIO, program: Program, options: dict[str, Any]) -> int:
    """Print the reasons and the figures; returns the exit code."""
    compiled = program.compiled()
    told: dict[str, Any] = {
        "path": "sandbox" if compiled.plan is None else "plan",
        "reasons": [dataclasses.asdict(reason) for reason in compiled.reasons],
    }
    lines = [reason_line(program.source.name, reason) for reason in compiled.reasons]
    count = len(lines)
    lines.append(
        "on the fast path: nothing keeps it from there"
        if compiled.plan is not None
        else f"{count} thing{'' if count == 1 else 's'} keep{'s' if count == 1 else ''} it from the fast path"
    )
    result = None
    if options["run_it"]:
        result, saved = event_loop.run(_measure, program, options)
        told |= {"run": {"ok": result.ok, "path": result.path}, "savings": saved.to_dict()}
        lines += _savings_lines(saved, result)
    elif compiled.plan is not None and compiled.plan["steps"]:
        estimate = event_loop.run(_estimate, program, compiled.plan)
        told["estimate"] = estimate.to_dict()
        lines += _estimate_lines(estimate, compiled.plan)
    elif compiled.plan is None:
        seen = event_loop.run(_outlook, program)
        told["outlook"] = seen.to_dict()
        lines += _outlook_lines(seen)
    with contextlib.redirect_stdout(data):
        emit(json.dumps(told, ensure_ascii=False) if options["as_json"] else "\n".join(lines))
    if result is not None and result.error is not None:
        explain(f"{headline(result)}; the figures are of the calls before that", tip(result, program.runtime.limits))
        if result.error.limit is not None:
            return LIMIT
        return NO_SANDBOX if result.error.kind == "SandboxCrashed" else FAILED
    return OK if compiled.plan is not None else FAILED


async def _estimate(program: Program, plan: dict[str, Any]) -> PlanEstimate:
    async with program.runtime as runtime:  # what the statistics file knows is read on entering
        return runtime.estimate(plan, tools=program.allow)


async def _outlook(program: Program) -> Outlook:
    async with program.runtime as runtime:
        return outlook(named_calls(program.source.code, runtime.registry), runtime.registry.statistics)


async def _measure(program: Program, options: dict[str, Any]) -> tuple[CodeResult, Savings]:
    """Run it once, without its output, and see what its calls would have taken."""
    source, registry = program.source, program.runtime.registry
    screen = Screen(None)
    terminal = sys.stdin.isatty() and not source.from_stdin
    witness = Witness(registry)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnsandboxedWarning)
        runtime = Runtime(
            witness.registry,
            sandbox=options["sandbox"],
            limits=program.runtime.limits,
            approve=Approver(everything=options["yes"], terminal=terminal, screen=screen),
            pool_size=0,
        )
        async with runtime:
            result = await watch(
                runtime, screen, source.code, told=witness.put, inputs=program.inputs, tools=program.allow
            )
    known = constants_of(source.code) | leaves(program.inputs)
    return result, savings(seen_calls(result.calls, registry, witness.results), known)


def _savings_lines(saved: Savings, result: CodeResult) -> list[str]:
    calls = f"{saved.calls} tool call{'' if saved.calls == 1 else 's'}"
    if not saved.calls:
        return ["it made no tool call, so there is nothing to save"]
    took = duration(saved.took_seconds)
    one_by_one = duration(saved.one_by_one_seconds)
    if result.path == "plan":
        return [f"{calls} took {took} of tool wall time; one after the other: {one_by_one}"]
    lines = [
        f"{calls} took {took} of tool wall time (one after the other: {one_by_one})",
        f"at most {duration(saved.most_saved_seconds)} of that would have been saved: "
        f"on the fast path they take at least {duration(saved.at_best_seconds)}",
    ]
    if saved.found_again:
        lines.append(
            f"about {duration(saved.likely_saved_seconds)} would have been, if the {saved.found_again} of them that "
            "were given what an earlier one had found need it from there"
        )
    return lines


def _estimate_lines(estimate: PlanEstimate, plan: dict[str, Any]) -> list[str]:
    if set(estimate.unknown) < {step["tool"] for step in plan["steps"]}:
        return [estimate.for_people()]
    chain = (
        [f"longest chain: {' → '.join(estimate.critical_path)}"] if len(estimate.critical_path) <= _MOST_LINES else []
    )
    return [*chain, f"what that saves is not known: {_HOW_TO_KNOW}"]


def _outlook_lines(seen: Outlook) -> list[str]:
    if not seen.named:
        return ["it names no tool, so there is nothing to save"]
    if len(seen.unknown) == len(seen.named):
        return [f"what that costs is not known: {_HOW_TO_KNOW}"]
    places = ", ".join(f"{tool} ×{count}" if count > 1 else tool for tool, count in seen.named.items())
    least = "at least " if seen.unknown else ""
    lines = [
        f"it calls {places}: by their averages {least}{duration(seen.one_after_the_other_seconds)} one after the "
        f"other, and at best {least}{duration(seen.at_best_seconds)} on the fast path"
    ]
    if seen.unknown:
        lines.append(f"no history yet, counted as 0 s: {', '.join(seen.unknown[:_MOST_LINES])}")
    if seen.repeated:
        shown = ", ".join(map(str, seen.repeated[:_MOST_LINES]))
        lines.append(
            f"each call is counted once; those in loops and functions (line {shown}) may be made more often: --run "
            "tells"
        )
    return lines
