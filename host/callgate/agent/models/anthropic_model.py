"""A model behind Anthropic's Messages, by the official SDK; the one file that imports `anthropic`."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from callgate.errors import ConfigurationError
from callgate.extras import how_to_install

from .anthropic_wire import AnthropicWire
from .connection import Connection, address_of, base_of, connected, key_of
from .sdk import SdkModel

__all__ = ["AnthropicModel"]

_URL = "https://api.anthropic.com"


class AnthropicModel(SdkModel):
    """See `Model`.

    JSON of a schema is asked for with `output_config` where the schema is closed (every object lists, requires and
    bounds its fields), else with a tool that has to be called, else in words; and, where the endpoint refuses one, with
    the next. A temperature that the model does not take is left out; where a request names no limit of the output and
    16,000 tokens are too many, 4,096 are asked for; either with a warning in the log ``callgate``.

    Args:
        name: of the model, as the endpoint knows it.
        base_url: None for the environment's ANTHROPIC_BASE_URL, or Anthropic's own.
        api_key: None for the environment's: ANTHROPIC_API_KEY, or what else the SDK finds there. With a `base_url` of
            one's own it may be missing.
        timeout_seconds: how long an attempt may be silent.
        max_retries: the SDK's own, before a reply begins, with its pauses or the endpoint's (Retry-After, up to 2
            minutes; a longer one is told at once).
        stream_retries: how often a request is sent again whose reply broke off.
        request_seconds: for a request with all attempts; None: enough for all of the SDK's.
        max_reply_bytes: of one response; a longer one is no reply.
        extra: fields that each request has besides (``thinking``, ``cache_control``).
        headers: that each request has besides (``anthropic-beta``).

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
        extra: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        try:
            sdk: Any = importlib.import_module("anthropic")
        except ModuleNotFoundError as error:
            raise ConfigurationError(f"the SDK anthropic is not installed: {how_to_install('agent')}") from error
        address = address_of(base_url, "ANTHROPIC_BASE_URL")
        connection = Connection(
            base_url=base_of(address, "ANTHROPIC_BASE_URL", _URL),
            api_key=key_of(api_key, "ANTHROPIC_API_KEY") or None,
            timeout_seconds=timeout_seconds,
            max_retries=max_retries,
            stream_retries=stream_retries,
            request_seconds=request_seconds,
            max_reply_bytes=max_reply_bytes,
            headers=headers or {},
        )
        client = _client(sdk, connection, address)
        super().__init__(
            sdk=sdk,
            client=client,
            create=client.messages.with_streaming_response.create,
            wire=AnthropicWire(name, extra=extra or {}),
            provider="anthropic",
            name=name,
            connection=connection,
        )


_NONE = "none is set"


def _client(sdk: Any, connection: Connection, address: str) -> Any:
    """With the key that is given, or with what the SDK finds in the environment and in its profiles."""
    try:
        client = connected(sdk, sdk.AsyncAnthropic, connection, address=address)
        missing = "" if client.api_key or client.auth_token or getattr(client, "credentials", None) else _NONE
    except sdk.AnthropicError as error:
        missing = str(error)
    if not missing:
        return client
    if not address:
        also = "" if missing == _NONE else f" ({missing})"
        raise ConfigurationError(f"there is no key for Anthropic: set the environment variable ANTHROPIC_API_KEY{also}")
    return connected(sdk, sdk.AsyncAnthropic, replace(connection, api_key="none"), address=address)
