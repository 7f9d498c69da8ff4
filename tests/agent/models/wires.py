"""Both providers' models over real HTTP, with the real SDKs, against stand-ins."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter

from callgate.agent.models.anthropic_model import AnthropicModel
from callgate.agent.models.direct import DirectModel as SdkModel
from callgate.agent.models.messages_json import reply_to_json
from callgate.agent.models.model import Delta, ModelProvider, Reply, Request, ToolReplies, ToolReply, User
from callgate.agent.models.openai_model import OpenAIModel
from callgate_bench.model.stand_in import AnthropicMessages, Call, OpenAIChat, Script, serving
from callgate_bench.model.stand_in.checks import Move, Turn
from callgate_bench.model.stand_in.faults import Fault, Faulty
from callgate_bench.model.stand_in.server import KEY

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WIRES: list[ModelProvider] = ["openai", "anthropic"]


@dataclass
class Talk:
    """A model, and the endpoint that it speaks to."""

    model: SdkModel
    endpoint: Faulty
    wire: ModelProvider
    told: list[Delta] = field(default_factory=list)

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return self.endpoint.bodies

    @property
    def client(self) -> Any:
        """The SDK's."""
        model: Any = self.model._model
        return model.client

    @property
    def said(self) -> str:
        """The text that was told since the last restart."""
        text = ""
        for delta in self.told:
            text = "" if delta.restarted else text + delta.text
        return text


def tools(wire: ModelProvider, *names: str) -> list[dict[str, Any]]:
    """Definitions of tools that take a city."""
    if wire == "anthropic":
        return [{"name": name, "description": "It is known.", "input_schema": SCHEMA} for name in names]
    functions = [{"name": name, "description": "It is known.", "parameters": SCHEMA} for name in names]
    return [{"type": "function", "function": function} for function in functions]


def asks(turn: Turn) -> Move:
    return [
        "I am looking at the weather of both.",
        Call("weather", {"city": "Rome"}),
        Call("weather", {"city": "Oslo"}),
    ]


def tells(turn: Turn) -> Move:
    return " and ".join(answer.text for answer in turn.answers)


def says(text: str) -> Callable[[Turn], Move]:
    return lambda turn: text


def request(text: str = "Where is it warmer?", **rest: Any) -> Request:
    return Request(messages=[User(text=text)], **rest)


def answered(turn: Any) -> ToolReplies:
    """Each call is answered with its city."""
    replies = [ToolReply(id=c.id, name=c.name, text=f"{c.arguments.get('city', c.fault)}: 20") for c in turn.calls]
    return ToolReplies(replies=tuple(replies))


def written_and_read(reply: Reply) -> Reply:
    """The reply as it comes back from a recording."""
    return TypeAdapter(Reply).validate_json(json.dumps(reply_to_json(reply), allow_nan=False))


@contextlib.asynccontextmanager
async def talking(
    wire: ModelProvider,
    *turns: Callable[[Turn], Move],
    faults: tuple[Fault, ...] = (),
    for_ever: bool = False,
    context_tokens: int = 0,
    **options: Any,
) -> AsyncIterator[Talk]:
    """A model at an endpoint that plays these turns."""
    api = OpenAIChat if wire == "openai" else AnthropicMessages
    endpoint = Faulty(api(Script(*turns), context_tokens=context_tokens), *faults, for_ever=for_ever)
    with serving(endpoint) as address:
        if wire == "openai":
            model: SdkModel = OpenAIModel("m", base_url=f"{address}/v1", api_key=KEY, **options)
        else:
            model = AnthropicModel("m", base_url=address, api_key=KEY, **options)
        try:
            yield Talk(model, endpoint, wire)
        finally:
            await model.aclose()
