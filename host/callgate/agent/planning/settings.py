"""What tool planning may be told: times, retries, how much at once, caches, thresholds. Values and their bounds; it
decides nothing.

`PlannerSettings.from_environment` reads the variables of the tool planning engine, in their units.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from callgate.errors import ConfigurationError
from callgate.tools import Retry

__all__ = ["LONGEST_SECONDS", "Backoff", "PlannerSettings"]

Backoff = Literal["exponential", "constant", "none"]
"""How long before each retry: 1, 2, 4 s; 1 s each; not at all."""

_BACKOFFS: Mapping[str, tuple[float, float]] = {"exponential": (1.0, 2.0), "constant": (1.0, 1.0), "none": (0.0, 1.0)}
"""Seconds before the first retry, and what each further wait is multiplied by."""
LONGEST_SECONDS = 3600.0
"""The most that a step of the plan language may ask for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannerSettings:
    """How tools are planned and run. The defaults are those of the tool planning engine.

    Raises:
        ConfigurationError: a value is out of its bounds; the message names the field and what fits.
    """

    planning_seconds: float = 2.0
    """Seconds that the model has for choosing tools. Then the rules choose that need no model."""
    planner_model: str = ""
    """The model that chooses tools, as `model_named` takes it (``"anthropic:claude-sonnet-4"``), instead of the one
    that the planner was given. `ToolPlanner` opens it, and its `aclose` closes it. Empty: the one that it was given."""
    temperature: float = 0.3
    """Of the requests that choose tools; from 0 to 2."""

    plan_cache_entries: int = 256
    """Plans that are kept for queries like theirs; 0 keeps none. The one that was not used longest goes first."""
    plan_cache_seconds: float = 3600.0
    """Seconds for which a plan is kept."""

    default_timeout_seconds: float = 30.0
    """Seconds for an attempt of a step that says nothing, of a tool that says nothing and has no history."""
    timeout_seconds_by_category: Mapping[str, float] = field(default_factory=dict)
    """Seconds for an attempt by the tool's category (``"search"``, ``"synthesis"``), instead of the default."""
    max_retries: int = 3
    """Attempts after the first, from 0 to 9: 3 retries, after 1, 2 and 4 s, make at most 4 attempts. Only tools that
    may be repeated are retried, and only where trying again may help."""
    retry_backoff: Backoff = "exponential"
    """How long before each retry."""
    parallel_limit: int = 5
    """Calls of a plan that run at the same time. More of them wait for their turn; none is refused."""
    stop_on_critical: bool = True
    """Whether a critical step that fails ends the plan: nothing new is begun. Without, it fails like any other."""

    result_cache_enabled: bool = True
    """Whether results of read-only tools are used again for the same arguments."""
    result_cache_seconds: float = 300.0
    """Seconds for which a result is used again, where the tool does not say it itself (`cache_seconds`)."""
    result_cache_entries: int = 1000
    """Results that are kept at most. The one that was not used longest goes first."""

    low_decomposition_confidence: float = 0.5
    """Below it, a decomposition is not relied upon: the plan is a simpler one."""
    low_hypothetical_confidence: float = 0.5
    """Below it, a hypothetical answer (HyDE) is not searched by: standard search is used."""
    low_choice_confidence: float = 0.5
    """Below it, a model's choice of a tool gets a fallback."""
    low_result_confidence: float = 0.5
    """The threshold of fallbacks on low confidence: below it, a result is not good enough."""
    high_failure_rate: float = 0.2
    """From it on, a tool fails often: its steps get fallbacks."""
    failure_samples: int = 5
    """Calls that have to be known before a tool's failure rate means something."""

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            checked = _CHECKS.get(each.name)
            if checked is not None and (wanted := checked(value)):
                raise ConfigurationError(f"{each.name} must be {wanted}, not {value!r}")
        if not isinstance(self.timeout_seconds_by_category, Mapping):
            raise ConfigurationError("timeout_seconds_by_category must map categories to seconds")
        for category, seconds in self.timeout_seconds_by_category.items():
            if wanted := _seconds(seconds):
                raise ConfigurationError(f"timeout_seconds_by_category[{category!r}] must be {wanted}, not {seconds!r}")

    @property
    def retry(self) -> Retry:
        """The retries as the gate takes them."""
        wait, factor = _BACKOFFS[self.retry_backoff]
        return Retry(attempts=self.max_retries + 1, backoff_seconds=wait, factor=factor)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None, **changes: Any) -> PlannerSettings:
        """The settings that the environment asks for; defaults for what it does not name, or names with empty text.

        ``TOOL_DEFAULT_TIMEOUT`` is in milliseconds, ``TOOL_RESULT_CACHE_TTL`` in seconds. ``TOOL_PLANNER_LLM``
        (``anthropic``, ``openai``, ``ollama``) and ``TOOL_PLANNER_MODEL`` make `planner_model`. The others are
        ``TOOL_PLANNER_TEMPERATURE``, ``TOOL_MAX_RETRIES``, ``TOOL_RETRY_BACKOFF``, ``TOOL_PARALLEL_LIMIT`` and
        ``TOOL_RESULT_CACHE_ENABLED``.

        Args:
            environment: instead of the process's own.
            changes: fields that are set, whatever the environment says.

        Raises:
            ConfigurationError: a variable has a value that does not fit; the message names it and what fits.
        """
        given = os.environ if environment is None else environment
        read: dict[str, Any] = {}
        for variable, (name, parse) in _VARIABLES.items():
            text = given.get(variable, "").strip()
            if not text or name in changes:
                continue
            value, wanted = parse(text)
            wanted = wanted or _CHECKS[name](value)
            if wanted:
                unit = " milliseconds" if variable == "TOOL_DEFAULT_TIMEOUT" else ""
                wanted = "above 0 and at most 3600000" if unit else wanted
                raise ConfigurationError(f"{variable} must be {wanted}{unit}, not {text[:80]!r}")
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


def _number(low: float, high: float, *, above: bool = False) -> Callable[[Any], str]:
    wanted = f"a number above {low:g} and at most {high:g}" if above else f"a number from {low:g} to {high:g}"

    def check(value: Any) -> str:
        fits = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        return "" if fits and (low < value if above else low <= value) and value <= high else wanted

    return check


def _whole(low: int, high: int) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        fits = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
        return "" if fits else f"a whole number from {low} to {high}"

    return check


def _flag(value: Any) -> str:
    return "" if isinstance(value, bool) else "true or false"


def _backoff(value: Any) -> str:
    return "" if isinstance(value, str) and value in _BACKOFFS else f"one of {', '.join(_BACKOFFS)}"


_seconds = _number(0, LONGEST_SECONDS, above=True)
_share = _number(0, 1)
_YEAR = 366 * 86400.0
_CHECKS: Mapping[str, Callable[[Any], str]] = {
    "planning_seconds": _seconds,
    "temperature": _number(0, 2),
    "plan_cache_entries": _whole(0, 1_000_000),
    "plan_cache_seconds": _number(0, _YEAR, above=True),
    "default_timeout_seconds": _seconds,
    "max_retries": _whole(0, 9),
    "retry_backoff": _backoff,
    "parallel_limit": _whole(1, 10_000),
    "stop_on_critical": _flag,
    "result_cache_enabled": _flag,
    "result_cache_seconds": _number(0, _YEAR, above=True),
    "result_cache_entries": _whole(1, 1_000_000),
    "low_decomposition_confidence": _share,
    "low_hypothetical_confidence": _share,
    "low_choice_confidence": _share,
    "low_result_confidence": _share,
    "high_failure_rate": _share,
    "failure_samples": _whole(1, 1_000_000),
}


def _read_number(text: str) -> tuple[Any, str]:
    try:
        return float(text), ""
    except ValueError:
        return None, ""


def _read_milliseconds(text: str) -> tuple[Any, str]:
    value, wanted = _read_number(text)
    return (None if value is None else value / 1000), wanted


def _read_whole(text: str) -> tuple[Any, str]:
    return (int(text), "") if text.isascii() and text.isdecimal() and len(text) < 20 else (None, "")


def _read_text(text: str) -> tuple[Any, str]:
    return text.lower(), ""


def _read_flag(text: str) -> tuple[Any, str]:
    flags = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
    return flags.get(text.lower()), ""


_VARIABLES: Mapping[str, tuple[str, Callable[[str], tuple[Any, str]]]] = {
    "TOOL_PLANNER_TEMPERATURE": ("temperature", _read_number),
    "TOOL_DEFAULT_TIMEOUT": ("default_timeout_seconds", _read_milliseconds),
    "TOOL_MAX_RETRIES": ("max_retries", _read_whole),
    "TOOL_RETRY_BACKOFF": ("retry_backoff", _read_text),
    "TOOL_PARALLEL_LIMIT": ("parallel_limit", _read_whole),
    "TOOL_RESULT_CACHE_ENABLED": ("result_cache_enabled", _read_flag),
    "TOOL_RESULT_CACHE_TTL": ("result_cache_seconds", _read_number),
}
