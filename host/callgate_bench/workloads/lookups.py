"""Lookups that need nothing of each other, and one step that needs all of them: 3, 20, 10 and 200 calls."""

from __future__ import annotations

import functools
import random
from typing import Any

from callgate_bench.workloads import services
from callgate_bench.workloads.scripts import of_program, step
from callgate_bench.workloads.services import wait

__all__ = ["budget", "fan_out", "regions", "weather"]

_CITIES = ("Stockholm", "Athens", "Lisbon")


async def get_weather(city: str) -> dict[str, Any]:
    """Today's weather in a city.

    Gives {"city": str, "temperature_c": float, "wind_kmh": int, "rain_mm": float, "sky": str,
    "humidity_percent": int, "latitude": float, "longitude": float}.

    Args:
        city: its name, in English.
    """
    await wait(0.1, 0.2, city)
    return services.weather_in(city)


async def compare_weather(reports: list[dict[str, Any]]) -> dict[str, Any]:
    """The warmest of several cities, and how far ahead of the next it is.

    Gives {"warmest": str, "ahead_by_c": float}.

    Args:
        reports: two or more, as get_weather gives them.
    """
    await wait(0.05, 0.05)
    first, second, *_ = sorted(reports, key=lambda report: -report["temperature_c"])
    return {"warmest": first["city"], "ahead_by_c": round(first["temperature_c"] - second["temperature_c"], 1)}


_WEATHER = """
import asyncio

cities = ["Stockholm", "Athens", "Lisbon"]
reports = await asyncio.gather(*(get_weather(city=city) for city in cities))
ordered = sorted(reports, key=lambda report: report["temperature_c"], reverse=True)
ahead = ordered[0]["temperature_c"] - ordered[1]["temperature_c"]
f"answer: {ordered[0]['city']}, by {ahead:.1f} degrees"
"""


_EMPLOYEES = (
    "Ada", "Alan", "Barbara", "Claude", "Donald", "Edsger", "Frances", "Grace", "Hedy", "Ivan",
    "Jean", "Ken", "Leslie", "Margaret", "Niklaus", "Ole", "Peter", "Radia", "Sophie", "Tim",
)  # fmt: skip
_BUDGETS = {"junior": 3_000, "senior": 5_000, "lead": 8_000}
_PRICES = {"train": (18, 190), "flight": (90, 420), "hotel": (85, 310), "meal": (9, 65), "taxi": (11, 70)}
_MERCHANTS = {
    "train": ("Deutsche Bahn", "SNCF", "Trenitalia"),
    "flight": ("Lufthansa", "KLM", "TAP"),
    "hotel": ("Hotel Adria", "Motel One", "Scandic"),
    "meal": ("Cafe Central", "Trattoria Roma", "Noodle Bar"),
    "taxi": ("Taxi 4030", "Bolt", "City Cabs"),
}


@functools.cache
def _team() -> dict[int, dict[str, Any]]:
    chance = random.Random(2026)
    return {
        number: {"id": number, "name": name, "level": chance.choice(tuple(_BUDGETS))}
        for number, name in enumerate(_EMPLOYEES, start=101)
    }


@functools.cache
def _expenses(employee_id: int) -> list[dict[str, Any]]:
    chance = random.Random(f"expenses {employee_id}")
    target = _BUDGETS[_team()[employee_id]["level"]] * chance.uniform(0.55, 1.12)
    lines: list[dict[str, Any]] = []
    spent = 0.0
    while spent < target - 60:
        category = chance.choice(tuple(_PRICES))
        amount = round(chance.uniform(*_PRICES[category]), 2)
        lines.append(
            {
                "date": f"2026-{chance.randint(7, 9):02}-{chance.randint(1, 28):02}",
                "category": category,
                "merchant": chance.choice(_MERCHANTS[category]),
                "amount_euros": amount,
            }
        )
        spent += amount
    return sorted(lines, key=lambda line: str(line["date"]))


async def get_team() -> dict[str, Any]:
    """All employees.

    Gives {"members": [{"id": int, "name": str, "level": str}]}.
    """
    await wait(0.02, 0.02)
    return {"members": list(_team().values())}


async def get_expenses(employee_id: int, quarter: str) -> dict[str, Any]:
    """Travel expenses of an employee.

    Gives {"employee_id": int, "lines": [{"date": str, "category": str, "merchant": str, "amount_euros":
    float}]}.

    Args:
        employee_id: the employee's id.
        quarter: Q1, Q2, Q3 or Q4 of this year.
    """
    await wait(0.1, 0.25, employee_id)
    return {"employee_id": employee_id, "lines": _expenses(employee_id) if quarter == "Q3" else []}


async def check_budgets(spending: list[dict[str, Any]]) -> dict[str, Any]:
    """Hold what employees spent in a quarter against their travel budgets: who is over?

    Gives {"over": [{"name": str, "budget_euros": int, "spent_euros": float, "over_by_euros": float}]}.

    Args:
        spending: for each employee {"employee_id": int, "spent_euros": float}.
    """
    await wait(0.02, 0.02)
    over = []
    for each in spending:
        member = _team()[each["employee_id"]]
        budget, spent = _BUDGETS[member["level"]], each["spent_euros"]
        if spent > budget:
            by = round(spent - budget, 2)
            over.append({"name": member["name"], "budget_euros": budget, "spent_euros": spent, "over_by_euros": by})
    return {"over": over}


_BUDGET = """
import asyncio

team = (await get_team())["members"]
reports = await asyncio.gather(*(get_expenses(employee_id=each["id"], quarter="Q3") for each in team))
spending = []
for report in reports:
    spent = sum(line["amount_euros"] for line in report["lines"])
    spending.append({"employee_id": report["employee_id"], "spent_euros": round(spent, 2)})
over = (await check_budgets(spending=spending))["over"]
told = ", ".join(f"{each['name']} by {each['over_by_euros']:.0f} euros" for each in over)
f"answer: {told}"
"""


_SPENDING = (
    "[{'employee_id': each.employee_id, 'spent_euros': round(sum([line.amount_euros for line in each.lines]), 2)} "
    "for each in expenses]"
)


_CAPITALS = {"north": "Stockholm", "south": "Athens", "east": "Warsaw", "west": "Lisbon", "centre": "Prague"}
_GOODS = ("boots", "coats", "hats", "tents", "stoves", "packs")
_MONTHS = ("2026-03", "2026-04", "2026-05")


@functools.cache
def _sales(region: str) -> dict[str, Any]:
    chance = random.Random(f"sales 8 {region}")
    months = {month: {product: chance.randint(2_000, 34_000) for product in _GOODS} for month in _MONTHS}
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


_REGIONS = """
import asyncio

regions = (await list_regions())["regions"]
found = await asyncio.gather(
    *(query_sales(region=each["region"]) for each in regions), *(get_weather(city=each["capital"]) for each in regions)
)
dry = [sale for sale, report in zip(found, found[len(regions):]) if report["rain_mm"] < 5]
best = max(dry, key=lambda sale: sale["revenue_euros"])
f"answer: {best['region']}, {best['revenue_euros']} euros"
"""


_KINDS = ("bolt", "nut", "washer", "bracket", "hinge", "valve", "gasket", "bearing", "spring", "clamp")
_SIZES = ("M4", "M5", "M6", "M8", "M10")
_FINISHES = ("steel", "zinc", "brass", "black")


@functools.cache
def _products() -> dict[str, dict[str, Any]]:
    chance = random.Random("stock")
    names = [f"{kind} {size} {finish}" for kind in _KINDS for size in _SIZES for finish in _FINISHES]
    products = {}
    for number, name in enumerate(names, start=1):
        least = chance.randint(20, 90)
        sku = f"P-{1000 + number * 7}"
        products[sku] = {
            "sku": sku,
            "name": name,
            "on_hand": chance.randint(least // 2, least * 5),
            "reorder_at": least,
            "target": least * 4,
            "bin": f"{chance.choice('ABCDEF')}{chance.randint(1, 40):02}",
        }
    return products


def _price_cents(sku: str) -> int:
    return random.Random(f"price {sku}").randint(8, 640)


async def list_products() -> dict[str, Any]:
    """Every product of the warehouse.

    Gives {"skus": [str]}.
    """
    await wait(0.02, 0.02)
    return {"skus": list(_products())}


async def get_stock(sku: str) -> dict[str, Any]:
    """The stock of a product.

    Gives {"sku": str, "name": str, "on_hand": int, "reorder_at": int, "target": int, "bin": str}.

    Args:
        sku: as list_products names it.
    """
    await wait(0.05, 0.15, sku)
    return _products()[sku]


async def quote_order(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """What an order would cost; nothing is ordered.

    Gives {"products": int, "pieces": int, "total_euros": float}.

    Args:
        lines: for each product {"sku": str, "quantity": int}.
    """
    await wait(0.12, 0.12)
    cents = sum(_price_cents(line["sku"]) * line["quantity"] for line in lines)
    pieces = sum(line["quantity"] for line in lines)
    return {"products": len(lines), "pieces": pieces, "total_euros": cents / 100}


_FAN_OUT = """
import asyncio

skus = (await list_products())["skus"]
stock = await asyncio.gather(*(get_stock(sku=sku) for sku in skus))
lines = [
    {"sku": each["sku"], "quantity": each["target"] - each["on_hand"]}
    for each in stock
    if each["on_hand"] < each["reorder_at"]
]
quote = await quote_order(lines=lines)
f"answer: {quote['products']} products, {quote['pieces']} pieces, {quote['total_euros']:.2f} euros"
"""


_SHORT = (
    "[{'sku': each.sku, 'quantity': each.target - each.on_hand} for each in stock if each.on_hand < each.reorder_at]"
)


@of_program(
    _WEATHER,
    tools=(get_weather, compare_weather),
    task="Which of Stockholm, Athens and Lisbon is the warmest today, and by how many degrees is it ahead of the "
    "second? Answer in this form: CITY, by 0.0 degrees",
    answer="Athens, by 1.9 degrees",
    steps=(
        *(step(city.lower(), "get_weather", city=city) for city in _CITIES),
        step("comparison", "compare_weather", reports=[f"$ref:{city.lower()}" for city in _CITIES]),
    ),
    outputs=("comparison",),
    said={"$expr": "f'{comparison.warmest}, by {comparison.ahead_by_c:.1f} degrees'"},
)
def weather(comparison: Any) -> str:
    """Weather comparison.

    Three calls that need nothing of each other, and a comparison that a model can do by looking. Direct calls in
    parallel need no more turns than a plan or a program. Where the cities lie is real, from GeoNames (CC BY 4.0); the
    weather is made up. A report takes 100 to 200 ms, a comparison 50 ms, simulated.
    """
    return f"{comparison['warmest']}, by {comparison['ahead_by_c']:.1f} degrees"


@of_program(
    _BUDGET,
    tools=(get_team, get_expenses, check_budgets),
    task="Which employees spent more on travel in Q3 than their budget allows, and by how much? Answer with all of "
    "them by name, in whole euros, in this form: NAME by 0 euros, NAME by 0 euros",
    answer="Donald by 587 euros, Jean by 96 euros, Leslie by 302 euros, Ole by 192 euros",
    steps=(
        step("team", "get_team"),
        step("expenses", "get_expenses", for_each="$ref:team.members", employee_id="$item.id", quarter="Q3"),
        step("check", "check_budgets", spending={"$expr": _SPENDING}),
    ),
    outputs=("check",),
    said={"$expr": "', '.join([f'{each.name} by {each.over_by_euros:.0f} euros' for each in check.over])"},
)
def budget(check: Any) -> str:
    """Budget check of twenty employees.

    Twenty lookups of twenty to sixty lines each, sums of them, and a check. The model needs to see a few names. The
    data are made up. An employee's expenses take 100 to 250 ms, the team and the check 20 ms, simulated. With direct
    calls the scripted model adds up all lines without a mistake; a real one may not.
    """
    return ", ".join(map("{0[name]} by {0[over_by_euros]:.0f} euros".format, check["over"]))


@of_program(
    _REGIONS,
    tools=(list_regions, query_sales, get_weather),
    task="The summer sale goes to the region with the highest revenue of those whose capital has less than 5 mm of "
    "rain today. Which region is it, with what revenue? Answer in this form: REGION, 0 euros",
    answer="east, 373831 euros",
    steps=(
        step("list", "list_regions"),
        step("sales", "query_sales", for_each="$ref:list.regions", region="$item.region"),
        step("weather", "get_weather", for_each="$ref:list.regions", city="$item.capital"),
    ),
    outputs=("sales", "weather"),
)
def regions(sales: Any, weather: Any) -> str:
    """Regions with sales and weather.

    Five regions, two lookups for each, joined. No tool joins them: with a plan the model reads what both gave. Where
    the capitals lie is real, from GeoNames (CC BY 4.0); weather and sales are made up. The list takes 20 ms, a region's
    sales 50 to 150 ms, a weather report 100 to 200 ms, simulated.
    """
    dry = [sale for sale, report in zip(sales, weather, strict=True) if report["rain_mm"] < 5]
    best = max(dry, key=lambda sale: int(sale["revenue_euros"]))
    return f"{best['region']}, {best['revenue_euros']} euros"


@of_program(
    _FAN_OUT,
    tools=(list_products, get_stock, quote_order),
    task="Look at the stock of all products. For every product with less on hand than its reorder_at, the order has "
    "the quantity that brings it up to its target. Get a quote for one order of all of these. How many "
    "products and pieces is it, and what is its total? Answer in this form: 0 products, 0 pieces, 0.00 euros",
    answer="27 products, 5179 pieces, 19356.71 euros",
    steps=(
        step("list", "list_products"),
        step("stock", "get_stock", for_each="$ref:list.skus", sku="$item"),
        step("quote", "quote_order", lines={"$expr": _SHORT}),
    ),
    outputs=("quote",),
    said={"$expr": "f'{quote.products} products, {quote.pieces} pieces, {quote.total_euros:.2f} euros'"},
)
def fan_out(quote: Any) -> str:
    """Fan-out of 200 calls.

    Two hundred calls that need nothing of each other, and one that needs a few numbers of each. The stock is made up. A
    product takes 50 to 150 ms, the list 20 ms, the quote 120 ms, simulated. With direct calls the scripted model goes
    through 200 results without a mistake; a real one may not.
    """
    return f"{quote['products']} products, {quote['pieces']} pieces, {quote['total_euros']:.2f} euros"
