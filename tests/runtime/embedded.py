"""An embedder for the tests of searches by meaning: a few words and what they mean, each a dimension."""

from __future__ import annotations

from collections.abc import Sequence

from callgate import tool

__all__ = ["TOOLS", "Counted", "get_weather", "meaning_of", "set_lamp_level", "transfer"]

_MEANINGS = (("lamp", "bright", "dark"), ("weather", "umbrella", "sky"), ("transfer", "money", "rent"))


def meaning_of(text: str) -> list[float]:
    """A vector with a number for each meaning; small, so that the tests see it scaled."""
    lower = text.lower()
    return [0.001 + sum(word in lower for word in words) for words in _MEANINGS]


class Counted:
    """An embedder that notes its calls.

    Args:
        name: its name; None for none.
    """

    def __init__(self, name: str | None = "counted") -> None:
        self.calls: list[list[str]] = []
        if name is not None:
            self.name = name

    def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        """The vectors of these texts."""
        self.calls.append(list(texts))
        return [meaning_of(text) for text in texts]

    @property
    def texts(self) -> list[str]:
        """All texts of all calls, without the fixed text that tells models apart."""
        return [text for call in self.calls for text in call if text != "Which tool can answer this?"]


@tool(read_only=True)
async def set_lamp_level(level: int) -> int:
    """Sets the level of a lamp."""
    return level


@tool(read_only=True)
async def get_weather(city: str) -> str:
    """Weather of a city."""
    return city


@tool
async def transfer(amount: float) -> float:
    """Makes a transfer to an account."""
    return amount


TOOLS = [set_lamp_level, get_weather, transfer]
