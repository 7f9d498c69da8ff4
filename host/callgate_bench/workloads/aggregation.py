"""A CPU-heavy aggregation: where to put ten warehouses for the cities of the European Union."""

from __future__ import annotations

from typing import Any

from callgate_bench.workloads import places
from callgate_bench.workloads.pacing import wait
from callgate_bench.workloads.scripts import one_program
from callgate_bench.workloads.workload import Pattern, Workload

__all__ = ["WORKLOAD"]


async def list_countries() -> dict[str, Any]:
    """The countries of the European Union.

    Gives {"countries": [{"code": str, "name": str, "capital": str}]}.
    """
    await wait(0.02, 0.02)
    return {"countries": list(places.countries().values())}


async def list_cities(country: str) -> dict[str, Any]:
    """The largest cities of a country.

    Gives {"cities": [{"name": str, "country": str, "population": int, "latitude": float, "longitude": float}]}.

    Args:
        country: its two-letter code.
    """
    await wait(0.05, 0.15, country)
    return {"cities": [city for city in places.cities() if city["country"] == country]}


_PROGRAM = """
import asyncio
import math
import statistics
from dataclasses import dataclass

@dataclass(frozen=True)
class City:
    name: str
    population: int
    latitude: float
    longitude: float

    def distance(self, other):
        half = (
            math.sin((other.latitude - self.latitude) / 2) ** 2
            + math.cos(self.latitude) * math.cos(other.latitude) * math.sin((other.longitude - self.longitude) / 2) ** 2
        )
        return 2 * 6371 * math.asin(math.sqrt(half))

countries = (await list_countries())["countries"]
answers = await asyncio.gather(*(list_cities(country=each["code"]) for each in countries))
cities = [
    City(each["name"], each["population"], math.radians(each["latitude"]), math.radians(each["longitude"]))
    for answer in answers
    for each in answer["cities"]
]
distances = [[here.distance(there) for there in cities] for here in cities]
by_people = sorted(range(len(cities)), key=lambda number: cities[number].population, reverse=True)
chosen, before = by_people[:10], []
while chosen != before:
    before = list(chosen)
    for place in range(10):
        others = [distances[each] for number, each in enumerate(chosen) if number != place]
        nearest = [min(rows) for rows in zip(*others)]
        totals = [
            sum(city.population * min(old, new) for city, old, new in zip(cities, nearest, row)) for row in distances
        ]
        chosen[place] = totals.index(min(totals))
nearest = [min(rows) for rows in zip(*[distances[each] for each in chosen])]
people = sum(city.population for city in cities)
mean = sum(city.population * far for city, far in zip(cities, nearest)) / people
names = ", ".join(sorted(cities[each].name for each in chosen))
f"answer: {names}; mean {mean:.0f} km, median {statistics.median(nearest):.0f} km"
"""


def _named(name: str, kilometres: int, other: str) -> str:
    """An expression: the number is the first that follows the name, or has the name in parentheses after it."""
    number = rf"(?<![\w.]){kilometres}(?!\w|\.\d)"
    return rf"{name}(?:(?!{other})\D){{0,80}}{number}|{number}(?: ?km)? \([^()\d]*{name}[^()\d]*\)"


WORKLOAD = Workload(
    name="aggregation",
    title="CPU-heavy aggregation",
    about=(
        "A few lookups, then a second or so of plain Python: 234,000 distances, and searches through all of them. The "
        "program uses what Python has for it: a dataclass with a method, `math`, `statistics`."
    ),
    data=(
        f"Real: 484 cities of the European Union, from {places.SOURCE}. The cities of a country take 50 to 150 ms, the "
        "countries 20 ms, simulated; the rest is work."
    ),
    task=(
        "Place ten warehouses in cities of the European Union, so that people have one near. Take all cities of all "
        "countries that the tools list, and great-circle distances (haversine, radius 6371 km). Begin with the ten "
        "most populous cities. Then go through the ten in that order, and move each to the city that makes the mean "
        "distance of people to their nearest warehouse the smallest, the other nine staying where they are and "
        "cities weighed by population. Go through them again until nothing moves any more. Name the ten cities, that "
        "mean distance, and the median distance of the cities (not weighed) to their nearest warehouse, both in whole "
        "km."
    ),
    tools=(list_countries, list_cities),
    calls=None,
    plans=None,
    programs=one_program(_PROGRAM),
    facts=(
        *("Athens", "Berlin", "Bucharest", "Espoo", "Madrid", "Mechelen", "Milan", "Naples", "Warsaw"),
        Pattern("győr", r"(?<!\w)gy[őo]r(?!\w)"),
        Pattern("mean 239 km", _named("(?:mean|average)", 239, "median")),
        Pattern("median 261 km", _named("median", 261, "(?:mean|average)")),
    ),
    never=("Rome", "Paris", "Hamburg", "Budapest", "Vienna", "Barcelona", "Stockholm", "Munich", "Prague"),
    why_no_plan="a plan has no loops of its own to compute with, and no tool does it",
    why_no_calls=(
        "the model would have to do millions of multiplications in its head; the script does not pretend that one can"
    ),
)
