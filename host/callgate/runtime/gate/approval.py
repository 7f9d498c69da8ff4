"""Asks a person, or a function, for approval. Knows the question and the answers; the gate acts on them."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from callgate.errors import ApprovalDenied
from callgate.tools import Tool

from .failures import propagates

__all__ = ["Allow", "ApprovalRequest", "Approve", "Decision", "Deny", "answer_of", "denied"]

logger = logging.getLogger("callgate")


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """The question whether a call may be made."""

    tool: Tool
    arguments: dict[str, Any]
    """A copy, already validated."""
    caller: str
    """``direct``, ``code`` or ``plan``."""
    call_id: int
    """`CallRecord.id` of the call."""


@dataclass(frozen=True, slots=True)
class Allow:
    """Yes, with other arguments or another plan if given. These are validated like the first ones."""

    arguments: dict[str, Any] | None = None
    by: str = ""
    """Who allowed it, for the record and the audit log; callgate does not check it."""


@dataclass(frozen=True, slots=True)
class Deny:
    """No. The reason reaches the program, and so the model."""

    reason: str = ""
    by: str = ""
    """Who denied it: see `Allow.by`."""


Decision = Allow | Deny | bool
Approve = Callable[[ApprovalRequest], Awaitable[Decision] | Decision]


def denied(tool: Tool, answer: Deny) -> ApprovalDenied:
    """The error of a call that was denied."""
    reason = f": {answer.reason}" if answer.reason else ""
    return ApprovalDenied(f"the call of tool {tool.name!r} was denied{reason}", tool=tool.name)


async def answer_of(approve: Callable[[Any], Any], request: object, what: str) -> Allow | Deny:
    """Get the answer to a request; `what` names its subject in the log. An error while asking counts as a no, and the
    host's log has the reason."""
    try:
        answer: Any = approve(request)
        if inspect.isawaitable(answer):
            answer = await answer
    except BaseException as error:
        if await propagates(error):
            raise
        logger.exception("the approval callback failed for %s", what)
        return Deny("the approval could not be obtained")
    match answer:
        case Allow() | Deny():
            return answer
        case bool():
            return Allow() if answer else Deny()
    logger.error("the approval callback answered %r for %s, not Allow, Deny or a bool", answer, what)
    return Deny("the approval could not be obtained")
