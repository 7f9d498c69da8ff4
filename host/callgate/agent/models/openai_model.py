"""A model behind OpenAI's Chat Completions, by the official SDK and pydantic-ai.

Any endpoint that speaks it: OpenAI's, Ollama's, vLLM's, llama.cpp's, a gateway's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Unpack
from urllib.parse import urlsplit

from callgate.errors import ConfigurationError

from .connection import Connection, ConnectionOptions, address_of, connected, key_of, sdk_named
from .direct import DirectModel
from .forms import Form
from .model import Request

__all__ = ["OpenAIModel"]

_URL = "https://api.openai.com/v1"
_LIMITS = ("max_completion_tokens", "max_tokens")
"""The limit of the output by its two names: models that reason take only the first, many servers only the second."""


class OpenAIModel(DirectModel):
    """See `Model`.

    JSON of a schema is asked for with `response_format`, as ``json_schema``, and, where the endpoint refuses that, as
    ``json_object`` and in words, or in words alone. A temperature, `parallel_tool_calls`, `stream_options`, a name of
    the limit or a thought that the endpoint does not take is left out, with a warning in the log ``callgate``.

    Args:
        name: of the model, as the endpoint knows it.
        limit_field: the request's field for the most tokens of the output; None: ``max_completion_tokens`` at OpenAI
            and Azure, ``max_tokens`` elsewhere.
        extra: fields that each request has besides (``reasoning_effort``, ``seed``).
        options: see `Connection`.

    Raises:
        ConfigurationError: the SDK is not installed, there is no key, or an address or a key that cannot be one.
    """

    _dispensable = ("temperature", "parallel_tool_calls", "stream_options", *_LIMITS, "reasoning_content")
    _marks_errors = False

    def __init__(
        self,
        name: str,
        *,
        limit_field: str | None = None,
        extra: Mapping[str, Any] | None = None,
        **options: Unpack[ConnectionOptions],
    ) -> None:
        sdk = sdk_named("openai")
        from pydantic_ai.providers.openai import OpenAIProvider

        from .openai_chat import PROFILE, OpenAIChat

        given = Connection(**options)
        address = address_of(given.base_url, "OPENAI_BASE_URL", _URL)
        key = key_of(given.api_key, "OPENAI_API_KEY")
        if not key and address == _URL:
            raise ConfigurationError("there is no key for OpenAI: set the environment variable OPENAI_API_KEY")
        connection = replace(given, base_url=address, api_key=key or "none")
        client = connected(sdk, sdk.AsyncOpenAI, connection)
        self._limit_field = limit_field or _LIMITS[not _is_openais(address)]
        super().__init__(
            OpenAIChat(name, provider=OpenAIProvider(openai_client=client), profile=PROFILE),
            provider="openai",
            connection=connection,
            client=client,
            http=client.close,
            settings={"extra_body": dict(extra or {})},
        )

    def _forms(self, request: Request) -> tuple[Form, ...]:
        return ("",) if request.json_schema is None else ("json_schema", "json_object", "words")

    def _settings(self, request: Request, form: Form, without: Collection[str]) -> dict[str, Any]:
        settings = super()._settings(request, form, without)
        # both are for `openai_chat` and `conversation`
        settings["stream_options"] = "stream_options" not in without
        settings["thoughts"] = "reasoning_content" not in without
        settings.pop("max_tokens", None)
        body: dict[str, Any] = {}
        if request.max_output_tokens is not None:
            other = _LIMITS[self._limit_field == _LIMITS[0]]
            body[other if self._limit_field in without else self._limit_field] = request.max_output_tokens
        if form == "json_object":  # with the schema beside it, as llama.cpp takes it
            body["response_format"] = {"type": "json_object", "schema": dict(request.json_schema or {})}
        settings["extra_body"] = {**body, **settings["extra_body"]}
        return settings


def _is_openais(address: str) -> bool:
    host = urlsplit(address).hostname or ""
    return host == "openai.com" or host.endswith((".openai.com", ".azure.com"))
