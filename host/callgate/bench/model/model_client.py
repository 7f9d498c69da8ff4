"""One conversation with a model: all that was said in it, and the next request. Knows no SDK.

The model is the agent's: see `callgate.agent.models.model`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from callgate.agent.models.model import Message, Model, ModelProvider, Reply, Request, ToolReplies, ToolReply, User
from callgate.errors import ModelUnavailable

__all__ = ["Chat", "Wire"]

Wire = ModelProvider
"""OpenAI's Chat Completions, or Anthropic's Messages."""


class Chat:
    """One conversation.

    Args:
        model: who is asked.
        system: the system text.
        task: what the user says.
        tools: definitions: name, description, input_schema.
        parallel: whether the model may call several tools in one turn.
    """

    def __init__(
        self, model: Model, *, system: str, task: str, tools: Sequence[dict[str, Any]], parallel: bool
    ) -> None:
        self._model = model
        self._messages: list[Message] = [User(text=task)]
        definitions = [_definition(model.provider, each) for each in tools]
        self._asked = _Asked(system, definitions, parallel if tools else None)

    async def ask(self) -> Reply:
        """Send what there is; the reply becomes part of it.

        Raises:
            ContextExceeded: it is too long.
            ModelError: any other failure, after the SDK's own attempts; or the endpoint did not count.
        """
        asked = self._asked
        request = Request(messages=self._messages, system=asked.system, tools=asked.tools, parallel=asked.parallel)
        reply = await self._model.ask(request)
        if reply.usage.estimated:
            raise ModelUnavailable("the model's endpoint gave a reply without its usage, which is what is measured")
        self._messages.append(reply.turn)
        return reply

    def tell(self, results: Sequence[tuple[str, str]]) -> None:
        """Add results: the id of each call of the last reply, and the text."""
        replies = tuple(ToolReply(id=each, name="", text=text) for each, text in results)
        self._messages.append(ToolReplies(replies=replies))


@dataclass(frozen=True, slots=True)
class _Asked:
    system: str
    tools: Sequence[dict[str, Any]]
    parallel: bool | None


def _definition(wire: Wire, definition: dict[str, Any]) -> dict[str, Any]:
    if wire == "anthropic":
        return dict(definition)
    named = {"name": definition["name"], "description": definition.get("description", "")}
    return {"type": "function", "function": {**named, "parameters": definition["input_schema"]}}
