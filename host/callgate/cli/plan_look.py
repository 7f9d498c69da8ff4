"""Looks at a plan before it runs: its faults, its explanation, its estimate, and the question whether it may run."""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any, TextIO

import anyio

from callgate import Allow, Deny, PlanApprovalRequest, PlanFault, Runtime

from .options import Source
from .plan_places import line_and_column
from .screen import Screen, answer_to
from .words import Exit, counted, emit, emit_json, explain, one_line, say

__all__ = ["PlanApprover", "say_faults", "show_estimate", "show_explanation", "show_faults"]


def _placed(source: Source, faults: list[PlanFault]) -> list[tuple[tuple[int, int] | None, PlanFault]]:
    placed = [(line_and_column(source.code, fault.place), fault) for fault in faults]
    return sorted(placed, key=lambda each: each[0] or (0, 0))


def _fault_lines(source: Source, faults: list[PlanFault]) -> list[tuple[str, PlanFault]]:
    """Faults as compilers write theirs, in the text's order: ``file:line:column: severity code message; hint``."""
    return [
        (f"{source.name}{':{}:{}'.format(*place) if place else ''}: {fault.severity} {fault.code} {fault}", fault)
        for place, fault in _placed(source, faults)
    ]


def say_faults(source: Source, faults: list[PlanFault]) -> None:
    """Print the faults on stderr, a line each."""
    for line, fault in _fault_lines(source, faults):
        say(line, "yellow" if fault.severity == "warning" else "red")


def show_faults(data: TextIO, source: Source, faults: list[PlanFault], as_json: bool) -> int:
    """``--check``: print the faults on stdout."""
    if as_json:
        entries = []
        for place, fault in _placed(source, faults):
            line, column = place or (None, None)
            entries.append({**dataclasses.asdict(fault), "line": line, "column": column})
        emit_json(entries, data)
    else:
        for text, _ in _fault_lines(source, faults):
            emit(text, data)
    if not faults:
        say("nothing found")
    return Exit.FAILED if any(fault.severity == "error" for fault in faults) else Exit.OK


def show_explanation(data: TextIO, look: Runtime, source: Source, form: Any, allow: list[str] | None) -> int:
    """``--explain``: print what the plan would do."""
    if _cannot(look, source, allow, "explained"):
        return Exit.FAILED
    emit(look.explain_plan(source.code, form, tools=allow, redaction=look.redactor()), data)
    return Exit.OK


async def show_estimate(data: TextIO, look: Runtime, source: Source, as_json: bool, allow: list[str] | None) -> int:
    """``--estimate``: print how long the plan would take, by the statistics of its tools."""
    if _cannot(look, source, allow, "estimated"):
        return Exit.FAILED
    async with look:  # which reads the file of statistics
        estimate = look.estimate(source.code, tools=allow)
    if as_json:
        emit_json(estimate.to_dict(), data)
    else:
        emit(estimate.for_people(), data)
    return Exit.OK


def _cannot(look: Runtime, source: Source, allow: list[str] | None, what: str) -> bool:
    """Print the plan's faults; true if there are errors among them."""
    faults = look.check_plan(source.code, tools=allow)
    say_faults(source, faults)
    errors = [fault for fault in faults if fault.severity == "error"]
    if errors:
        tip = errors[0].hint or "correct what is named above"
        explain(f"the plan cannot be {what}: it has {counted(len(errors), 'fault')}", tip)
    return bool(errors)


class PlanApprover:
    """Asks the person at the terminal whether a plan may run, or to edit it. Without a terminal it says no.

    Args:
        person: whether a person can be asked on stdin.
        screen: shows nothing while the question waits.
        look: checks and explains an edited plan.
        allow: the tools that the plan may call; None for all.
    """

    def __init__(self, *, person: bool, screen: Screen, look: Runtime, allow: list[str] | None) -> None:
        self._person = person
        self._screen = screen
        self._look = look
        self._allow = allow

    async def __call__(self, request: PlanApprovalRequest) -> Allow | Deny:
        if not self._person:
            return Deny("there is no terminal to ask on; without --ask the plan runs unasked")
        async with self._screen.asking():
            for warning in request.warnings:
                say(f"note: {one_line(str(warning))}", "yellow")
            say(request.explain(redaction=self._look.redactor()))
            text = json.dumps(request.plan, ensure_ascii=False, indent=2)
            changed: dict[str, Any] | None = None
            sound = True
            while True:
                choices = "[y/N/e, e edits it]" if sound else "[N/e, e edits it again]"
                answer = await answer_to(f"Run this plan? {choices} ")
                if answer in ("e", "edit"):
                    edited = await _edited(text)
                    if edited is not None:
                        text, changed = edited, self._read(edited)
                        sound = changed is not None
                elif answer in ("y", "yes") and sound:
                    return Allow(changed)
                elif answer not in ("y", "yes"):
                    return Deny("the person at the terminal said no")

    def _read(self, text: str) -> dict[str, Any] | None:
        """Read the edited plan, and show it; None if it has faults, which are printed."""
        faults = [str(each) for each in self._look.check_plan(text, tools=self._allow) if each.severity == "error"]
        plan = None
        try:
            plan = json.loads(text)
        except ValueError as error:  # which a plan's reader may forgive
            faults = faults or [f"the plan is not JSON: {error}"]
        for fault in faults:
            say(f"fault: {one_line(fault)}", "red")
        if not faults:
            say(self._look.explain_plan(text, tools=self._allow, redaction=self._look.redactor()))
        return plan if isinstance(plan, dict) and not faults else None


async def _edited(text: str) -> str | None:
    """Let the person edit `text`; returns the new text, or None without an editor or if the editor failed."""
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or shutil.which("nano") or shutil.which("vi")
    if not command:
        say("there is no editor: set EDITOR to the command of one", "red")
        return None
    with tempfile.TemporaryDirectory(prefix="callgate-") as folder:
        file = Path(folder) / "plan.json"
        file.write_text(f"{text}\n", encoding="utf-8")
        try:  # stdout may be a pipe; stdin and stderr are the terminal
            done = await anyio.run_process(
                [*shlex.split(command), str(file)], stdin=sys.stdin.fileno(), stdout=sys.stderr.fileno(), stderr=None,
                check=False,
            )  # fmt: skip
            if not done.returncode:
                return file.read_text(encoding="utf-8")
            say(f"the editor ended with exit code {done.returncode}: the plan is as it was", "red")
        except UnicodeDecodeError as error:
            say(f"what the editor left cannot be read: {error}", "red")
        except (OSError, ValueError) as error:
            say(f"the editor {one_line(command)} cannot be started: {error}; set EDITOR to the command of one", "red")
    return None
