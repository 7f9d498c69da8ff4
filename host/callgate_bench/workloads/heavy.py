"""Much to compute, and much to carry: warehouses among 484 cities, and five megabytes of order lines."""

from __future__ import annotations

import functools
import random
from collections import Counter
from typing import Any

from callgate_bench.workloads import services
from callgate_bench.workloads.scripts import of_program, step
from callgate_bench.workloads.services import wait

__all__ = ["aggregation", "large"]


async def list_countries() -> dict[str, Any]:
    """The countries of the European Union.

    Gives {"countries": [{"code": str, "name": str, "capital": str}]}.
    """
    await wait(0.02, 0.02)
    return {"countries": list(services.countries().values())}


async def list_cities(country: str) -> dict[str, Any]:
    """The largest cities of a country.

    Gives {"cities": [{"name": str, "country": str, "population": int, "latitude": float, "longitude": float}]}.

    Args:
        country: its two-letter code.
    """
    await wait(0.05, 0.15, country)
    return {"cities": [city for city in services.cities() if city["country"] == country]}


_AGGREGATION = """
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


_TOWNS = ("Aarhus", "Bologna", "Cork", "Dijon", "Evora", "Freiburg", "Gent", "Haarlem", "Innsbruck", "Jena")
_LINES = 4_800
_MAKERS = ("Alder", "Birch", "Cedar", "Elm", "Hazel", "Linden", "Maple", "Rowan")
_THINGS = ("desk lamp", "kettle", "backpack", "headphones", "blanket", "notebook", "chair", "mug")
_PRODUCTS = tuple(f"{maker} {thing}" for maker in _MAKERS for thing in _THINGS)


@functools.cache
def _prices() -> dict[str, int]:
    chance = random.Random("price list")
    return {product: chance.randint(400, 9_900) for product in _PRODUCTS}


@functools.cache
def _lines(shop_id: str) -> list[dict[str, Any]]:
    chance = random.Random(f"orders {shop_id}")
    likings = [chance.uniform(0.5, 2) for _ in _PRODUCTS]
    sold = chance.choices(_PRODUCTS, likings, k=_LINES)
    return [
        {
            "order": f"{shop_id}-{100_000 + number // 3}",
            "date": f"2026-06-{1 + number * 30 // _LINES:02}",
            "product": product,
            "quantity": chance.choice((1, 1, 1, 2, 3)),
            "unit_price_cents": _prices()[product],
        }
        for number, product in enumerate(sold)
    ]


async def list_shops() -> dict[str, Any]:
    """The shops.

    Gives {"shops": [{"shop_id": str, "town": str}]}.
    """
    await wait(0.02, 0.02)
    return {"shops": [{"shop_id": f"s{number:02}", "town": town} for number, town in enumerate(_TOWNS, start=1)]}


async def get_order_lines(shop_id: str) -> dict[str, Any]:
    """All order lines of a shop in June.

    Gives {"shop_id": str, "lines": [{"order": str, "date": str, "product": str, "quantity": int,
    "unit_price_cents": int}]}; some thousands.

    Args:
        shop_id: as list_shops names it.
    """
    await wait(0.15, 0.3, shop_id)
    return {"shop_id": shop_id, "lines": _lines(shop_id)}


async def top_products(orders: list[dict[str, Any]], count: int) -> dict[str, Any]:
    """The products with the highest revenue.

    Gives {"top": [{"product": str, "revenue_cents": int}]}, the highest first.

    Args:
        orders: one or more, as get_order_lines gives them.
        count: how many products.
    """
    await wait(0.02, 0.02)
    revenue: Counter[str] = Counter()
    for line in (line for order in orders for line in order["lines"]):
        revenue[line["product"]] += line["quantity"] * line["unit_price_cents"]
    return {"top": [{"product": product, "revenue_cents": cents} for product, cents in revenue.most_common(count)]}


_LARGE = """
import asyncio

shops = (await list_shops())["shops"]
orders = await asyncio.gather(*(get_order_lines(shop_id=shop["shop_id"]) for shop in shops))
revenue = {}
for order in orders:
    for line in order["lines"]:
        product = line["product"]
        revenue[product] = revenue.get(product, 0) + line["quantity"] * line["unit_price_cents"]
top = sorted(revenue, key=lambda product: revenue[product], reverse=True)[:3]
told = ", ".join(f"{product} {revenue[product] / 100:.0f} euros" for product in top)
f"answer: {told}"
"""


@of_program(
    _AGGREGATION,
    tools=(list_countries, list_cities),
    task="Place ten warehouses in cities of the European Union, so that people have one near. Take all cities of "
    "all countries that the tools list, and great-circle distances (haversine, radius 6371 km). Begin with the "
    "ten most populous cities. Then go through the ten in that order, and move each to the city that makes the "
    "mean distance of people to their nearest warehouse the smallest, the other nine staying where they are "
    "and cities weighed by population. Go through them again until nothing moves any more. Answer with the "
    "ten cities by alphabet, that mean distance, and the median distance of the cities (not weighed) to their "
    "nearest warehouse, in this form: CITY, CITY, ...; mean 0 km, median 0 km",
    answer="Athens, Berlin, Bucharest, Espoo, Győr, Madrid, Mechelen, Milan, Naples, Warsaw; mean 239 km, median 261 "
    "km",
    by_hand=False,
    why_no_plan="a plan has no loops of its own to compute with, and no tool does it",
    why_no_calls="the model would have to do millions of multiplications in its head; the script does not pretend to",
)
def aggregation() -> None:
    """CPU-heavy aggregation.

    A few lookups, then a second or so of plain Python: 234,000 distances, and searches through all of them. The program
    uses what Python has for it: a dataclass with a method, `math`, `statistics`. The 484 cities of the European Union
    are real, from GeoNames (CC BY 4.0). Those of a country take 50 to 150 ms, the countries 20 ms, simulated; the rest
    is work.
    """


@of_program(
    _LARGE,
    tools=(list_shops, get_order_lines, top_products),
    task="Which three products had the highest revenue in June, over all shops together? Answer with the highest "
    "first, in this form: PRODUCT 0 euros, PRODUCT 0 euros, PRODUCT 0 euros",
    answer="Birch backpack 134126 euros, Birch headphones 130167 euros, Linden desk lamp 130098 euros",
    steps=(
        step("list", "list_shops"),
        step("orders", "get_order_lines", for_each="$ref:list.shops", shop_id="$item.shop_id"),
        step("top", "top_products", orders="$ref:orders", count=3),
    ),
    outputs=("top",),
    said={"$expr": "', '.join([f'{each.product} {each.revenue_cents / 100:.0f} euros' for each in top.top])"},
)
def large(top: Any) -> str:
    """5 MB that the model never needs to see.

    Ten results of half a megabyte each, of which three names and numbers are wanted. A plan hands the lines from tool
    to tool by reference. The program adds up the revenue itself. Direct calls need about two million tokens of context.
    The 48,000 order lines are made up. A shop's lines take 150 to 300 ms, the list and the ranking 20 ms, simulated.
    """
    return ", ".join(f"{each['product']} {each['revenue_cents'] / 100:.0f} euros" for each in top["top"])
