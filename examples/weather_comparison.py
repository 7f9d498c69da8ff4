"""Weather comparison: three cities at the same time, then one comparison, which alone goes back to the model.

The three calls take 0.1 s each and depend on nothing, so that together they take 0.1 s. Where the cities lie is real
(GeoNames); the weather is the sun's height at noon on 21 June, which follows from the latitude.
"""

from __future__ import annotations

import asyncio
from typing import Any

from callgate import Runtime, ToolError, tool
from world import CITIES

SECONDS_PER_CALL = 0.1
PLACES = {city.name: city for city in sorted(CITIES, key=lambda city: city.population)}


@tool(read_only=True)
async def get_weather(city: str) -> dict[str, Any]:
    """What the sun does in a city at noon on 21 June.

    Args:
        city: a city, in English; the largest of that name.
    """
    await asyncio.sleep(SECONDS_PER_CALL)  # a service far away
    if city not in PLACES:
        raise ToolError(f"there is no city {city!r}")
    place = PLACES[city]
    return {
        "city": city,
        "sun_height": round(90 - abs(place.latitude - 23.44), 1),
        "station": {"latitude": place.latitude, "longitude": place.longitude, "timezone": place.timezone},
    }


@tool(read_only=True)
async def compare_weather(reports: list[dict[str, Any]]) -> dict[str, Any]:
    """Which of several reports has the highest sun, and by how much.

    Args:
        reports: as `get_weather` gives them.
    """
    first, second, *_ = sorted(reports, key=lambda report: -report["sun_height"])
    return {"highest": first["city"], "ahead_by": round(first["sun_height"] - second["sun_height"], 1)}


# arguments may be an object, or its JSON as text, as some models write them
PLAN = {
    "steps": [
        {"id": "tokyo", "tool": "get_weather", "arguments": '{"city": "Tokyo"}'},
        {"id": "london", "tool": "get_weather", "arguments": '{"city": "London"}'},
        {"id": "cairo", "tool": "get_weather", "arguments": {"city": "Cairo"}},
        {
            "id": "comparison",
            "tool": "compare_weather",
            "arguments": {"reports": ["$ref:tokyo", "$ref:london", "$ref:cairo"]},
        },
    ],
    "output_steps": ["comparison"],
}


async def main() -> None:
    async with Runtime([get_weather, compare_weather], sandbox=None) as runtime:
        print(runtime.explain_plan(PLAN))
        run = await runtime.execute_tool_plan(PLAN)
    assert run.ok, run.for_model()

    heights = {city: 90 - abs(PLACES[city].latitude - 23.44) for city in ("Tokyo", "London", "Cairo")}
    assert run.outputs["comparison"]["highest"] == max(heights, key=lambda city: heights[city]) == "Cairo"

    # the three ran at the same time, and what they gave never enters the model's context
    one_by_one = sum(call.duration_seconds for call in run.calls)
    assert one_by_one > 3 * SECONDS_PER_CALL * 0.95
    assert run.usage.wall_seconds < one_by_one
    assert [step.wave for step in run.steps] == [0, 0, 0, 1]
    assert "station" not in run.for_model()
    assert run.step("tokyo").result["station"]["timezone"] == "Asia/Tokyo"

    print(f"--- {one_by_one * 1000:.0f} ms of calls in {run.usage.wall_seconds * 1000:.0f} ms; the model reads")
    print(run.for_model())


if __name__ == "__main__":
    asyncio.run(main())
