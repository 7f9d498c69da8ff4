"""Where a model is, and how it is waited for; a client of its SDK, made of that. Sends nothing.

It is given the SDK and imports none. An address of the environment counts only where none is given; one that is set to
nothing counts as not set, as a compose file leaves it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from callgate.errors import ConfigurationError

__all__ = ["Connection", "address_of", "base_of", "connected", "is_loopback", "key_of", "pause_of"]

_PAUSE_SECONDS = 120.0
"""The longest pause between two attempts that is waited for, as OpenAI's SDK has it; Anthropic's has no bound."""
_CONNECT_SECONDS = 10.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Connection:
    """Where a model is, and how it is waited for.

    Attributes:
        base_url: as the SDK takes it; None for its default and environment.
        api_key: None for the SDK's environment.
        timeout_seconds: between two signs of life in one attempt.
        max_retries: the SDK's, after failures that pass, before a reply begins.
        stream_retries: after replies that broke off.
        request_seconds: for a request with all attempts; None: enough for all of the SDK's, and their pauses.
        max_reply_bytes: of the body of one response; a stream takes some 100 bytes for each token.
        headers: that each request has besides.
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
        """For a request with all attempts."""
        if self.request_seconds is not None:
            return self.request_seconds
        return self.timeout_seconds * (1 + self.max_retries) + _PAUSE_SECONDS * self.max_retries


def connected(sdk: Any, make: Callable[..., Any], connection: Connection, *, address: str) -> Any:
    """A client.

    Args:
        sdk: `openai` or `anthropic`.
        make: its class of asynchronous clients.
        connection: to what.
        address: where that is, if known: on this machine over plain HTTP, no proxy is asked and no certificate loaded.
    """
    seconds = connection.timeout_seconds
    timeout = sdk.Timeout(seconds, connect=min(seconds, _CONNECT_SECONDS))
    http: dict[str, Any] = {"timeout": timeout, "event_hooks": {"response": [_wait_no_longer]}}
    if is_loopback(address) and address.startswith("http:"):
        http |= {"trust_env": False, "verify": False}  # no TLS there
    options: dict[str, Any] = {"timeout": timeout, "http_client": sdk.DefaultAsyncHttpxClient(**http)}
    if connection.headers:
        options["default_headers"] = dict(connection.headers)
    key = connection.api_key
    return make(base_url=connection.base_url, api_key=key, max_retries=connection.max_retries, **options)


async def _wait_no_longer(response: Any) -> None:
    """A longer pause is told, not waited for: both SDKs go by this header."""
    if (pause_of(response.headers) or 0) > _PAUSE_SECONDS:
        response.headers["x-should-retry"] = "false"


def pause_of(headers: Any) -> float | None:
    """The seconds for which an endpoint asks to be left alone; None where it does not say."""
    for name, divisor in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        with contextlib.suppress(TypeError, ValueError):
            seconds = float(headers.get(name)) / divisor
            if 0 <= seconds < 10**6:
                return seconds
    with contextlib.suppress(TypeError, ValueError, OverflowError):
        until = parsedate_to_datetime(headers.get("retry-after", ""))
        return max(0.0, (until.astimezone(UTC) - datetime.now(UTC)).total_seconds())
    return None


def is_loopback(address: str) -> bool:
    """Whether a URL is of this machine."""
    host = urlsplit(address).hostname or ""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def address_of(given: str | None, variable: str) -> str:
    """The address that is given, or that the environment has; empty for the provider's own.

    Args:
        given: by the caller.
        variable: of the environment.

    Raises:
        ConfigurationError: the environment's is no address.
    """
    if given is not None:
        return given
    address = os.environ.get(variable, "").strip()
    if address and urlsplit(address).scheme not in ("http", "https"):
        raise ConfigurationError(f"{variable} has to begin with http:// or https://, and is {address!r}")
    return address


def base_of(address: str, variable: str, own: str) -> str | None:
    """The address for the SDK; None where it may find its own. It would take a variable that is empty for an address.

    Args:
        address: as `address_of` has it.
        variable: of the environment.
        own: the provider's.
    """
    return address or (own if variable in os.environ else None)


def key_of(given: str | None, variable: str) -> str:
    """The key that is given, or that the environment has, without the end of the line that it was read with.

    Raises:
        ConfigurationError: no header can hold it.
    """
    key = (os.environ.get(variable, "") if given is None else given).strip()
    if not (key.isascii() and key.isprintable()):
        source = variable if given is None else "api_key"
        raise ConfigurationError(f"the key in {source} has characters that no header can hold: copy it again")
    return key
