"""The model behind a configuration's gateway. Knows which class serves which type of gateway, and where keys are."""

from __future__ import annotations

import os
from collections.abc import Mapping

from callgate.agent.models.anthropic_model import AnthropicModel
from callgate.agent.models.model import Model
from callgate.agent.models.openai_model import OpenAIModel
from callgate.errors import ConfigurationError

from .config import AgentConfig

__all__ = ["gateway_model"]


def gateway_model(config: AgentConfig, environment: Mapping[str, str] | None = None) -> Model:
    """The model that the planner's gateway names; close it (`aclose`) when it is not needed any more.

    Args:
        config: the configuration.
        environment: where the variable of `api_key_env` is looked up; None for the process's own.

    Raises:
        ConfigurationError: there is no gateway, the key is not there, or the SDK is not installed.
    """
    gateway = config.gateway
    if gateway is None:
        raise ConfigurationError(
            "the configuration has no model: write resources.inference_gateways, or name a model beside it"
        )
    asked = gateway.config
    options = asked.model_dump(include={"base_url", "timeout_seconds", "max_retries"}, exclude_none=True)
    if asked.api_key_env is not None:
        options["api_key"] = (os.environ if environment is None else environment).get(asked.api_key_env, "").strip()
        if not options["api_key"]:
            raise ConfigurationError(f"gateway {gateway.name!r}: the environment has no {asked.api_key_env} (its key)")
    return (OpenAIModel if gateway.provider == "openai" else AnthropicModel)(asked.model, **options)
