"""A model behind OpenAI's Chat Completions, by the official SDK; the one file of the harness that imports `openai`."""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence
from typing import Any

from callgate.bench.model.model_client import (
    Asked,
    ContextExceeded,
    ModelFailed,
    Patience,
    Reply,
    arguments_of,
    failure,
)

__all__ = ["OpenAIModel", "client"]


def client(*, base_url: str, key: str, timeout_seconds: float, retries: int | None, loopback: bool) -> Any:
    """An `AsyncOpenAI`.

    Args:
        base_url: as the SDK takes it; empty for its default.
        key: for the API.
        timeout_seconds: for each request.
        retries: after failures that may pass; None for the SDK's default.
        loopback: it is on this machine, over plain HTTP: no proxy is asked, and no certificates are loaded.

    Raises:
        ModuleNotFoundError: the SDK is not installed.
    """
    sdk: Any = importlib.import_module("openai")
    options: dict[str, Any] = {} if retries is None else {"max_retries": retries}
    if loopback:
        options["http_client"] = sdk.DefaultAsyncHttpxClient(trust_env=False, verify=False)  # no TLS there
    made = sdk.AsyncOpenAI(base_url=base_url or None, api_key=key, timeout=timeout_seconds, **options)
    _ = made.chat.completions  # imported now, and not within the first request, whose seconds count
    return made


class OpenAIModel:
    """See `model_client.ModelClient`.

    Args:
        client: an `AsyncOpenAI`.
        name: as the endpoint knows it.
        patience: how long it is waited for.
    """

    def __init__(self, client: Any, name: str, patience: Patience) -> None:
        self.name = name
        self._client = client
        self._patience = patience

    def chat(self, *, system: str, task: str, tools: Sequence[dict[str, Any]], parallel: bool) -> _Chat:
        options: dict[str, Any] = {"model": self.name}
        if tools:
            options["tools"] = [{"type": "function", "function": _function(each)} for each in tools]
            options["parallel_tool_calls"] = parallel
        messages = [{"role": "system", "content": system}] if system else []
        return _Chat(self._client, options, [*messages, {"role": "user", "content": task}], self._patience)


class _Chat:
    def __init__(
        self, client: Any, options: dict[str, Any], messages: list[dict[str, Any]], patience: Patience
    ) -> None:
        self._sdk: Any = importlib.import_module("openai")
        self._client = client
        self._options = options
        self._messages = messages
        self._patience = patience

    async def ask(self) -> Reply:
        sent = {"extra_body": {"messages": self._messages}}  # see `model_client.Chat`
        try:
            with self._patience.limit():
                completion = await self._client.chat.completions.create(messages=(), **self._options, **sent)
        except self._sdk.APIStatusError as error:
            if error.code == "context_length_exceeded":
                raise ContextExceeded(f"the input is too long for the model: {error}", _resulted(str(error))) from error
            raise failure(self._sdk, error, self._patience) from error
        except (self._sdk.APIError, ValueError) as error:
            raise failure(self._sdk, error, self._patience) from error
        try:
            reply = _reply(completion)
            self._messages.append(_said(completion.choices[0].message))
        except (AttributeError, IndexError, TypeError, ValueError) as error:
            raise ModelFailed(f"the model's reply is no chat completion with usage: {error}") from error
        return reply

    def tell(self, results: Sequence[tuple[str, str]]) -> None:
        self._messages += [{"role": "tool", "tool_call_id": each, "content": text} for each, text in results]


def _function(definition: dict[str, Any]) -> dict[str, Any]:
    named = {"name": definition["name"], "description": definition.get("description", "")}
    return {**named, "parameters": definition["input_schema"]}


def _reply(completion: Any) -> Reply:
    choice, usage = completion.choices[0], completion.usage
    refused = choice.finish_reason == "content_filter"
    return Reply(
        text=choice.message.content or "",
        calls=tuple(_asked(each) for each in choice.message.tool_calls or ()),
        input_tokens=int(usage.prompt_tokens),
        output_tokens=int(usage.completion_tokens),
        refusal=choice.message.refusal or ("by the content filter" if refused else ""),
        cut=choice.finish_reason == "length",
    )


def _asked(call: Any) -> Asked:
    if call.type != "function":
        return Asked(id=call.id, name=str(call.type), fault="only functions can be called")
    arguments, fault = arguments_of(call.function.arguments)
    return Asked(id=call.id, name=call.function.name, arguments=arguments, fault=fault)


def _said(message: Any) -> dict[str, Any]:
    said: dict[str, Any] = {"role": "assistant", "content": message.content}
    if message.tool_calls:
        said["tool_calls"] = [each.model_dump(exclude_none=True) for each in message.tool_calls]
    return said


def _resulted(message: str) -> int:
    """The tokens that OpenAI says there were, where it does."""
    found = re.search(r"resulted in (\d+) tokens", message)
    return int(found[1]) if found else 0
