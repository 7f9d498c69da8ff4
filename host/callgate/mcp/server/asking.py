"""Asking the client's user whether a call may be made. Knows who asks, and what the answers mean; the words are
`wording`'s. How they travel depends on the protocol: a request to the client in the middle of the call (up to
2025-11-25), or a pause of the call, which the client makes again with the answer (from 2026-07-28 on).

Whatever is no clear yes is a no, and says why.
"""

from __future__ import annotations

import logging
from contextvars import ContextVar
from typing import Any, Protocol

import anyio
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitRequestFormParams, ElicitResult
from pydantic import ValidationError

from callgate.runtime import Allow, ApprovalRequest, Deny

from .clients import Client, Context
from .wording import question

__all__ = ["NOBODY", "NOT_ANSWERED", "Asker", "Elicitation", "InTheMiddle", "ask_client", "asking"]

logger = logging.getLogger("callgate")

NOBODY = (
    "it needs the user's approval, and this client cannot ask its user (it does not support elicitation); "
    "the operator of callgate can approve every call with --yes"
)

NOT_ANSWERED = "nobody answered in time"


class Asker(Protocol):
    """Puts a question to the client's user; gives the answer, or says why there is none."""

    async def ask(self, question: ElicitRequestFormParams) -> ElicitResult | str: ...


class Elicitation:
    """How the calls of one run are approved.

    Args:
        asker: how a question travels; None where the client cannot ask.
        repeats: whether the user may allow further calls of a tool at once.
    """

    def __init__(self, asker: Asker | None, *, repeats: bool) -> None:
        self._asker = asker
        self._repeats = repeats
        self._always: set[str] = set()

    async def decide(self, request: ApprovalRequest) -> Allow | Deny:
        """Ask, unless the user allowed all calls of that tool in this run."""
        if request.tool.name in self._always:
            return Allow()
        if self._asker is None:
            return Deny(NOBODY)
        try:
            asked = self._question(request)
        except RecursionError:
            return Deny("its arguments are nested too deeply to be shown to the user")
        answer = await self._asker.ask(asked)
        if isinstance(answer, str):
            return Deny(answer)
        if answer.action != "accept":
            return Deny("the user said no" if answer.action == "decline" else "the user closed the question")
        if self._repeats and (answer.content or {}).get("always") is True:
            self._always.add(request.tool.name)
        return Allow()

    def _question(self, request: ApprovalRequest) -> ElicitRequestFormParams:
        properties: dict[str, Any] = {}
        if self._repeats:
            properties["always"] = {
                "type": "boolean",
                "title": "Allow every further call of this tool in this run",
                "default": False,
            }
        return ElicitRequestFormParams(
            message=question(request), requested_schema={"type": "object", "properties": properties}
        )


asking: ContextVar[Elicitation | None] = ContextVar("callgate_asking", default=None)
"""How the calls of the run that this task works for are approved."""


async def ask_client(request: ApprovalRequest) -> Allow | Deny:
    """Have the user of the MCP client decide: ``Runtime(tools, approve=ask_client)``.

    Asks by elicitation where the client supports it; denies where it does not, and where no client made the call.
    """
    elicitation = asking.get()
    if elicitation is None:
        return Deny("no MCP client made this call, so there is nobody to ask")
    return await elicitation.decide(request)


class InTheMiddle:
    """Asks with a request to the client while its own request is going on (up to 2025-11-25)."""

    def __init__(self, context: Context, client: Client, seconds: float) -> None:
        self._context = context
        self._client = client
        self._seconds = seconds

    async def ask(self, question: ElicitRequestFormParams) -> ElicitResult | str:
        """One question at a time; a client that fails at asking has not said yes."""
        async with self._client.asking:
            with anyio.move_on_after(self._seconds):
                try:
                    return await self._context.session.elicit_form(
                        question.message, question.requested_schema, self._context.request_id
                    )
                except (MCPError, ValidationError) as error:
                    logger.warning("the client could not ask its user: %s", error)
                    return ElicitResult(action="cancel")
        return NOT_ANSWERED
