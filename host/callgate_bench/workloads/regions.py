"""Regions with sales and weather: two systems that know nothing of each other, and a choice that needs both."""

from __future__ import annotations

import functools
import random
from typing import Any

from callgate_bench.workloads import places
from callgate_bench.workloads.pacing import wait
from callgate_bench.workloads.scripts import by_hand, one_plan, one_program, step
from callgate_bench.workloads.weather import get_weather
from callgate_bench.workloads.workload import Workload

__all__ = ["WORKLOAD"]

_CAPITALS = {"north": "Stockholm", "south": "Athens", "east": "Warsaw", "west": "Lisbon", "centre": "Prague"}
_PRODUCTS = ("boots", "coats", "hats", "tents", "stoves", "packs")
_MONTHS = ("2026-03", "2026-04", "2026-05")


@functools.cache
def _sales(region: str) -> dict[str, Any]:
    chance = random.Random(f"sales 8 {region}")
    months = {month: {product: chance.randint(2_000, 34_000) for product in _PRODUCTS} for month in _MONTHS}
    revenue = sum(sum(products.values()) for products in months.values())
    return {"region": region, "revenue_euros": revenue, "by_month": months}


async def list_regions() -> dict[str, Any]:
    """The sales regions.

    Gives {"regions": [{"region": str, "capital": str}]}.
    """
    await wait(0.02, 0.02)
    return {"regions": [{"region": region, "capital": capital} for region, capital in _CAPITALS.items()]}


async def query_sales(region: str) -> dict[str, Any]:
    """Revenue of a region in the last three months.

    Gives {"region": str, "revenue_euros": int, "by_month": {month: {product: euros}}}.

    Args:
        region: as list_regions names it.
    """
    await wait(0.05, 0.15, region)
    return _sales(region)


_PROGRAM = """
import asyncio

regions = (await list_regions())["regions"]
found = await asyncio.gather(
    *(query_sales(region=each["region"]) for each in regions), *(get_weather(city=each["capital"]) for each in regions)
)
dry = [sale for sale, report in zip(found, found[len(regions):]) if report["rain_mm"] < 5]
best = max(dry, key=lambda sale: sale["revenue_euros"])
f"answer: {best['region']}, {best['revenue_euros']} euros"
"""


def _best(sales: list[dict[str, Any]], weather: list[dict[str, Any]]) -> str:
    dry = [sale for sale, report in zip(sales, weather, strict=True) if report["rain_mm"] < 5]
    best = max(dry, key=lambda sale: int(sale["revenue_euros"]))
    return f"{best['region']}, {best['revenue_euros']} euros"


_TOOLS = (list_regions, query_sales, get_weather)
WORKLOAD = Workload(
    name="regions",
    title="Regions with sales and weather",
    about="Five regions, two lookups for each, joined. No tool joins them: with a plan the model reads what both gave.",
    data=(
        f"Where the capitals lie is real, from {places.SOURCE}; weather and sales are made up. The list takes 20 ms, a "
        "region's sales 50 to 150 ms, a weather report 100 to 200 ms, simulated."
    ),
    task=(
        "The summer sale goes to the region with the highest revenue of those whose capital has less than 5 mm of rain "
        "today. Which region is it? Name only that region, and give its revenue in whole euros."
    ),
    tools=_TOOLS,
    calls=by_hand(_PROGRAM, _TOOLS),
    plans=one_plan(
        step("list", "list_regions"),
        step("sales", "query_sales", for_each="$ref:list.regions", region="$item.region"),
        step("weather", "get_weather", for_each="$ref:list.regions", city="$item.capital"),
        outputs=("sales", "weather"),
        answer=_best,
    ),
    programs=one_program(_PROGRAM),
    facts=("east", "373831"),
    never=("390239", "north", "south", "west", "centre"),
)
