"""Weather comparison: three cities that are asked at the same time, and one comparison."""

from __future__ import annotations

from typing import Any

from callgate_bench.workloads import places
from callgate_bench.workloads.pacing import wait
from callgate_bench.workloads.scripts import by_hand, one_plan, one_program, step
from callgate_bench.workloads.workload import Pattern, Workload

__all__ = ["WORKLOAD"]

_CITIES = ("Stockholm", "Athens", "Lisbon")


async def get_weather(city: str) -> dict[str, Any]:
    """Today's weather in a city.

    Gives {"city": str, "temperature_c": float, "wind_kmh": int, "rain_mm": float, "sky": str,
    "humidity_percent": int, "latitude": float, "longitude": float}.

    Args:
        city: its name, in English.
    """
    await wait(0.1, 0.2, city)
    return places.weather_in(city)


async def compare_weather(reports: list[dict[str, Any]]) -> dict[str, Any]:
    """The warmest of several cities, and how far ahead of the next it is.

    Gives {"warmest": str, "ahead_by_c": float}.

    Args:
        reports: two or more, as get_weather gives them.
    """
    await wait(0.05, 0.05)
    first, second, *_ = sorted(reports, key=lambda report: -report["temperature_c"])
    return {"warmest": first["city"], "ahead_by_c": round(first["temperature_c"] - second["temperature_c"], 1)}


_PROGRAM = """
import asyncio

cities = ["Stockholm", "Athens", "Lisbon"]
reports = await asyncio.gather(*(get_weather(city=city) for city in cities))
ordered = sorted(reports, key=lambda report: report["temperature_c"], reverse=True)
ahead = ordered[0]["temperature_c"] - ordered[1]["temperature_c"]
f"answer: {ordered[0]['city']}, by {ahead:.1f} degrees"
"""


_TOOLS = (get_weather, compare_weather)
WORKLOAD = Workload(
    name="weather",
    title="Weather comparison",
    about=(
        "Three calls that need nothing of each other, and a comparison that a model can do by looking. Direct calls in "
        "parallel need no more turns than a plan or a program."
    ),
    data=(
        f"Where the cities lie is real, from {places.SOURCE}; the weather is made up. A report takes 100 to 200 ms, "
        "a comparison 50 ms, simulated."
    ),
    task=(
        "Which of Stockholm, Athens and Lisbon is the warmest today, and by how many degrees is it ahead of the "
        "second? Name only the warmest city, and give the difference with one decimal."
    ),
    tools=_TOOLS,
    calls=by_hand(_PROGRAM, _TOOLS),
    plans=one_plan(
        *(step(city.lower(), "get_weather", city=city) for city in _CITIES),
        step("comparison", "compare_weather", reports=[f"$ref:{city.lower()}" for city in _CITIES]),
        outputs=("comparison",),
        answer=lambda compared: f"{compared['warmest']}, by {compared['ahead_by_c']:.1f} degrees",
    ),
    programs=one_program(_PROGRAM),
    facts=(("Athens", "1.9"),),
    never=(
        "Stockholm",
        "Lisbon",
        Pattern("another comparison", r"(?<!\w)(?:(?:not|n't) athens|coldest|coolest|colder|cooler|behind)(?!\w)"),
    ),
)
