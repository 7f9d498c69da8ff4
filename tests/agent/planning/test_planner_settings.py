"""The settings: the engine's defaults, its variables in their units, and what does not fit."""

from __future__ import annotations

from typing import Any

import pytest

from callgate import ConfigurationError
from callgate.agent.planning.settings import PlannerSettings


def test_the_defaults_are_those_of_the_tool_planning_engine() -> None:
    settings = PlannerSettings.from_environment({})
    assert settings == PlannerSettings()
    assert (settings.planning_seconds, settings.temperature) == (2.0, 0.3)
    assert (settings.default_timeout_seconds, settings.max_retries, settings.retry_backoff) == (30.0, 3, "exponential")
    assert settings.parallel_limit == 5
    assert (settings.result_cache_enabled, settings.result_cache_seconds) == (True, 300.0)


def test_every_variable_of_the_engine_is_read_in_its_unit() -> None:
    settings = PlannerSettings.from_environment(
        {
            "TOOL_PLANNER_LLM": "anthropic",
            "TOOL_PLANNER_MODEL": "claude-sonnet-4",
            "TOOL_PLANNER_TEMPERATURE": "0",
            "TOOL_DEFAULT_TIMEOUT": "1500",
            "TOOL_MAX_RETRIES": "1",
            "TOOL_RETRY_BACKOFF": "Constant",
            "TOOL_PARALLEL_LIMIT": "2",
            "TOOL_RESULT_CACHE_ENABLED": "false",
            "TOOL_RESULT_CACHE_TTL": "60",
        }
    )
    assert settings.planner_model == "anthropic:claude-sonnet-4"
    assert settings.temperature == 0
    assert settings.default_timeout_seconds == 1.5
    assert (settings.max_retries, settings.retry_backoff, settings.parallel_limit) == (1, "constant", 2)
    assert (settings.result_cache_enabled, settings.result_cache_seconds) == (False, 60)


def test_the_process_s_own_environment_is_read_where_none_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOL_PARALLEL_LIMIT", "7")
    monkeypatch.setenv("TOOL_MAX_RETRIES", "  ")  # as good as not set
    settings = PlannerSettings.from_environment(planning_seconds=9.0)
    assert (settings.parallel_limit, settings.max_retries, settings.planning_seconds) == (7, 3, 9.0)


def test_three_retries_are_four_attempts_one_two_and_four_seconds_apart() -> None:
    retry = PlannerSettings().retry
    assert retry.attempts == 4
    assert [retry.delay_seconds(failures, 0.5) for failures in (1, 2, 3)] == [1, 2, 4]
    constant = PlannerSettings(retry_backoff="constant").retry
    assert [constant.delay_seconds(failures, 0.5) for failures in (1, 2, 3)] == [1, 1, 1]
    assert PlannerSettings(retry_backoff="none").retry.delay_seconds(2, 0.5) == 0
    assert PlannerSettings(max_retries=0).retry.attempts == 1


@pytest.mark.parametrize(
    ("variable", "value", "fits"),
    [
        ("TOOL_DEFAULT_TIMEOUT", "0", "greater than 0"),
        ("TOOL_DEFAULT_TIMEOUT", "30s", "a valid number"),
        ("TOOL_DEFAULT_TIMEOUT", "inf", "a finite number"),
        ("TOOL_MAX_RETRIES", "-1", "greater than or equal to 0"),
        ("TOOL_MAX_RETRIES", "2.5", "a valid integer"),
        ("TOOL_RETRY_BACKOFF", "linear", "'exponential', 'constant' or 'none'"),
        ("TOOL_PARALLEL_LIMIT", "0", "greater than or equal to 1"),
        ("TOOL_RESULT_CACHE_ENABLED", "maybe", "a valid boolean"),
        ("TOOL_RESULT_CACHE_TTL", "nan", "a finite number"),
        ("TOOL_PLANNER_TEMPERATURE", "hot", "a valid number"),
    ],
)
def test_a_variable_that_does_not_fit_is_named_with_what_does(variable: str, value: str, fits: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        PlannerSettings.from_environment({variable: value})
    assert str(error.value).startswith(f"{variable} does not fit")
    assert fits in str(error.value)


def test_a_misspelt_provider_of_the_planner_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"TOOL_PLANNER_LLM must be one of anthropic, openai, ollama"):
        PlannerSettings.from_environment({"TOOL_PLANNER_LLM": "antropic", "TOOL_PLANNER_MODEL": "x"})


def test_a_provider_of_the_planner_needs_a_model() -> None:
    with pytest.raises(ConfigurationError, match="TOOL_PLANNER_LLM is set without TOOL_PLANNER_MODEL"):
        PlannerSettings.from_environment({"TOOL_PLANNER_LLM": "ollama"})
    assert (
        PlannerSettings.from_environment({"TOOL_PLANNER_MODEL": "claude-sonnet-4"}).planner_model == "claude-sonnet-4"
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("planning_seconds", 0),
        ("default_timeout_seconds", 3601),
        ("max_retries", 10),
        ("parallel_limit", 0),
        ("low_result_confidence", 1.1),
        ("retry_backoff", ["none"]),
        ("stop_on_critical", 2),
        ("max_retrys", 2),
        ("timeout_seconds_by_category", {"search": -1}),
        ("timeout_seconds_by_category", 5),
    ],
)
def test_a_field_that_does_not_fit_is_named(field: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=field):
        PlannerSettings(**{field: value})
