"""What tokens cost: the list's prices, the operator's own, and none where none is known."""

from __future__ import annotations

from typing import Any

import pytest

from callgate import ConfigurationError
from callgate.agent.loop.prices import Prices
from callgate.agent.models.model import Usage

MILLION = Usage(input_tokens=1_000_000, output_tokens=1_000_000)


def test_an_operator_s_own_price_counts_for_any_model() -> None:
    prices = Prices((1.25, 10))
    assert prices.cost("openai", "my-own-model", MILLION) == 11.25
    assert prices.cost("anthropic", "claude-sonnet-4-5", MILLION) == 11.25
    assert Prices((0, 0)).cost("openai", "local", MILLION) == 0.0


WRONG = [(1,), (1, 2, 3), (-1, 2), (1, float("nan")), (1, float("inf")), ("1", "2"), (True, 1), 3, "ab", {1: 2, 3: 4}]


@pytest.mark.parametrize("own", WRONG, ids=str)
def test_a_price_is_a_pair_of_numbers(own: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"price is \(input, output\), dollars for a million tokens each"):
        Prices(own)


def test_the_list_knows_the_models_of_both_providers() -> None:
    pytest.importorskip("genai_prices", reason="genai-prices is not installed")
    assert Prices().cost("openai", "gpt-4o", MILLION) == pytest.approx(12.5)
    assert Prices().cost("anthropic", "claude-sonnet-4-5", Usage(output_tokens=1_000)) == pytest.approx(0.015)


def test_tokens_from_a_cache_have_their_own_price() -> None:
    pytest.importorskip("genai_prices", reason="genai-prices is not installed")
    whole = Prices().cost("openai", "gpt-4o", Usage(input_tokens=1_000_000))
    half = Prices().cost("openai", "gpt-4o", Usage(input_tokens=1_000_000, cached_input_tokens=500_000))
    assert whole == pytest.approx(2.5)
    assert half == pytest.approx(1.25 + 0.625)
    read = Prices().cost("anthropic", "claude-sonnet-4-5", Usage(input_tokens=100_000, cached_input_tokens=100_000))
    assert read == pytest.approx(0.03)


def test_an_endpoint_that_says_more_came_from_a_cache_than_went_in_is_not_believed() -> None:
    pytest.importorskip("genai_prices", reason="genai-prices is not installed")
    assert Prices().cost("openai", "gpt-4o", Usage(input_tokens=10, cached_input_tokens=1_000)) == pytest.approx(
        1.25e-5
    )


@pytest.mark.parametrize(
    ("provider", "model"),
    [("openai", "a-model-of-nobody"), ("openai", "claude-sonnet-4-5"), ("anthropic", "gpt-4o"), ("openai", "")],
)
def test_what_is_not_on_the_list_at_that_provider_has_no_price(provider: Any, model: str) -> None:
    assert Prices().cost(provider, model, MILLION) is None
    with pytest.raises(ConfigurationError, match=r"a budget of cost needs a price, .* give price=\(input, output\)"):
        Prices().must_know(provider, model)
    Prices((1, 2)).must_know(provider, model)
