"""A model behind Anthropic's Messages, by the official SDK and pydantic-ai."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from callgate.errors import ConfigurationError

from .connection import Connection, ConnectionOptions, address_of, connected, key_of, sdk_named
from .direct import DirectModel
from .forms import Form
from .model import Request

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse

__all__ = ["AnthropicModel"]

_URL = "https://api.anthropic.com"


class AnthropicModel(DirectModel):
    """See `Model`.

    JSON of a schema is asked for with `output_config` where the schema is closed (every object lists, requires and
    bounds its fields), else with a tool that has to be called, else in words; and, where the endpoint refuses one, with
    the next. A temperature that the model does not take is left out; where a request names no limit of the output and
    the usual one is refused, 4,096 tokens are asked for; either with a warning in the log ``callgate``.

    Args:
        name: of the model, as the endpoint knows it.
        extra: fields that each request has besides (``thinking``, ``cache_control``).
        options: see `Connection`.

    Raises:
        ConfigurationError: the SDK is not installed, there is no key, or an address or a key that cannot be one.
    """

    def __init__(
        self, name: str, *, extra: Mapping[str, Any] | None = None, **options: Unpack[ConnectionOptions]
    ) -> None:
        sdk = sdk_named("anthropic")
        from pydantic_ai.profiles import ModelProfile
        from pydantic_ai.providers.anthropic import AnthropicProvider

        from .anthropic_messages import AnthropicMessages

        given = Connection(**options)
        address = address_of(given.base_url, "ANTHROPIC_BASE_URL", _URL)
        key = key_of(given.api_key, "ANTHROPIC_API_KEY") or None
        connection = replace(given, base_url=address, api_key=key)
        client = _client(sdk, connection)
        # schemas go out as the agent has them; what the model does not take is found out
        profile = ModelProfile(supports_json_schema_output=True, json_schema_transformer=None)
        super().__init__(
            AnthropicMessages(name, provider=AnthropicProvider(anthropic_client=client), profile=profile),
            provider="anthropic",
            connection=connection,
            client=client,
            http=client.close,
            settings={"extra_body": dict(extra)} if extra else {},
        )

    def _settings(self, request: Request, form: Form, without: Collection[str]) -> dict[str, Any]:
        settings = super()._settings(request, form, without)
        if request.tools and form != "tool" and all("function" not in each for each in request.tools):
            # as they are: deferred tools, marks of the cache and Anthropic's own tools have no other form
            settings["extra_body"] = {"tools": [dict(each) for each in request.tools], **settings.get("extra_body", {})}
        return settings

    def _is_whole(self, response: ModelResponse) -> bool:
        return "finish_reason" in (response.provider_details or {})


def _client(sdk: Any, connection: Connection) -> Any:
    """A client with the given key, or with the key that the SDK finds in the environment and in its profiles."""
    missing = ""
    try:
        client = connected(sdk, sdk.AsyncAnthropic, connection)
        if client.api_key or client.auth_token or getattr(client, "credentials", None):
            return client
    except sdk.AnthropicError as error:
        missing = f" ({error})"
    if connection.base_url == _URL:
        words = "there is no key for Anthropic: set the environment variable ANTHROPIC_API_KEY"
        raise ConfigurationError(words + missing)
    return connected(sdk, sdk.AsyncAnthropic, replace(connection, api_key="none"))
