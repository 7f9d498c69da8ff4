"""The settings of tool planning: times, retries, parallel calls, caches, thresholds. Values and their bounds; decides
nothing.

`PlannerSettings.from_environment` reads the variables of the tool planning engine, in their units.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic.dataclasses import dataclass

from callgate.agent.models.named import is_provider
from callgate.errors import ConfigurationError
from callgate.tools import Retry

__all__ = ["LONGEST_SECONDS", "Backoff", "PlannerSettings"]

Backoff = Literal["exponential", "constant", "none"]
"""The wait before each retry: 1, 2, 4 s; 1 s each; none."""

_BACKOFFS: Mapping[str, tuple[float, float]] = {"exponential": (1.0, 2.0), "constant": (1.0, 1.0), "none": (0.0, 1.0)}
"""Seconds before the first retry, and the factor of each further wait."""
LONGEST_SECONDS = 3600.0
"""The longest timeout of a step in the plan language."""

_Seconds = Annotated[float, Field(gt=0, le=LONGEST_SECONDS)]
_Lifetime = Annotated[float, Field(gt=0, le=366 * 86400.0)]
_Share = Annotated[float, Field(ge=0, le=1)]
_Count = Annotated[int, Field(ge=1, le=1_000_000)]


@dataclass(frozen=True, kw_only=True, config=ConfigDict(allow_inf_nan=False, extra="forbid"))
class PlannerSettings:
    """How tools are planned and run. The defaults are those of the tool planning engine.

    Raises:
        ConfigurationError: a value is out of its bounds; the message names the field and what fits.
    """

    planning_seconds: _Seconds = 2.0
    """Seconds that the model has for choosing tools. Then rules choose, without a model."""
    planner_model: str = ""
    """The model that chooses tools, as `model_named` takes it (``"anthropic:claude-sonnet-4"``), instead of the
    planner's `model`. `ToolPlanner` opens it, and its `aclose` closes it. Empty for the planner's `model`."""
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.3
    """Of the requests that choose tools."""

    plan_cache_entries: Annotated[int, Field(ge=0, le=1_000_000)] = 256
    """The most plans that are kept for equal queries; 0 keeps none. The least recently used goes first."""
    plan_cache_seconds: _Lifetime = 300.0
    """Seconds that a plan is kept."""

    default_timeout_seconds: _Seconds = 30.0
    """Seconds for an attempt, where neither the step nor its tool has a timeout, and the tool has no history."""
    timeout_seconds_by_category: Mapping[str, _Seconds] = Field(default_factory=dict)
    """Seconds for an attempt by the tool's category (``"search"``, ``"synthesis"``), instead of the default."""
    max_retries: Annotated[int, Field(ge=0, le=9)] = 3
    """Attempts after the first: 3 retries, after 1, 2 and 4 s, make at most 4 attempts. Only tools that may be repeated
    are retried, and only where another attempt may help."""
    retry_backoff: Backoff = "exponential"
    """The wait before each retry."""
    parallel_limit: Annotated[int, Field(ge=1, le=10_000)] = 5
    """The most calls of a plan that run at the same time. Further calls wait; none is refused."""
    stop_on_critical: bool = True
    """Whether no further step begins after a critical step failed. Otherwise it fails like any other step."""

    result_cache_enabled: bool = True
    """Whether a result of a read-only tool is used again for equal arguments, until a tool with effects is called."""
    result_cache_seconds: _Lifetime = 300.0
    """Seconds that a result is used again, where the tool has no `cache_seconds` of its own."""

    low_decomposition_confidence: _Share = 0.5
    """A decomposition with a lower confidence is not used: the plan is a simpler one."""
    low_hypothetical_confidence: _Share = 0.5
    """A hypothetical answer (HyDE) with a lower confidence is not used: the plan has standard search."""
    low_choice_confidence: _Share = 0.5
    """A choice of a tool with a lower confidence gets a fallback."""
    low_result_confidence: _Share = 0.5
    """A result with a lower confidence makes such a fallback run."""
    high_failure_rate: _Share = 0.2
    """A tool with this failure rate or more gets fallbacks."""
    failure_samples: _Count = 5
    """The failure rate of a tool with fewer calls does not count."""

    @model_validator(mode="wrap")
    @classmethod
    def _checked(cls, given: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return handler(given)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            name = ".".join(map(str, first["loc"]))
            raise ConfigurationError(f"{name}: {first['msg']}, not {str(first['input'])[:80]!r}") from None

    @property
    def retry(self) -> Retry:
        """The retries in the gate's form."""
        wait, factor = _BACKOFFS[self.retry_backoff]
        return Retry(attempts=self.max_retries + 1, backoff_seconds=wait, factor=factor)

    def seconds_of(self, category: str | None) -> float | None:
        """The value of `timeout_seconds_by_category` for a category, in any case of letters."""
        by_category = {name.casefold(): seconds for name, seconds in self.timeout_seconds_by_category.items()}
        return by_category.get((category or "").casefold())

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None, **changes: Any) -> PlannerSettings:
        """Read the settings from environment variables; a missing or empty variable leaves the default.

        ``TOOL_DEFAULT_TIMEOUT`` is in milliseconds, ``TOOL_RESULT_CACHE_TTL`` in seconds. ``TOOL_PLANNER_LLM``
        (``anthropic``, ``openai``, ``ollama``) and ``TOOL_PLANNER_MODEL`` make `planner_model`. The others are
        ``TOOL_PLANNER_TEMPERATURE``, ``TOOL_MAX_RETRIES``, ``TOOL_RETRY_BACKOFF``, ``TOOL_PARALLEL_LIMIT`` and
        ``TOOL_RESULT_CACHE_ENABLED``.

        Args:
            environment: instead of the process's own.
            changes: fields that come before the environment.

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
        if provider and not model and "planner_model" not in changes:
            raise ConfigurationError("TOOL_PLANNER_LLM is set without TOOL_PLANNER_MODEL: name the model, too")
        if provider and provider not in _PROVIDERS and not is_provider(provider):
            raise ConfigurationError(f"TOOL_PLANNER_LLM must be one of {', '.join(_PROVIDERS)}, not {provider[:80]!r}")
        if model:
            read["planner_model"] = f"{provider}:{model}" if provider else model
        return cls(**{**read, **changes})


_PROVIDERS = ("anthropic", "openai", "ollama")
_VARIABLES: Mapping[str, str] = {
    "TOOL_PLANNER_TEMPERATURE": "temperature",
    "TOOL_DEFAULT_TIMEOUT": "default_timeout_seconds",
    "TOOL_MAX_RETRIES": "max_retries",
    "TOOL_RETRY_BACKOFF": "retry_backoff",
    "TOOL_PARALLEL_LIMIT": "parallel_limit",
    "TOOL_RESULT_CACHE_ENABLED": "result_cache_enabled",
    "TOOL_RESULT_CACHE_TTL": "result_cache_seconds",
}
