"""The protocol between an agent and a model: the request, the reply, and the errors. Knows no SDK.

1. A request holds the whole conversation, and a model keeps nothing between two requests. So a conversation can be
   written down, resumed in another process, and continued with another model.
2. Definitions of tools are in the provider's own form, as `Runtime.tool_definitions(model.provider)` gives them.
   Everything else is neutral.
3. A mistake of the model is part of its reply (`ToolCall.fault`), and the agent answers it. A mistake of the endpoint
   is raised.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from callgate.runtime.pictures import Picture, PictureReference

__all__ = [
    "NO_USAGE",
    "Assistant",
    "Delta",
    "Ended",
    "Message",
    "Model",
    "ModelProvider",
    "Reply",
    "Request",
    "ToolCall",
    "ToolReplies",
    "ToolReply",
    "Usage",
    "User",
    "arguments_of",
]

ModelProvider = Literal["openai", "anthropic"]
"""Whose form the definitions of tools have: OpenAI's Chat Completions, which every client here reads, or Anthropic's
Messages."""

Ended = Literal["answered", "calls", "cut", "refused", "empty"]
"""How a reply ended: with words, with calls of tools, at the limit of its tokens, with a refusal, with nothing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolCall:
    """A call of a tool by the model.

    Attributes:
        id: the call's, on the wire.
        name: the tool's, as the model wrote it.
        arguments: of the call; empty where there is a `fault`.
        fault: the mistake in how the arguments are written; empty for right ones.
        written: the text of faulty arguments, for the wire and the transcript; else empty.
    """

    id: str
    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    fault: str = ""
    written: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class User:
    """A text of the user, or of the agent in the user's place, with pictures."""

    text: str
    pictures: tuple[PictureReference, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Assistant:
    """A turn of the model.

    Attributes:
        text: the model's words.
        calls: the tools that the model called.
        native: the turn as the provider wants it back, JSON values, where that is more than text and calls (thinking
            with its signature); None otherwise. Only for a model of the same `provider`.
        provider: whose `native` it is; empty without.
    """

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    native: Any = None
    provider: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolReply:
    """The result of one call.

    Attributes:
        id: the call's.
        name: the tool's.
        text: for the model.
        ok: False where the call failed or was refused.
        pictures: for the model, beside the text.
    """

    id: str
    name: str
    text: str
    ok: bool = True
    pictures: tuple[PictureReference, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolReplies:
    """The results of the calls of one turn, in the order of the calls."""

    replies: tuple[ToolReply, ...]


Message = User | Assistant | ToolReplies


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """One request.

    Attributes:
        messages: the conversation, oldest first; it begins with a `User`.
        system: the system text; may be empty.
        tools: definitions in the provider's own form.
        tool_choice: ``"auto"``, ``"required"``, ``"none"``, or the name of a tool.
        parallel: whether several calls may come in one turn; None leaves it to the provider.
        max_output_tokens: of the reply; None for the model's own limit, or the provider's least surprising one.
        temperature: None for the provider's default.
        json_schema: the reply's text has to be JSON of this schema: the provider's structured output is asked for.
        pictures: those that the messages refer to, by their `sha256`. Of one that is missing the model gets a line.
    """

    messages: Sequence[Message]
    system: str = ""
    tools: Sequence[Mapping[str, Any]] = ()
    tool_choice: str = "auto"
    parallel: bool | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    json_schema: Mapping[str, Any] | None = None
    pictures: Mapping[str, Picture] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """The tokens of a request, by the endpoint's count where it counts.

    Attributes:
        input_tokens: all of the input, from a cache or not.
        output_tokens: of the reply, thinking included.
        cached_input_tokens: of the input, those that came from a cache; 0 where the endpoint does not say.
        estimated: the endpoint did not count, or not all of it: four characters were taken for a token.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    estimated: bool = False

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_input_tokens=self.cached_input_tokens + other.cached_input_tokens,
            estimated=self.estimated or other.estimated,
        )


NO_USAGE = Usage()


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """A turn of the model, as it came.

    Attributes:
        turn: what goes into the conversation.
        ended: how it ended. ``cut`` and ``refused`` may come with text; calls in a cut reply are not to be made.
        usage: what it cost.
        refusal: why the model will not go on; empty where it will.
        model: the name by which the endpoint calls the model that answered; empty where it does not say.
        attempts: requests that were sent for it, as far as is known: 1 where the first succeeded.
    """

    turn: Assistant
    ended: Ended
    usage: Usage = NO_USAGE
    refusal: str = ""
    model: str = ""
    attempts: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Delta:
    """A piece of a reply that is being written.

    Attributes:
        text: of what it says; empty where the piece is of a call.
        call: the position of the call in its turn; None for text.
        name: the tool's, with the first piece of a call.
        arguments: a piece of the JSON text of its arguments.
        restarted: the stream broke off, and the reply is written from its beginning again: forget what came before.
    """

    text: str = ""
    call: int | None = None
    name: str = ""
    arguments: str = ""
    restarted: bool = False


class Model(Protocol):
    """A model. May be asked several things at the same time. Works under asyncio and trio."""

    @property
    def name(self) -> str:
        """The name by which the endpoint knows the model."""

    @property
    def provider(self) -> ModelProvider:
        """The provider in whose form tool definitions are."""

    async def ask(self, request: Request, *, on_delta: Callable[[Delta], None] | None = None) -> Reply:
        """Send a request, and wait for the whole reply.

        Args:
            request: the whole conversation.
            on_delta: receives each piece as it comes; with it the reply is streamed. It must be quick.

        Raises:
            ModelUnavailable: the endpoint gave no whole reply, after the SDK's own attempts.
            ModelRejected: the endpoint refuses the request.
            ContextExceeded: the input is too long.
        """

    async def aclose(self) -> None:
        """Close all connections. The model cannot be asked afterwards."""


def arguments_of(text: str) -> tuple[dict[str, Any], str]:
    """Arguments as a model wrote them, and their fault, which is empty for right ones.

    Args:
        text: what should be a JSON object; empty text means no arguments.
    """
    try:
        arguments = json.loads(text or "{}", parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        return {}, f"they are not JSON: {error}"
    if not isinstance(arguments, dict):
        return {}, f"they have to be a JSON object, and are {type(arguments).__name__}"
    return arguments, ""


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
