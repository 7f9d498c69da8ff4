"""Where models are: the scripted endpoint or a real one, with the SDK's client that all conversations share."""

from __future__ import annotations

import os
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from callgate.agent.models.anthropic_model import AnthropicModel
from callgate.agent.models.model import Model
from callgate.agent.models.openai_model import OpenAIModel
from callgate.agent.models.sdk import SdkModel
from callgate.bench.model.model_client import Wire
from callgate.bench.model.stand_in.server import KEY
from callgate.errors import ConfigurationError

__all__ = ["KEYS", "Endpoint", "EndpointMissing"]

KEYS: dict[Wire, str] = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
"""The environment variable with the key of a real endpoint."""

_RETRIES = 2
"""Both SDKs' default."""

_MODELS: dict[Wire, Callable[..., SdkModel]] = {"openai": OpenAIModel, "anthropic": AnthropicModel}


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
    """

    def __init__(
        self,
        wire: Wire,
        *,
        base_url: str,
        key: str,
        timeout_seconds: float = 600.0,
        retries: int | None = None,
    ) -> None:
        self.wire: Wire = wire
        again = _RETRIES if retries is None else retries
        self._options: dict[str, Any] = {
            "base_url": base_url or None,
            "api_key": key,
            "timeout_seconds": timeout_seconds,
            "max_retries": again,
            "stream_retries": again,
        }
        self._client: SdkModel | None = None

    @classmethod
    def scripted(cls, wire: Wire, address: str, *, timeout_seconds: float = 600.0) -> Self:
        """The scripted one, at its address; nothing is tried twice."""
        base_url = f"{address}/v1" if wire == "openai" else address
        return cls(wire, base_url=base_url, key=KEY, timeout_seconds=timeout_seconds, retries=0)

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
        """Raises `EndpointMissing` where the SDK is not installed, or there can be no such endpoint."""
        try:
            self._client = _MODELS[self.wire]("", **self._options)
        except ConfigurationError as error:
            if not isinstance(error.__cause__, ModuleNotFoundError):
                raise EndpointMissing(str(error)) from error
            raise EndpointMissing(f"the SDK {self.wire} is not installed: pip install callgate[bench]") from error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._client is not None:
            await self._client.aclose()

    def model(self, name: str) -> Model:
        """A model of this endpoint; the endpoint has to be entered."""
        assert self._client is not None, "the endpoint is not entered"
        return self._client.other(name)
