"""callgate in a plain script: no `async`, no event loop. A session, a stream of events, and four threads at once.

In a notebook a runtime is opened in one cell, `runtime = SyncRuntime([...]).open()`, and closed in another.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from callgate import Printed, SyncRuntime, tool
from world import CITIES


@tool(read_only=True)
def get_cities(country: str) -> list[dict[str, str | int]]:
    """Every city of a country with at least 500,000 people.

    Args:
        country: its two-letter code.
    """
    return [{"name": city.name, "population": city.population} for city in CITIES if city.country == country]


TOTAL = """
cities = await get_cities(country)
sum(city.population for city in cities)
"""


def main() -> None:
    with SyncRuntime([get_cities]) as runtime:
        with runtime.session() as session:
            first = session.execute_code("cities = await get_cities('BR')\nlen(cities)")
            largest = session.execute_code("max(cities, key=lambda city: city.population).name")

        lines = []
        for event in runtime.stream_code("for city in await get_cities('PT'): print(city.name)"):
            if isinstance(event, Printed):
                lines.append(event.text.strip())

        countries = ["FR", "DE", "IT", "ES"]
        with ThreadPoolExecutor(4) as threads:
            runs = threads.map(lambda country: runtime.execute_code(TOTAL, inputs={"country": country}), countries)
            totals = dict(zip(countries, (run.value for run in runs), strict=True))

    assert first.ok, first.for_model()
    assert largest.value == "São Paulo"
    assert "Lisbon" in lines
    assert all(
        total == sum(city.population for city in CITIES if city.country == country) for country, total in totals.items()
    )

    print(f"{first.value} large cities in Brazil, the largest {largest.value}")
    print("large cities of Portugal:", ", ".join(lines))
    print("people in large cities:", ", ".join(f"{country} {total:,}" for country, total in totals.items()))


if __name__ == "__main__":
    main()
