"""A model behind an endpoint: the scripted one's or a real one's, by the SDKs that callgate's agent uses."""

from __future__ import annotations

import os
from typing import Any

from callgate import ConfigurationError
from callgate.agent import AnthropicModel, OpenAIModel
from callgate.agent.models.model import Model, ModelProvider
from callgate.extras import how_to_install

__all__ = ["KEYS", "EndpointMissing", "Wire", "model_at"]

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
