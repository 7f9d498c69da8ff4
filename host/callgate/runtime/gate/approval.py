"""Asks a person, or a function, for approval. Knows the question and the answers; the gate acts on them."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from callgate.errors import ToolNotAllowed
from callgate.tools import Tool

from .failures import propagates

__all__ = ["Allow", "ApprovalRequest", "Approve", "Decision", "Deny", "answer_of", "ask"]

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


@dataclass(frozen=True, slots=True)
class Deny:
    """No. The reason reaches the program, and so the model."""

    reason: str = ""


Decision = Allow | Deny | bool
Approve = Callable[[ApprovalRequest], Awaitable[Decision] | Decision]


async def ask(approve: Approve, request: ApprovalRequest) -> dict[str, Any] | None:
    """Ask for approval. An error while asking counts as a no, and the host's log has the reason.

    Returns:
        The arguments that replace the given ones, if the answer has any.

    Raises:
        ToolNotAllowed: the call was denied.
    """
    answer = await answer_of(approve, request, f"tool {request.tool.name!r}")
    if isinstance(answer, Deny):
        reason = f": {answer.reason}" if answer.reason else ""
        name = request.tool.name
        raise ToolNotAllowed(f"the call of tool {name!r} was denied{reason}", tool=name)
    return answer.arguments


async def answer_of(approve: Callable[[Any], Any], request: object, what: str) -> Allow | Deny:
    """Get the answer to a request; `what` names its subject in the log."""
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
