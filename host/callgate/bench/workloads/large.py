"""Large intermediate results: ten shops' order lines, five megabytes, of which the model needs three names."""

from __future__ import annotations

import functools
import random
from collections import Counter
from collections.abc import Generator
from typing import Any

from callgate.bench.workloads.pacing import wait
from callgate.bench.workloads.workload import Call, Workload, one_program, output, read

__all__ = ["WORKLOAD"]

_TOWNS = ("Aarhus", "Bologna", "Cork", "Dijon", "Evora", "Freiburg", "Gent", "Haarlem", "Innsbruck", "Jena")
_LINES = 4_800
_MAKERS = ("Alder", "Birch", "Cedar", "Elm", "Hazel", "Linden", "Maple", "Rowan")
_THINGS = ("desk lamp", "kettle", "backpack", "headphones", "blanket", "notebook", "chair", "mug")
_TOP = ("Birch backpack", "134126", "Birch headphones", "130167", "Linden desk lamp", "130098")
"""What the tools lead to: products and euros, the highest first."""
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
    revenue = _revenue([line for order in orders for line in order["lines"]])
    return {"top": [{"product": product, "revenue_cents": cents} for product, cents in revenue.most_common(count)]}


def _revenue(lines: list[dict[str, Any]]) -> Counter[str]:
    revenue: Counter[str] = Counter()
    for line in lines:
        revenue[line["product"]] += line["quantity"] * line["unit_price_cents"]
    return revenue


def _calls() -> Generator[list[Call], list[str], str]:
    (listed,) = yield [Call("list_shops")]
    texts = yield [Call("get_order_lines", {"shop_id": each["shop_id"]}) for each in read(listed)["shops"]]
    return _answer(_revenue([line for text in texts for line in read(text)["lines"]]).most_common(3))


_PLAN = {
    "steps": [
        {"id": "list", "tool": "list_shops", "arguments": {}},
        {
            "id": "orders",
            "tool": "get_order_lines",
            "for_each": "$ref:list.shops",
            "arguments": {"shop_id": "$item.shop_id"},
        },
        {"id": "top", "tool": "top_products", "arguments": {"orders": "$ref:orders", "count": 3}},
    ],
    "output_steps": ["top"],
}


def _plans() -> Generator[dict[str, Any], str, str]:
    top = output((yield _PLAN), "top")["top"]
    return _answer([(each["product"], each["revenue_cents"]) for each in top])


_PROGRAM = """
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


def _answer(top: list[tuple[str, int]]) -> str:
    return ", ".join(f"{product} {cents / 100:.0f} euros" for product, cents in top)


WORKLOAD = Workload(
    name="large",
    title="5 MB that the model never needs to see",
    about=(
        "Ten results of half a megabyte each, of which three names and numbers are wanted. With direct calls all of it "
        "goes into the model's context, which is too small for it."
    ),
    data=(
        "Made up: 48,000 order lines of ten shops. A shop's lines take 150 to 300 ms, the list and the ranking 20 ms, "
        "simulated."
    ),
    task=(
        "Which three products had the highest revenue in June, over all shops together? Name them, the highest first, "
        "each followed by its revenue in whole euros."
    ),
    tools=(list_shops, get_order_lines, top_products),
    calls=_calls,
    plans=_plans,
    programs=one_program(_PROGRAM),
    facts=(_TOP,),
    never=tuple(product for product in _PRODUCTS if product not in _TOP),
    note=(
        "A plan hands the lines from tool to tool by reference. The program adds up the revenue itself. Direct calls "
        "need about two million tokens of context."
    ),
)
