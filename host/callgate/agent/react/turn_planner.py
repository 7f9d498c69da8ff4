"""What the loop asks of a planner of turns: which request to send, what its reply means, how results go back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from callgate.agent.models.model import Message, Reply, Request, ToolReplies

__all__ = ["TurnPlanner"]


class TurnPlanner(Protocol):
    """Plans one turn after the other; keeps nothing between them."""

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The tools that the model has, by the names that it knows. It has no others."""

    @property
    def max_parallel_tool_calls(self) -> int:
        """The most calls of a turn that run at the same time; others wait."""

    def request(self, messages: Sequence[Message], context: Mapping[str, Any]) -> Request:
        """The request for the next turn.

        Args:
            messages: the conversation so far; the first is the task.
            context: what the planner may tell the model besides: ``strategic_plan`` (a JSON value).
        """

    def read(self, reply: Reply) -> Reply:
        """The reply with its calls as calls, however the model wrote them."""

    def tell(self, replies: ToolReplies) -> Message:
        """The results of the calls, as a message of the conversation."""
