"""Asking the client's user whether a call may be made: the question in words, who asks it, and what the answers mean.
Every answer that is not a clear yes is a no, with a reason.

1. The question shows the arguments as they are, and `[redacted]` for secrets that the tool's schema or their key names:
   a program cannot hide anything else. Escapes stand for characters that a terminal obeys, that turn the order
   of letters, or that nobody sees. JSON's quotes keep an argument's text apart from the question's own.
2. The question says how much it leaves out: at the value that is cut, and again at its end. Every argument has its
   share, so that a long one cannot push a short one out of sight.
3. How a question travels depends on the protocol: a request to the client in the middle of the call (up to 2025-11-25),
   or a pause of the call, which the client makes again with the answer (from 2026-07-28 on: `paused`).
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import anyio
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitRequestFormParams, ElicitResult
from pydantic import ValidationError

from callgate.runtime import Allow, ApprovalRequest, Deny
from callgate.runtime.gate.watching import origin
from callgate.runtime.redaction import Redaction
from callgate.tools.faults import printable

from .clients import Client, Context

__all__ = ["MAX_SHOWN", "NOT_ANSWERED", "Ask", "Elicitation", "ask_client", "asking", "in_the_middle", "question"]

logger = logging.getLogger("callgate")

NOBODY = (
    "it needs the user's approval, and this client cannot ask its user (it does not support elicitation); "
    "the operator of callgate can approve every call with --yes"
)

NOT_ANSWERED = "nobody answered in time"
MAX_SHOWN = 2_000
"""Characters of all arguments together; names and marks take a few more."""
_MOST_ARGUMENTS = 40
_MOST_NAME = 100
_LEAST = 20
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Letters and marks that Unicode calls printable, but that nobody sees."""


Ask = Callable[[ElicitRequestFormParams], Awaitable[ElicitResult | str]]
"""Puts a question to the client's user; returns the answer, or the reason why there is none."""


class Elicitation:
    """How the calls of one run are approved.

    Args:
        ask: puts a question; None if the client cannot ask its user.
        repeats: whether the user may allow further calls of a tool at once.
        redaction: what stays out of the questions.
    """

    def __init__(self, ask: Ask | None, *, repeats: bool, redaction: Redaction | None = None) -> None:
        self._ask = ask
        self._redaction = redaction or Redaction()
        self._repeats = repeats
        self._always: set[str] = set()

    @property
    def can_ask(self) -> bool:
        """Whether the client can ask its user."""
        return self._ask is not None

    async def decide(self, request: ApprovalRequest) -> Allow | Deny:
        """Ask, unless the user allowed all further calls of that tool in this run."""
        asked_by = origin.get()
        user = f"the user of {asked_by.client}" if asked_by is not None else "the user"
        if request.tool.name in self._always:
            return Allow(by=user)
        if self._ask is None:
            return Deny(NOBODY)
        try:
            asked = self._question(request)
        except RecursionError:
            return Deny("its arguments are nested too deeply to be shown to the user")
        answer = await self._ask(asked)
        if isinstance(answer, str):
            return Deny(answer)
        if answer.action != "accept":
            reason = "the user said no" if answer.action == "decline" else "the user closed the question"
            return Deny(reason, by=user)
        if self._repeats and (answer.content or {}).get("always") is True:
            self._always.add(request.tool.name)
        return Allow(by=user)

    def _question(self, request: ApprovalRequest) -> ElicitRequestFormParams:
        shown = replace(request, arguments=self._redaction.for_approval(request.tool, request.arguments))
        properties: dict[str, Any] = {}
        if self._repeats:
            properties["always"] = {
                "type": "boolean",
                "title": "Allow every further call of this tool in this run",
                "default": False,
            }
        return ElicitRequestFormParams(
            message=question(shown), requested_schema={"type": "object", "properties": properties}
        )


asking: ContextVar[Elicitation | None] = ContextVar("callgate_asking", default=None)
"""The elicitation of the run that this task works for."""


async def ask_client(request: ApprovalRequest) -> Allow | Deny:
    """Have the user of the MCP client decide: ``Runtime(tools, approve=ask_client)``.

    Denies the call if the client does not support elicitation, or if no MCP client made the call.
    """
    elicitation = asking.get()
    if elicitation is None:
        return Deny("no MCP client made this call, so there is nobody to ask")
    return await elicitation.decide(request)


def in_the_middle(context: Context, client: Client, seconds: float) -> Ask:
    """Asks with a request to the client during the client's own request (up to 2025-11-25). One question at a time; a
    client that fails to ask has not said yes."""

    async def ask(question: ElicitRequestFormParams) -> ElicitResult | str:
        async with client.asking:
            with anyio.move_on_after(seconds):
                try:
                    return await context.session.elicit_form(
                        question.message, question.requested_schema, context.request_id
                    )
                except (MCPError, ValidationError) as error:
                    logger.warning("the client could not ask its user: %s", printable(str(error)[:200]))
                    return ElicitResult(action="cancel")
        return NOT_ANSWERED

    return ask


def question(request: ApprovalRequest) -> str:
    """The question to a person before this call. Raises `RecursionError` for arguments that are nested too deeply."""
    who = {"code": "program", "direct": "model"}.get(request.caller, request.caller)
    kind = "destructive tool" if request.tool.destructive else "tool"
    shown, left_out = _arguments(request.arguments)
    warning = ""
    if left_out:
        warning = (
            f" You do not see all of it: {left_out}. If that matters, say no, and have the arguments printed "
            "before the call is made again."
        )
    return f"The {who} wants to call the {kind} {_visible(request.tool.name)} with {shown}.{warning} Allow it?"


def _arguments(arguments: dict[str, Any]) -> tuple[str, str]:
    """The arguments as text, and words for what is left out of them."""
    text = _json(arguments)
    if len(text) <= MAX_SHOWN:
        return _visible(text), ""
    listed = list(arguments.items())[:_MOST_ARGUMENTS]
    room = MAX_SHOWN
    texts: dict[str, str] = {}
    missing = 0
    for name, value in sorted(listed, key=lambda item: len(_json(item[1]))):  # short values leave room to long ones
        texts[name], used, cut = _cut(value, max(room // (len(listed) - len(texts)), _LEAST))
        room -= used
        missing += cut
    parts = [f"{_json(name[:_MOST_NAME])}: {texts[name]}" for name, _ in listed]
    more = len(arguments) - len(listed)
    left_out = [f"{missing:,} characters"] if missing else []
    if more:
        parts.append(f"[{more:,} more arguments not shown]")
        left_out.append(f"{more:,} arguments")
    return f"{{{', '.join(parts)}}}", f"{' and '.join(left_out)} are left out"


def _cut(value: Any, share: int) -> tuple[str, int, int]:
    """A value's text with its middle left out, the length of that text, and the number of missing characters."""
    text = _json(value)
    half = share // 2
    whole = value if isinstance(value, str) else text
    missing = len(whole) - 2 * half
    if len(text) <= share or missing <= 0:
        return _visible(text), len(text), 0
    first, last = whole[:half], whole[-half:]
    if isinstance(value, str):  # each piece in quotes of its own
        first, last = _json(first), _json(last)
    return f"{_visible(first)} [{missing:,} characters not shown] {_visible(last)}", share, missing


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _visible(text: str) -> str:
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode(), printable(text))
