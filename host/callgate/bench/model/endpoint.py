"""Where models are: the scripted endpoint or a real one, with the SDK's client that all conversations share."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any, Self

from callgate.bench.model import anthropic_model, openai_model
from callgate.bench.model.model_client import ModelClient, Patience, Wire
from callgate.bench.model.sdk import Connection
from callgate.bench.model.stand_in.server import KEY

__all__ = ["KEYS", "Endpoint", "EndpointMissing"]

KEYS: dict[Wire, str] = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
"""The environment variable with the key of a real endpoint."""

_RETRIES = 2
"""Both SDKs' default."""
_PAUSE_SECONDS = 60.0
"""The longest that they wait between attempts, when the endpoint asks for it."""

_SDKS = {"openai": openai_model.client, "anthropic": anthropic_model.client}


class EndpointMissing(Exception):
    """The SDK is not installed, or there is no key; the text says what to do."""


class Endpoint:
    """An endpoint of a wire; on entering, the SDK's client is made. Works on asyncio and trio, as the SDKs do.

    Args:
        wire: whose format goes over HTTP.
        base_url: as that SDK takes it; empty for its default.
        key: for the API.
        timeout_seconds: what an attempt may take without a sign of life.
        retries: after failures that may pass; None for the SDK's default.
        loopback: it is on this machine, over plain HTTP: no proxy is asked, and no certificates are loaded.
    """

    def __init__(
        self,
        wire: Wire,
        *,
        base_url: str,
        key: str,
        timeout_seconds: float = 600.0,
        retries: int | None = None,
        loopback: bool = False,
    ) -> None:
        self.wire: Wire = wire
        again = _RETRIES if retries is None else retries
        self._patience = Patience(
            attempt_seconds=timeout_seconds, request_seconds=timeout_seconds * (1 + again) + _PAUSE_SECONDS * again
        )
        self._connection = Connection(
            base_url=base_url, key=key, timeout_seconds=timeout_seconds, retries=retries, loopback=loopback
        )
        self._client: Any = None

    @classmethod
    def scripted(cls, wire: Wire, address: str, *, timeout_seconds: float = 600.0) -> Self:
        """The scripted one, at its address; nothing is tried twice."""
        base_url = f"{address}/v1" if wire == "openai" else address
        return cls(wire, base_url=base_url, key=KEY, timeout_seconds=timeout_seconds, retries=0, loopback=True)

    @classmethod
    def real(cls, wire: Wire, *, base_url: str = "", timeout_seconds: float = 600.0) -> Self:
        """A real one, with the key from the environment (`KEYS`).

        Raises:
            EndpointMissing: there is no key.
        """
        key = os.environ.get(KEYS[wire], "")
        if not key:
            raise EndpointMissing(f"there is no key for the {wire} endpoint: set {KEYS[wire]}")
        return cls(wire, base_url=base_url, key=key, timeout_seconds=timeout_seconds)

    async def __aenter__(self) -> Self:
        """Raises `EndpointMissing` where the SDK is not installed."""
        try:
            self._client = _SDKS[self.wire](self._connection)
        except ModuleNotFoundError as error:
            raise EndpointMissing(f"the SDK {self.wire} is not installed: pip install callgate[bench]") from error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.close()

    def model(self, name: str) -> ModelClient:
        """A model of this endpoint; the endpoint has to be entered."""
        if self.wire == "openai":
            return openai_model.OpenAIModel(self._client, name, self._patience)
        return anthropic_model.AnthropicModel(self._client, name, self._patience)
