"""A model behind OpenAI's Chat Completions, by the official SDK; the one file that imports `openai`.

Any endpoint that speaks it: OpenAI's, Ollama's, vLLM's, a gateway's.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from callgate.errors import ConfigurationError
from callgate.extras import how_to_install

from .connection import Connection, address_of, base_of, connected, key_of
from .openai_wire import OpenAIWire
from .sdk import SdkModel

__all__ = ["OpenAIModel"]

_URL = "https://api.openai.com/v1"


class OpenAIModel(SdkModel):
    """See `Model`.

    JSON of a schema is asked for with `response_format`, as ``json_schema``, and, where the endpoint refuses that, as
    ``json_object`` and in words, or in words alone. A temperature, `parallel_tool_calls`, `stream_options` or a name of
    the limit that the endpoint does not take is left out, with a warning in the log ``callgate``.

    Args:
        name: of the model, as the endpoint knows it.
        base_url: None for the environment's OPENAI_BASE_URL, or OpenAI's own.
        api_key: None for the environment's OPENAI_API_KEY. With a `base_url` of one's own it may be missing.
        timeout_seconds: how long an attempt may be silent.
        max_retries: the SDK's own, before a reply begins, with its pauses or the endpoint's (Retry-After, up to 2
            minutes; a longer one is told at once).
        stream_retries: how often a request is sent again whose reply broke off.
        request_seconds: for a request with all attempts; None: enough for all of the SDK's.
        max_reply_bytes: of one response; a longer one is no reply.
        limit_field: the request's field for the most tokens of the output; None: ``max_completion_tokens`` at OpenAI
            and Azure, ``max_tokens`` elsewhere.
        extra: fields that each request has besides (``reasoning_effort``, ``seed``).
        headers: that each request has besides.

    Raises:
        ConfigurationError: the SDK is not installed, there is no key, or an address or a key that cannot be one.
    """

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout_seconds: float = 600.0,
        max_retries: int = 2,
        stream_retries: int = 2,
        request_seconds: float | None = None,
        max_reply_bytes: int = 64_000_000,
        limit_field: str | None = None,
        extra: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        try:
            sdk: Any = importlib.import_module("openai")
        except ModuleNotFoundError as error:
            raise ConfigurationError(f"the SDK openai is not installed: {how_to_install('agent')}") from error
        address = address_of(base_url, "OPENAI_BASE_URL")
        key = key_of(api_key, "OPENAI_API_KEY")
        if not key and not address:
            raise ConfigurationError("there is no key for OpenAI: set the environment variable OPENAI_API_KEY")
        connection = Connection(
            base_url=base_of(address, "OPENAI_BASE_URL", _URL),
            api_key=key or "none",
            timeout_seconds=timeout_seconds,
            max_retries=max_retries,
            stream_retries=stream_retries,
            request_seconds=request_seconds,
            max_reply_bytes=max_reply_bytes,
            headers=headers or {},
        )
        client = connected(sdk, sdk.AsyncOpenAI, connection, address=address)
        limit = limit_field or ("max_completion_tokens" if _is_openais(address) else "max_tokens")
        super().__init__(
            sdk=sdk,
            client=client,
            create=client.chat.completions.with_streaming_response.create,
            wire=OpenAIWire(name, limit_field=limit, extra=extra or {}),
            provider="openai",
            name=name,
            connection=connection,
        )


def _is_openais(address: str) -> bool:
    host = urlsplit(address).hostname or ""
    return not address or host == "openai.com" or host.endswith((".openai.com", ".azure.com"))
