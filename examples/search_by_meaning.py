"""Tool search with an embedder of one's own: `Runtime(embed=...)`.

The embedder here is a small function without a model, so that the example runs offline: it counts groups of three
letters, and so compares spelling. It finds what is misspelt; a sentence encoder also finds other words for the same
thing. Put one in its place, and nothing else changes:

    model = SentenceTransformer("all-MiniLM-L6-v2")          # sentence-transformers

    def embed(texts: list[str]) -> list[list[float]]:
        return model.encode(texts).tolist()

    embed.name = "all-MiniLM-L6-v2"                           # its vectors are kept under that name
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
import zlib
from pathlib import Path

from callgate import Runtime, tool

DIMENSIONS = 512


@tool(read_only=True)
async def get_weather_forecast(city: str) -> str:
    """Weather forecast for a city."""
    return f"rain in {city}"


@tool
async def send_invoice(customer: str, amount: float) -> str:
    """Send an invoice to a customer."""
    return f"{amount:.2f} to {customer}"


@tool(read_only=True)
async def list_subscriptions(customer: str) -> list[str]:
    """All subscriptions of a customer."""
    return [customer]


class Trigrams:
    """Counts groups of three letters, each in a dimension by its hash."""

    name = "trigrams-1"
    """Keeps its vectors apart from those of other embedders. Change it when the function changes."""

    def __init__(self) -> None:
        self.embedded = 0

    def __call__(self, texts: list[str]) -> list[list[float]]:
        self.embedded += len(texts)
        return [self.vector(text) for text in texts]

    def vector(self, text: str) -> list[float]:
        """The counts, by the hash of the group."""
        counts = [0.0] * DIMENSIONS
        for word in text.lower().replace("_", " ").split():
            padded = f" {word} "
            for at in range(len(padded) - 2):
                counts[zlib.crc32(padded[at : at + 3].encode()) % DIMENSIONS] += 1
        return counts


def away(texts: list[str]) -> list[list[float]]:
    raise ConnectionError("the service is away")


TOOLS = [get_weather_forecast, send_invoice, list_subscriptions]


async def main() -> None:
    words = Runtime(TOOLS, sandbox=None)
    assert words.search_tools("wether forcast").found == ()  # no tool has these words

    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / "kept.sqlite"
        for expected in (5, 2):  # the query, a fixed text that tells models apart, and once the three tools
            embed = Trigrams()
            async with Runtime(TOOLS, sandbox=None, embed=embed, statistics=kept) as runtime:
                result = await runtime.search.ask("wether forcast", limit=1)
                assert result.found[0].tool is get_weather_forecast
                assert embed.embedded == expected
                print(f"{result.found[0].tool.name}: {result.found[0].why} ({embed.embedded} texts embedded)")

                steps = await runtime.search.ask(["wether forcast", "invoyce", "subscribtion"], limit=3)
                print([each.tool.name for each in steps.found])
                assert [each.tool for each in steps.found] == TOOLS

    # an embedder that fails does not fail the search; the log of "callgate" has the reason, and here nobody reads it
    logging.getLogger("callgate").addHandler(logging.NullHandler())
    async with Runtime(TOOLS, sandbox=None, embed=away) as runtime:
        result = await runtime.search.ask("send an invoice")
        assert result.found[0].tool is send_invoice
        print(result.note)


if __name__ == "__main__":
    asyncio.run(main())
