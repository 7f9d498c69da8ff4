"""Asking the person at the terminal whether a call may be made. Without a terminal the answer is no, and says why."""

from __future__ import annotations

import json
import sys
from typing import Any

import anyio

from callgate import Allow, ApprovalRequest, Deny

from .shown import Shown
from .words import say, tame

__all__ = ["Approver", "answer_to"]


async def answer_to(question: str) -> str:
    """What the person at the terminal answers: one line, in lower case; empty at the end of stdin."""
    sys.stderr.write(tame(question))
    sys.stderr.flush()
    await anyio.wait_readable(sys.stdin)
    return sys.stdin.readline().strip().lower()


class Approver:
    """Answers for the operator.

    Args:
        everything: say yes to all (``--yes``).
        terminal: whether there is a person to ask on stdin.
        screen: its output comes first, so that the question stands below it.
    """

    def __init__(self, *, everything: bool, terminal: bool, screen: Shown[Any]) -> None:
        self._everything = everything
        self._terminal = terminal
        self._screen = screen
        self._turn = anyio.Lock()

    async def __call__(self, request: ApprovalRequest) -> Allow | Deny:
        if self._everything:
            return Allow()
        if not self._terminal:
            return Deny("there is no terminal to ask on; the operator can approve every call with --yes")
        async with self._turn:
            await self._screen.settle()
            kind = "destructive tool" if request.tool.destructive else "tool"
            arguments = json.dumps(request.arguments, ensure_ascii=False)
            who = {"code": "program", "direct": "model"}.get(request.caller, request.caller)
            say(f"The {who} wants to call the {kind} {request.tool.name} with {arguments}", "yellow")
            answer = await answer_to("Allow this call? [y/N] ")
            return Allow() if answer in ("y", "yes") else Deny("the person at the terminal said no")
