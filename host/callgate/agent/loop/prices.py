"""What a model's tokens cost, in US dollars: by the operator's own price, or by genai-prices' list, which is offline
data. The one door of `genai_prices`. Knows no budget.

1. The list is asked for the model's name at its SDK's own provider. A name that is not there has no price: of another
   provider's model with that name nothing is assumed.
2. A price that is not known is None, never 0.
"""

from __future__ import annotations

import math
from typing import Any

from callgate.agent.models.model import ModelProvider, Usage
from callgate.errors import ConfigurationError
from callgate.extras import how_to_install

__all__ = ["Prices"]

_MILLION = 1_000_000


class Prices:
    """Prices for one task.

    Args:
        own: ``(input, output)`` in dollars for a million tokens, whatever the model; None: the list's.

    Raises:
        ConfigurationError: `own` is no pair of numbers from 0.
    """

    def __init__(self, own: tuple[float, float] | None = None) -> None:
        given: Any = own
        if given is not None and not (
            isinstance(given, (tuple, list)) and len(given) == 2 and all(map(_is_price, given))
        ):
            raise ConfigurationError(
                f"price is (input, output), dollars for a million tokens each: price=(1.25, 10), not {own!r}"
            )
        self._own = own

    def cost(self, provider: ModelProvider, model: str, usage: Usage) -> float | None:
        """Dollars for that usage; None where the price is not known.

        Args:
            provider: of the model's SDK.
            model: its name.
            usage: by the endpoint's count.
        """
        if self._own is not None:
            return (usage.input_tokens * self._own[0] + usage.output_tokens * self._own[1]) / _MILLION
        try:
            import genai_prices
        except ModuleNotFoundError:
            return None
        counted = genai_prices.Usage(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cache_read_tokens=min(usage.cached_input_tokens, usage.input_tokens),
        )
        try:
            return float(genai_prices.calc_price(counted, model, provider_id=provider).total_price)
        except LookupError:
            return None

    def must_know(self, provider: ModelProvider, model: str) -> None:
        """Raise `ConfigurationError` where the model has no price, and a budget in dollars could not be held."""
        if self.cost(provider, model, Usage(input_tokens=1)) is None:
            raise ConfigurationError(
                f"a budget of cost needs a price, and that of {model!r} is not known: give price=(input, output), "
                f"dollars for a million tokens, or install the list of prices: {how_to_install('agent')}"
            )


def _is_price(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0 and math.isfinite(value)
