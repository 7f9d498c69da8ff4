"""What tool planning may be told: times, retries, how much at once, caches, thresholds. Values and their bounds; it
decides nothing.

`PlannerSettings.from_environment` reads the variables of the tool planning engine, in their units.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic.dataclasses import dataclass

from callgate.errors import ConfigurationError
from callgate.tools import Retry

__all__ = ["LONGEST_SECONDS", "Backoff", "PlannerSettings"]

Backoff = Literal["exponential", "constant", "none"]
"""How long before each retry: 1, 2, 4 s; 1 s each; not at all."""

_BACKOFFS: Mapping[str, tuple[float, float]] = {"exponential": (1.0, 2.0), "constant": (1.0, 1.0), "none": (0.0, 1.0)}
"""Seconds before the first retry, and what each further wait is multiplied by."""
LONGEST_SECONDS = 3600.0
"""The most that a step of the plan language may ask for."""

_Seconds = Annotated[float, Field(gt=0, le=LONGEST_SECONDS)]
_Kept = Annotated[float, Field(gt=0, le=366 * 86400.0)]
_Share = Annotated[float, Field(ge=0, le=1)]
_Count = Annotated[int, Field(ge=1, le=1_000_000)]


@dataclass(frozen=True, kw_only=True, config=ConfigDict(allow_inf_nan=False, extra="forbid"))
class PlannerSettings:
    """How tools are planned and run. The defaults are those of the tool planning engine.

    Raises:
        ConfigurationError: a value is out of its bounds; the message names the field and what fits.
    """

    planning_seconds: _Seconds = 2.0
    """Seconds that the model has for choosing tools. Then the rules choose that need no model."""
    planner_model: str = ""
    """The model that chooses tools, as `model_named` takes it (``"anthropic:claude-sonnet-4"``), instead of the one
    that the planner was given. `ToolPlanner` opens it, and its `aclose` closes it. Empty: the one that it was given."""
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.3
    """Of the requests that choose tools."""

    plan_cache_entries: Annotated[int, Field(ge=0, le=1_000_000)] = 256
    """Plans that are kept for equal queries; 0 keeps none. The one that was not used longest goes first."""
    plan_cache_seconds: _Kept = 300.0
    """Seconds for which a plan is kept."""

    default_timeout_seconds: _Seconds = 30.0
    """Seconds for an attempt of a step that says nothing, of a tool that says nothing and has no history."""
    timeout_seconds_by_category: Mapping[str, _Seconds] = Field(default_factory=dict)
    """Seconds for an attempt by the tool's category (``"search"``, ``"synthesis"``), instead of the default."""
    max_retries: Annotated[int, Field(ge=0, le=9)] = 3
    """Attempts after the first: 3 retries, after 1, 2 and 4 s, make at most 4 attempts. Only tools that may be repeated
    are retried, and only where trying again may help."""
    retry_backoff: Backoff = "exponential"
    """How long before each retry."""
    parallel_limit: Annotated[int, Field(ge=1, le=10_000)] = 5
    """Calls of a plan that run at the same time. More of them wait for their turn; none is refused."""
    stop_on_critical: bool = True
    """Whether a critical step that fails ends the plan: nothing new is begun. Without, it fails like any other."""

    result_cache_enabled: bool = True
    """Whether results of read-only tools are used again for the same arguments, until a tool with effects is called."""
    result_cache_seconds: _Kept = 300.0
    """Seconds for which a result is used again, where the tool does not say it itself (`cache_seconds`)."""

    low_decomposition_confidence: _Share = 0.5
    """Below it, a decomposition is not relied upon: the plan is a simpler one."""
    low_hypothetical_confidence: _Share = 0.5
    """Below it, a hypothetical answer (HyDE) is not searched by: standard search is used."""
    low_choice_confidence: _Share = 0.5
    """Below it, a model's choice of a tool gets a fallback."""
    low_result_confidence: _Share = 0.5
    """The threshold of fallbacks on low confidence: below it, a result is not good enough."""
    high_failure_rate: _Share = 0.2
    """From it on, a tool fails often: its steps get fallbacks."""
    failure_samples: _Count = 5
    """Calls that have to be known before a tool's failure rate means something."""

    @model_validator(mode="wrap")
    @classmethod
    def _checked(cls, given: Any, handler: ModelWrapValidatorHandler[PlannerSettings]) -> PlannerSettings:
        try:
            return handler(given)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            name = ".".join(map(str, first["loc"]))
            raise ConfigurationError(f"{name}: {first['msg']}, not {str(first['input'])[:80]!r}") from None

    @property
    def retry(self) -> Retry:
        """The retries as the gate takes them."""
        wait, factor = _BACKOFFS[self.retry_backoff]
        return Retry(attempts=self.max_retries + 1, backoff_seconds=wait, factor=factor)

    def seconds_of(self, category: str | None) -> float | None:
        """What `timeout_seconds_by_category` says of a category, in any case of letters."""
        by_category = {name.casefold(): seconds for name, seconds in self.timeout_seconds_by_category.items()}
        return by_category.get((category or "").casefold())

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None, **changes: Any) -> PlannerSettings:
        """The settings that the environment asks for; defaults for what it does not name, or names with empty text.

        ``TOOL_DEFAULT_TIMEOUT`` is in milliseconds, ``TOOL_RESULT_CACHE_TTL`` in seconds. ``TOOL_PLANNER_LLM``
        (``anthropic``, ``openai``, ``ollama``) and ``TOOL_PLANNER_MODEL`` make `planner_model`. The others are
        ``TOOL_PLANNER_TEMPERATURE``, ``TOOL_MAX_RETRIES``, ``TOOL_RETRY_BACKOFF``, ``TOOL_PARALLEL_LIMIT`` and
        ``TOOL_RESULT_CACHE_ENABLED``.

        Args:
            environment: instead of the process's own.
            changes: fields that are set in any case, instead of the environment's.

        Raises:
            ConfigurationError: a variable has a value that does not fit; the message names it and what fits.
        """
        given = os.environ if environment is None else environment
        read: dict[str, Any] = {}
        for variable, name in _VARIABLES.items():
            value: Any = given.get(variable, "").strip().lower()
            if not value or name in changes:
                continue
            if variable == "TOOL_DEFAULT_TIMEOUT":
                with contextlib.suppress(ValueError):
                    value = float(value) / 1000
            try:
                cls(**{name: value})
            except ConfigurationError as error:
                raise ConfigurationError(f"{variable} does not fit: {error}") from None
            read[name] = value
        provider, model = (given.get(name, "").strip() for name in ("TOOL_PLANNER_LLM", "TOOL_PLANNER_MODEL"))
        if (provider or model) and "planner_model" not in changes:
            read["planner_model"] = _planner(provider, model)
        return cls(**{**read, **changes})


_PROVIDERS = ("anthropic", "openai", "ollama")


def _planner(provider: str, model: str) -> str:
    if provider and provider not in _PROVIDERS:
        raise ConfigurationError(f"TOOL_PLANNER_LLM must be one of {', '.join(_PROVIDERS)}, not {provider[:80]!r}")
    if not model:
        raise ConfigurationError("TOOL_PLANNER_LLM is set without TOOL_PLANNER_MODEL: name the model, too")
    return f"{provider}:{model}" if provider else model


_VARIABLES: Mapping[str, str] = {
    "TOOL_PLANNER_TEMPERATURE": "temperature",
    "TOOL_DEFAULT_TIMEOUT": "default_timeout_seconds",
    "TOOL_MAX_RETRIES": "max_retries",
    "TOOL_RETRY_BACKOFF": "retry_backoff",
    "TOOL_PARALLEL_LIMIT": "parallel_limit",
    "TOOL_RESULT_CACHE_ENABLED": "result_cache_enabled",
    "TOOL_RESULT_CACHE_TTL": "result_cache_seconds",
}
