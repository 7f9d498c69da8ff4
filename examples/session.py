"""A session: one guest whose variables live on between programs, so that a model can look, think, and look again.

The first program fetches a lot and prints a little; later ones work on what is there already, without calling again.
"""

from __future__ import annotations

import asyncio

from callgate import Runtime, tool
from world import CITIES


@tool(read_only=True)
async def get_cities(country: str) -> list[dict[str, str | int]]:
    """Every city of a country with at least 500,000 people.

    Args:
        country: its two-letter code.
    """
    return [
        {"name": city.name, "population": city.population, "timezone": city.timezone}
        for city in CITIES
        if city.country == country
    ]


async def main() -> None:
    async with Runtime([get_cities]) as runtime, runtime.session() as session:
        first = await session.execute_code("""
cities = await get_cities("BR")
print(len(cities), "cities; keys:", ", ".join(cities[0]))
""")
        second = await session.execute_code("""
from collections import Counter
zones = Counter(city.timezone for city in cities)
print(f"{len(zones)} time zones; most cities in {zones.most_common(1)[0][0]}")
""")
        broken = await session.execute_code("cities[10**6]")
        third = await session.execute_code("max(cities, key=lambda city: city.population).name")

        # a guest of its own knows nothing of the session
        stranger = await runtime.execute_code("len(cities)")

    assert first.ok, first.for_model()
    assert second.ok, second.for_model()
    assert len(first.calls) == 1
    assert not second.calls
    assert not broken.ok, "an error ends its program, not the session"
    assert third.value == "São Paulo"
    assert not stranger.ok

    print(first.logs + second.logs, end="")
    print(f"largest: {third.value}; an error in between was: {broken.error.kind if broken.error else None}")


if __name__ == "__main__":
    asyncio.run(main())
