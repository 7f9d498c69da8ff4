"""The options of an agent: what is refused, with the option's name, and what tokens cost."""

from __future__ import annotations

from typing import Any

import pytest

from callgate import ConfigurationError, Runtime
from callgate.agent.loop.agent import Agent
from callgate.agent.loop.budget import Budget
from callgate.agent.loop.options import cost_of
from callgate.agent.models.model import Usage
from callgate.agent.models.scripted import ScriptedModel

pytestmark = pytest.mark.anyio

MILLION = Usage(input_tokens=1_000_000, output_tokens=1_000_000)


async def listener(event: Any) -> None:
    """An async function, which is not awaited."""


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"model": "gpt-5"}, r"model cannot be 'gpt-5': it has to have a method ask, as model_named\('openai:gpt-5'\)"),
        ({"runtime": []}, "runtime cannot be"),
        ({"mode": "declarativ"}, "there is no mode 'declarativ'.*did you mean declarative"),
        ({"budget": 10}, "budget cannot be 10"),
        ({"planner": 3}, r"planner cannot be 3: it has to have a method request, as ReActPlanner\("),
        ({"answerer": 3}, r"answerer cannot be 3: it has to have a method answer, as PlannedAnswerer\("),
        ({"discovery": "search"}, "discovery cannot be 'search': input should be 'filter', 'interrupt' or 'none'"),
        ({"loader": print, "discovery": "none"}, "a loader is asked by searches"),
        ({"loader": 3}, "loader cannot be 3"),
        ({"on_event": 3}, "on_event cannot be 3"),
        ({"on_event": listener}, "it must not be an async function"),
        ({"tools": "look"}, "tools cannot be 'look': it must be names of tools"),
        ({"direct": 3}, "direct cannot be 3"),
        ({"system": 3}, "system cannot be 3"),
        ({"system": "x" * 1_000_001}, "system cannot be"),
        ({"tool_choice": None}, "tool_choice cannot be None"),
        ({"strategic_plan": object()}, "strategic_plan cannot be .* it must be a JSON value"),
        ({"strategic_plan": float("nan")}, "it must be a JSON value"),
        ({"max_parallel_tool_calls": 0}, "max_parallel_tool_calls cannot be 0"),
        ({"max_parallel_tool_calls": True}, "max_parallel_tool_calls cannot be True"),
        ({"max_result_characters": 10}, "max_result_characters cannot be 10"),
        ({"max_output_tokens": 0}, "max_output_tokens cannot be 0"),
        ({"temperature": -1}, "temperature cannot be -1"),
        ({"temperature": float("nan")}, "temperature cannot be nan"),
        ({"texts": {"nope": "..."}}, "texts cannot be .*nope"),
        ({"price": (1,)}, "price cannot be"),
        ({"price": (-1, 2)}, "price cannot be"),
        ({"price": (1, float("nan"))}, "price cannot be"),
        ({"price": "ab"}, "price cannot be"),
        (
            {"budget": Budget(cost=1.0)},
            r"a budget of cost needs a price, .* 'scripted' .* give price=\(input, output\)",
        ),
    ],
)
async def test_an_option_that_cannot_be_is_refused(options: dict[str, Any], words: str) -> None:
    runtime = Runtime([], sandbox=None)
    with pytest.raises(ConfigurationError, match=words):
        Agent(**{"model": ScriptedModel([]), "runtime": runtime, **options})


@pytest.mark.parametrize("field", ["turns", "tokens", "cost", "seconds"])
@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), True, "3"])
def test_a_budget_is_a_number_above_0(field: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"{field} cannot be"):
        Budget(**{field: value})


def test_turns_and_tokens_are_whole() -> None:
    with pytest.raises(ConfigurationError, match=r"turns cannot be 1\.5"):
        Budget(turns=1.5)  # type: ignore[arg-type]
    assert Budget(cost=1, seconds=1.5) == Budget(turns=40, cost=1.0, seconds=1.5)


# prices


@pytest.mark.parametrize(
    ("price", "provider", "model", "usage", "cost"),
    [
        ((1.25, 10), "openai", "my-own-model", MILLION, 11.25),
        ((1.25, 10), "anthropic", "claude-sonnet-4-5", MILLION, 11.25),
        ((0, 0), "openai", "local", MILLION, 0.0),
        (None, "openai", "gpt-4o", MILLION, 12.5),
        (None, "anthropic", "claude-sonnet-4-5", Usage(output_tokens=1_000), 0.015),
        (None, "openai", "gpt-4o", Usage(input_tokens=1_000_000, cached_input_tokens=500_000), 1.875),
        (None, "openai", "gpt-4o", Usage(input_tokens=10, cached_input_tokens=1_000), 1.25e-5),  # not believed
        (None, "openai", "a-model-of-nobody", MILLION, None),
        (None, "openai", "claude-sonnet-4-5", MILLION, None),  # another provider's model with that name
        (None, "anthropic", "gpt-4o", MILLION, None),
    ],
)
def test_a_price_is_the_operators_own_or_the_lists(
    price: Any, provider: Any, model: str, usage: Usage, cost: float | None
) -> None:
    if price is None:
        pytest.importorskip("genai_prices", reason="genai-prices is not installed")
    found = cost_of(price, provider, model, usage)
    assert found is None if cost is None else found == pytest.approx(cost)
