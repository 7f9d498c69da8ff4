"""Regions with sales and weather: which region should host the summer sale?

Two systems that know nothing of each other, joined by a program: sales from SQLite, the weather of each capital. Where
the capitals lie is real (GeoNames). The sales are made up. The weather is the sun's height at noon on 21 June, which
follows from the latitude, so that this runs without a network and always says the same.
"""

from __future__ import annotations

import asyncio
import random
import sqlite3
from typing import Any

from callgate import Runtime, ToolError, tool
from world import CITIES

CAPITALS = {"north": "Oslo", "south": "Athens", "east": "Warsaw", "west": "Lisbon", "centre": "Prague"}
PLACES = {city.name: city for city in sorted(CITIES, key=lambda city: city.population)}


def make_database() -> sqlite3.Connection:
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE sales (region, product, revenue INTEGER)")
    chance = random.Random(7)
    for region in CAPITALS:
        for product in ("boots", "coats", "hats", "tents"):
            database.execute("INSERT INTO sales VALUES (?, ?, ?)", (region, product, chance.randint(20_000, 90_000)))
    return database


DATABASE = make_database()


@tool(read_only=True)
async def query_sales(region: str) -> dict[str, Any]:
    """Revenue of a region, in all and by product, in euros.

    Args:
        region: north, south, east, west or centre.
    """
    rows = DATABASE.execute(
        "SELECT product, revenue FROM sales WHERE region = ? ORDER BY product", (region,)
    ).fetchall()
    if not rows:
        raise ToolError(f"there is no region {region!r}; there are: {', '.join(CAPITALS)}")
    return {"revenue": sum(revenue for _, revenue in rows), "products": dict(rows)}


@tool(read_only=True)
async def get_weather(city: str) -> dict[str, Any]:
    """What the sun does in a city at noon on 21 June.

    Args:
        city: a city, in English; the largest of that name.
    """
    if city not in PLACES:
        raise ToolError(f"there is no city {city!r}")
    latitude = PLACES[city].latitude
    return {"city": city, "latitude": latitude, "sun_height": round(90 - abs(latitude - 23.44), 1)}


PROGRAM = """
import asyncio

async def look_at(region, capital):
    sales, weather = await asyncio.gather(query_sales(region), tool_call("get_weather", city=capital))
    return region, sales.revenue, weather

found = await asyncio.gather(*(look_at(region, capital) for region, capital in capitals.items()))
for region, revenue, weather in sorted(found, key=lambda row: -row[1]):
    print(f"{region:<7} {revenue:>9,} euros   {weather.city:<7} sun {weather.sun_height:>4} degrees high")
best = max(found, key=lambda row: row[1] * row[2].sun_height)
best[0]
"""


async def main() -> None:
    async with Runtime([query_sales, get_weather]) as runtime:
        run = await runtime.execute_code(PROGRAM, inputs={"capitals": CAPITALS})
    assert run.ok, run.for_model()
    assert len(run.calls) == 10
    assert {call.status for call in run.calls} == {"succeeded"}

    revenue = dict(DATABASE.execute("SELECT region, SUM(revenue) FROM sales GROUP BY region"))
    assert run.value == max(
        CAPITALS, key=lambda region: revenue[region] * round(90 - abs(PLACES[CAPITALS[region]].latitude - 23.44), 1)
    )
    assert run.logs.count("\n") == 5

    print(run.logs, end="")
    print(f"The summer sale goes to: {run.value}")


if __name__ == "__main__":
    asyncio.run(main())
