"""Asking the person at the terminal whether a plan may run, and letting that person edit it. Without a terminal: no."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import anyio

from callgate import Allow, Deny, PlanApprovalRequest, Runtime

from .approval import answer_to
from .live_view import LiveView
from .words import one_line, say

__all__ = ["PlanApprover"]


class PlanApprover:
    """Answers for the operator. A plan that was edited is checked and shown again before it runs.

    Args:
        terminal: whether there is a person to ask on stdin.
        screen: shows nothing while the question stands there.
        look: checks and explains what was edited.
        allow: the tools that the plan may call; None for all.
    """

    def __init__(self, *, terminal: bool, screen: LiveView[Any], look: Runtime, allow: list[str] | None) -> None:
        self._terminal = terminal
        self._screen = screen
        self._look = look
        self._allow = allow

    async def __call__(self, request: PlanApprovalRequest) -> Allow | Deny:
        if not self._terminal:
            return Deny("there is no terminal to ask on; without --ask the plan runs unasked")
        with self._screen.asking():
            await self._screen.settle()
            for warning in request.warnings:
                say(f"note: {one_line(str(warning))}", "yellow")
            say(request.explain())
            text = json.dumps(request.plan, ensure_ascii=False, indent=2)
            changed: dict[str, Any] | None = None
            sound = True
            while True:
                choices = "[y/N/e, e edits it]" if sound else "[N/e, e edits it again]"
                answer = await answer_to(f"Run this plan? {choices} ")
                if answer in ("e", "edit"):
                    edited = await _edited(text)
                    if edited is not None:
                        text = edited
                        changed = self._read(edited)
                        sound = changed is not None
                elif answer in ("y", "yes") and sound:
                    return Allow(changed)
                elif answer not in ("y", "yes"):
                    return Deny("the person at the terminal said no")

    def _read(self, text: str) -> dict[str, Any] | None:
        """The edited plan, which is shown; None where it has faults, which are told."""
        errors = [fault for fault in self._look.check_plan(text, tools=self._allow) if fault.severity == "error"]
        for fault in errors:
            say(f"fault: {one_line(str(fault))}", "red")
        if errors:
            return None
        try:
            plan = json.loads(text)
        except ValueError as error:  # what a plan's reader forgives
            say(f"fault: the plan is not JSON: {one_line(str(error))}", "red")
            return None
        say(self._look.explain_plan(text, tools=self._allow))
        return plan if isinstance(plan, dict) else None


async def _edited(text: str) -> str | None:
    """The text after the person has edited it; None where there is no editor, or it failed."""
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or shutil.which("nano") or shutil.which("vi")
    if not command:
        say("there is no editor: set EDITOR to the command of one", "red")
        return None
    with tempfile.TemporaryDirectory(prefix="callgate-") as folder:
        file = Path(folder) / "plan.json"
        file.write_text(f"{text}\n", encoding="utf-8")
        try:  # stdout may be a pipe; the terminal is where stdin and stderr are
            process = await anyio.open_process(
                [*shlex.split(command), str(file)], stdin=sys.stdin.fileno(), stdout=sys.stderr.fileno(), stderr=None
            )
            async with process:
                status = await process.wait()
        except (OSError, ValueError) as error:
            say(f"the editor {one_line(command)} cannot be started: {error}; set EDITOR to the command of one", "red")
            return None
        if status:
            say(f"the editor ended with exit code {status}: the plan is as it was", "red")
            return None
        try:
            return file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            say(f"what the editor left cannot be read: {error}", "red")
            return None
