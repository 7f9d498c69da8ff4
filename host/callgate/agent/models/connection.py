"""The address, key and time limits of a model's endpoint, and an SDK client made of them. Sends nothing.

An SDK is imported when a model of it is made. An address in the environment counts only where none is given; an empty
address counts as not set, since compose files leave it so.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypedDict
from urllib.parse import urlsplit

from callgate.errors import ConfigurationError
from callgate.extras import how_to_install

__all__ = [
    "MOST_PAUSE_SECONDS", "SHORTEST_SECRET", "Connection", "ConnectionOptions", "address_of", "connected", "key_of",
    "keys_of", "pause_of", "place_of", "sdk_named", "secrets_of",
]  # fmt: skip

MOST_PAUSE_SECONDS = 120.0
"""The longest pause between two attempts, as in OpenAI's SDK; Anthropic's has no bound."""
_CONNECT_SECONDS = 10.0
SHORTEST_SECRET = 8
"""Characters; a shorter text would be redacted in ordinary words."""
_KEYS = ("_API_KEY", "_AUTH_TOKEN", "_ACCESS_KEY")
"""Ends of the names of variables of the environment that hold a key."""
_PROVES = re.compile(r"auth|key|token|secret|cookie|password", re.IGNORECASE)
"""Part of the names of headers that hold a key."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Connection:
    """The address, key and time limits of a model's endpoint.

    Attributes:
        base_url: None for the environment's ``OPENAI_BASE_URL`` or ``ANTHROPIC_BASE_URL``, or the provider's own.
        api_key: None for the environment's: ``OPENAI_API_KEY``; ``ANTHROPIC_API_KEY``, or what else Anthropic's SDK
            finds there. With a `base_url` of one's own it may be missing.
        timeout_seconds: how long an attempt may be silent.
        max_retries: the SDK's own, before a reply begins, with its pauses or the endpoint's (Retry-After, up to 2
            minutes; a longer one is an error at once).
        stream_retries: how often a request is sent again whose stream broke off.
        request_seconds: for a request with all attempts; None: enough for all attempts of the SDK and their pauses.
        max_reply_bytes: of the body of one response; a longer one is not read. A stream takes some 100 bytes for each
            token.
        headers: that each request has besides (``anthropic-beta``).
    """

    base_url: str | None = None
    api_key: str | None = None
    timeout_seconds: float = 600.0
    max_retries: int = 2
    stream_retries: int = 2
    request_seconds: float | None = None
    max_reply_bytes: int = 64_000_000
    headers: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.base_url is not None and urlsplit(self.base_url).scheme not in ("http", "https"):
            raise ConfigurationError(f"base_url has to begin with http:// or https://, and is {self.base_url!r}")
        if self.timeout_seconds <= 0 or self.max_retries < 0 or self.stream_retries < 0 or self.max_reply_bytes <= 0:
            raise ConfigurationError("timeout_seconds and max_reply_bytes have to be above 0, retries at least 0")

    @property
    def whole_seconds(self) -> float:
        """The time for a request with all attempts."""
        if self.request_seconds is not None:
            return self.request_seconds
        return self.timeout_seconds * (1 + self.max_retries) + MOST_PAUSE_SECONDS * self.max_retries


class ConnectionOptions(TypedDict, total=False):
    """The arguments of a model that are its `Connection`'s."""

    base_url: str | None
    api_key: str | None
    timeout_seconds: float
    max_retries: int
    stream_retries: int
    request_seconds: float | None
    max_reply_bytes: int
    headers: Mapping[str, str]


def sdk_named(name: str) -> Any:
    """The SDK, imported together with pydantic-ai.

    Raises:
        ConfigurationError: one of them is not installed.
    """
    try:
        importlib.import_module("pydantic_ai.direct")
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ConfigurationError(f"the SDK {name} is not installed: {how_to_install('agent')}") from error


def connected(sdk: Any, make: Callable[..., Any], connection: Connection) -> Any:
    """A client of an SDK.

    Args:
        sdk: `openai` or `anthropic`.
        make: its class of asynchronous clients.
        connection: to what; on this machine over plain HTTP, no proxy is asked and no certificate loaded.
    """
    from .exchange import http_client

    seconds, address = connection.timeout_seconds, urlsplit(connection.base_url or "")
    timeout = sdk.Timeout(seconds, connect=min(seconds, _CONNECT_SECONDS))
    local = address.scheme == "http" and address.hostname in ("localhost", "127.0.0.1", "::1")
    http: dict[str, Any] = {"trust_env": False, "verify": False} if local else {}  # no TLS there
    return make(
        base_url=connection.base_url,
        api_key=connection.api_key,
        max_retries=connection.max_retries,
        timeout=timeout,
        http_client=http_client(sdk.DefaultAsyncHttpxClient, timeout=timeout, **http),
        default_headers=dict(connection.headers),
    )


def keys_of(client: Any, connection: Connection) -> tuple[str, ...]:
    """Keys and passwords that a client may send, and those in the environment; see `secrets_of`."""
    headers = [value for name, value in connection.headers.items() if _PROVES.search(name)]
    password = urlsplit(connection.base_url or "").password
    own = (getattr(client, "api_key", None), getattr(client, "auth_token", None))
    return secrets_of(connection.api_key, *own, *headers, password)


def secrets_of(*written: Any) -> tuple[str, ...]:
    """The texts among these, and the keys in the environment, the longest first. Short ones are left out: they occur in
    common words."""
    texts = [each for each in written if isinstance(each, str)]
    texts += [value for name, value in os.environ.items() if name.endswith(_KEYS)]
    found = {piece for each in texts for piece in (each.strip(), *each.split())}
    return tuple(sorted((each for each in found if len(each) >= SHORTEST_SECRET), key=lambda each: (-len(each), each)))


def place_of(client: Any) -> str:
    """The address of a client's endpoint, without user name and password; empty where unknown."""
    address = urlsplit(str(getattr(client, "base_url", "")))
    return address.scheme and f"{address.scheme}://{address.netloc.rpartition('@')[2]}{address.path}".rstrip("/")


def pause_of(headers: Any) -> float | None:
    """The pause in seconds that an endpoint asks for; None where it names none."""
    for name, divisor in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        with contextlib.suppress(TypeError, ValueError):
            seconds = float(headers.get(name)) / divisor
            if 0 <= seconds < 10**6:
                return seconds
    with contextlib.suppress(TypeError, ValueError, OverflowError):
        until = parsedate_to_datetime(headers.get("retry-after", ""))
        return max(0.0, (until.astimezone(UTC) - datetime.now(UTC)).total_seconds())
    return None


def address_of(given: str | None, variable: str, own: str) -> str:
    """The given address, or the environment's, or the provider's own.

    Args:
        given: by the caller.
        variable: of the environment.
        own: the provider's.

    Raises:
        ConfigurationError: the environment's is not an address.
    """
    address = given or os.environ.get(variable, "").strip() or own
    if urlsplit(address).scheme not in ("http", "https"):
        raise ConfigurationError(f"{variable} has to begin with http:// or https://, and is {address!r}")
    return address


def key_of(given: str | None, variable: str) -> str:
    """The given key, or the environment's, without the line break that it was read with.

    Raises:
        ConfigurationError: no header can hold it.
    """
    key = (os.environ.get(variable, "") if given is None else given).strip()
    if not (key.isascii() and key.isprintable()):
        source = variable if given is None else "api_key"
        raise ConfigurationError(f"the key in {source} has characters that no header can hold: copy it again")
    return key
