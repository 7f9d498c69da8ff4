"""Conversations with the model of a run: a real one, or a script behind an HTTP endpoint of this process.

Both are asked by the SDKs that callgate's agent uses. The script's time is simulated: an answer leaves when
`turn_seconds` and `token_seconds` for each output token have passed since the request came in, or as soon as it is
ready where that is later; the events of a stream leave one by one in that time. Refusals leave at once. Tokens are
those of a real tokenizer, OpenAI's ``o200k_base``, by `splintr`; Anthropic's is not public, so for its format, too,
these are OpenAI's. `stand_in.api` says what is counted.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from callgate import ConfigurationError
from callgate.agent import AnthropicModel, OpenAIModel
from callgate.agent.models.model import Model, ModelProvider
from callgate.extras import how_to_install
from callgate_bench.contestants.contestant import Opened, Turn
from callgate_bench.model.conversation import Conversation, Talk, converse
from callgate_bench.model.scripted_model import Playing
from callgate_bench.model.stand_in import AnthropicMessages, OpenAIChat, Script, serving
from callgate_bench.model.stand_in.checks import Refused
from callgate_bench.model.stand_in.server import KEY
from callgate_bench.workloads.workload import Call, ScriptFailed, Workload

__all__ = ["KEYS", "EndpointMissing", "RealModel", "ScriptedModel", "Tokens", "Wire", "model_at", "talking"]

Wire = ModelProvider
"""OpenAI's Chat Completions, or Anthropic's Messages."""

KEYS: dict[Wire, str] = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
"""The environment variable with the key of a real endpoint."""


class EndpointMissing(Exception):
    """The SDK or the tokenizer is not installed, or there is no key; the text says what to do."""


def model_at(wire: Wire, name: str, *, base_url: str = "", key: str = "", retries: int = 2) -> Model:
    """A model.

    Args:
        wire: whose format goes over HTTP.
        name: as its endpoint knows it.
        base_url: as the SDK takes it; empty for its default.
        key: for the API; empty for the environment's (`KEYS`).
        retries: after failures that may pass.

    Raises:
        EndpointMissing: there is no key, the SDK is not installed, or there can be no such endpoint.
    """
    key = key or os.environ.get(KEYS[wire], "")
    if not key:
        raise EndpointMissing(f"there is no key for the {wire} endpoint: set {KEYS[wire]}")
    kind: Any = AnthropicModel if wire == "anthropic" else OpenAIModel
    try:
        model: Model = kind(name, base_url=base_url or None, api_key=key, max_retries=retries, stream_retries=retries)
    except ConfigurationError as error:
        if not isinstance(error.__cause__, ModuleNotFoundError):
            raise EndpointMissing(str(error)) from error
        raise EndpointMissing(f"the SDK {wire} is not installed: {how_to_install('bench')}") from error
    return model


TOKENIZER = "o200k_base"
_KEPT = 100_000


class Tokens:
    """Counts, and remembers: a conversation sends each of its texts again with every turn.

    Raises:
        EndpointMissing: the tokenizer is not installed.
    """

    def __init__(self) -> None:
        encode = _encoder()
        self._count = functools.lru_cache(_KEPT)(lambda text: len(encode(text)))

    def __call__(self, text: str) -> int:
        """The tokens of a text. JSON may hold half of a surrogate pair, UTF-8 may not."""
        return self._count(text if text.isascii() else text.encode(errors="replace").decode())


@functools.cache
def _encoder() -> Callable[[str], list[int]]:
    try:
        splintr = importlib.import_module("splintr")
    except ModuleNotFoundError:
        how = how_to_install("bench")
        raise EndpointMissing(f"the tokenizer is not installed: pip install splintr-rs, or {how}") from None
    encoder: Callable[[str], list[int]] = splintr.Tokenizer.from_pretrained(TOKENIZER).encode_ordinary
    return encoder


FAILED = "the script cannot go on: "
"""The beginning of a conversation's reason if its script has failed."""

_MOST_TURNS = 400


@dataclass(frozen=True, kw_only=True, slots=True)
class ScriptedModel:
    """The scripted model.

    Attributes:
        turn_seconds: what it takes for a turn.
        token_seconds: and for each token that it gives.
        context_tokens: its context; more is refused.
    """

    turn_seconds: float
    token_seconds: float
    context_tokens: int = 200_000


@dataclass(frozen=True, kw_only=True, slots=True)
class RealModel:
    """A real model; its key is in the environment (`endpoint.KEYS`).

    Attributes:
        name: as its endpoint knows it.
        base_url: empty for the provider's own.
    """

    name: str
    base_url: str = ""


class _Endpoint:
    """The scripted model's endpoint: one conversation at a time.

    Raises:
        EndpointMissing: the tokenizer is not installed.
    """

    def __init__(self, wire: Wire, model: ScriptedModel) -> None:
        self._kind = AnthropicMessages if wire == "anthropic" else OpenAIChat
        self.path = self._kind.path
        self._model = model
        self._count = Tokens()
        self._conversations = 0
        self._api: AnthropicMessages | OpenAIChat = self._kind(Script())

    def begin(self, workload: Workload, opened: Opened, *, waits: bool) -> None:
        """Begin this conversation. Raises `ScriptFailed` if the workload has no script for it."""
        self._conversations += 1
        self.failure = ""
        playing = Playing(workload, opened, self._conversations)
        self._api = self._kind(playing, count=self._count, context_tokens=self._model.context_tokens)
        self._waits = waits

    def reply(self, headers: Mapping[str, str], body: dict[str, Any]) -> Any:
        """The answer, in the time that the model would take."""
        began = time.perf_counter()
        try:
            answer: Any = self._api.reply(headers, body)
        except Refused:
            raise
        except Exception as error:  # the script, or the contestant's definitions that nobody can read
            words = str(error) if isinstance(error, ScriptFailed) else f"{type(error).__name__}: {error}"
            self.failure = f"{FAILED}{words}"
            raise Refused(self.failure, status=500, kind="api_error") from error
        if not self._waits:
            return answer
        first, events = began + self._model.turn_seconds, [answer] if isinstance(answer, dict) else list(answer)
        paced = _paced(events, first, self._model.token_seconds * _output_tokens(events))
        return next(paced) if isinstance(answer, dict) else paced

    def refusal(self, refused: Refused) -> dict[str, Any]:
        """The body of a refusal, in the service's form."""
        return self._api.refusal(refused)


def _paced(events: Sequence[Any], first: float, seconds: float) -> Iterator[Any]:
    """Each event at its time: the first part of a reply at `first` on the clock, the last `seconds` later."""
    for number, event in enumerate(events, 1):
        time.sleep(max(0.0, first + seconds * number / len(events) - time.perf_counter()))
        yield event


def _output_tokens(events: Sequence[Any]) -> int:
    """Of a reply: they stand in it, or in a late event of its stream."""
    usages = [usage for each in events if isinstance(each, dict) and (usage := each.get("usage"))]
    tokens: int = usages[-1].get("completion_tokens", usages[-1].get("output_tokens"))
    return tokens


@asynccontextmanager
async def talking(wire: Wire, model: ScriptedModel | RealModel) -> AsyncIterator[Talk]:
    """What `contest.comparison.compare` holds its conversations with.

    Args:
        wire: whose format goes over HTTP.
        model: who answers.

    Raises:
        EndpointMissing: an SDK or the tokenizer is not installed, or there is no key.
    """
    with contextlib.ExitStack() as stack:
        endpoint: _Endpoint | None = None
        if isinstance(model, RealModel):
            client = model_at(wire, model.name, base_url=model.base_url)
        else:
            endpoint = _Endpoint(wire, model)
            address = stack.enter_context(serving(endpoint))
            base_url = f"{address}/v1" if wire == "openai" else address
            client = model_at(wire, "scripted", base_url=base_url, key=KEY, retries=0)

        async def talk(
            workload: Workload,
            opened: Opened,
            act: Callable[[Sequence[Call]], Awaitable[Turn]],
            hear: Callable[[str], Awaitable[Any]] | None = None,
            *,
            waits: bool,
        ) -> Conversation:
            try:
                if endpoint is not None:
                    endpoint.begin(workload, opened, waits=waits)
            except ScriptFailed as failed:
                return Conversation(reason=str(failed))
            heard = hear if opened.streams else None
            talked = await converse(
                client, task=workload.task, opened=opened, act=act, hear=heard, most_turns=_MOST_TURNS
            )
            if endpoint is not None and endpoint.failure:
                talked.reason = endpoint.failure
            return talked

        try:
            yield talk
        finally:
            await client.aclose()
