"""What a conversation asks of a model, whatever its wire: the verbs, what comes back, how it fails. Knows no SDK."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import anyio

__all__ = [
    "Asked",
    "Chat",
    "ContextExceeded",
    "ModelClient",
    "ModelFailed",
    "Patience",
    "Reply",
    "Wire",
    "arguments_of",
]

Wire = Literal["openai", "anthropic"]
"""OpenAI's Chat Completions, or Anthropic's Messages."""


class ModelFailed(Exception):
    """The model's endpoint gave nothing that a conversation can go on with; the text says what happened."""


class ContextExceeded(ModelFailed):
    """The input was longer than the model takes.

    Attributes:
        tokens: how many there were, by the endpoint's count; 0 where it does not say.
    """

    def __init__(self, message: str, tokens: int) -> None:
        super().__init__(message)
        self.tokens = tokens


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """The model calls a tool.

    Attributes:
        id: the call's, on the wire.
        name: the tool's, as the model wrote it.
        arguments: what it wrote; empty where `fault` is not.
        fault: what is wrong with how the arguments are written; empty where nothing is.
    """

    id: str
    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    fault: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """A turn of the model.

    Attributes:
        text: what it said.
        calls: the tools that it calls.
        input_tokens: of the request, by the endpoint's count, from a cache or not.
        output_tokens: of the reply, by the endpoint's count.
        refusal: why the model will not go on; empty where it will.
        cut: it was not at its end, and was cut.
    """

    text: str
    calls: tuple[Asked, ...]
    input_tokens: int
    output_tokens: int
    refusal: str = ""
    cut: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Patience:
    """How long an endpoint is waited for.

    Attributes:
        attempt_seconds: between two signs of life in one attempt; the SDK sees to it.
        request_seconds: for a request with all its attempts, even if the endpoint dribbles.
    """

    attempt_seconds: float
    request_seconds: float

    @contextmanager
    def limit(self) -> Iterator[None]:
        """Around a request. Raises `ModelFailed` when the time is up."""
        try:
            with anyio.fail_after(self.request_seconds):
                yield
        except TimeoutError as error:
            raise ModelFailed(f"no whole reply of the model within {self.request_seconds:g} s") from error


class Chat(Protocol):
    """One conversation, with all that was said in it.

    Messages go to the SDKs in their ``extra_body``: as `messages`, they would be walked through by their types in every
    turn, some 50 ms of OpenAI's SDK for 400 of them, which is time of neither the model nor the contestant.
    """

    async def ask(self) -> Reply:
        """Send what there is; the reply becomes part of it.

        Raises:
            ContextExceeded: it is too long.
            ModelFailed: any other failure, after the SDK's own attempts.
        """

    def tell(self, results: Sequence[tuple[str, str]]) -> None:
        """Add results: the id of each call of the last reply, and the text."""


class ModelClient(Protocol):
    """A model at an endpoint."""

    @property
    def name(self) -> str:
        """As the endpoint knows it."""

    def chat(self, *, system: str, task: str, tools: Sequence[dict[str, Any]], parallel: bool) -> Chat:
        """Begin a conversation; nothing is sent yet.

        Args:
            system: the system text.
            task: what the user says.
            tools: definitions: name, description, input_schema.
            parallel: whether the model may call several tools in one turn.
        """


def arguments_of(text: str) -> tuple[dict[str, Any], str]:
    """Arguments as a model wrote them, or what is wrong with them."""
    try:
        arguments = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        return {}, f"they are no JSON: {error}"
    if not isinstance(arguments, dict):
        return {}, f"they have to be a JSON object, and are {type(arguments).__name__}"
    return arguments, ""
