"""Large intermediate results: ten shops' order lines, five megabytes, of which the model needs three names."""

from __future__ import annotations

import functools
import random
from collections import Counter
from typing import Any

from callgate_bench.workloads.pacing import wait
from callgate_bench.workloads.scripts import by_hand, one_plan, one_program, step
from callgate_bench.workloads.workload import Workload

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
    revenue: Counter[str] = Counter()
    for line in (line for order in orders for line in order["lines"]):
        revenue[line["product"]] += line["quantity"] * line["unit_price_cents"]
    return {"top": [{"product": product, "revenue_cents": cents} for product, cents in revenue.most_common(count)]}


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


_TOOLS = (list_shops, get_order_lines, top_products)
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
    tools=_TOOLS,
    calls=by_hand(_PROGRAM, _TOOLS),
    plans=one_plan(
        step("list", "list_shops"),
        step("orders", "get_order_lines", for_each="$ref:list.shops", shop_id="$item.shop_id"),
        step("top", "top_products", orders="$ref:orders", count=3),
        outputs=("top",),
        answer=lambda top: ", ".join(
            f"{each['product']} {each['revenue_cents'] / 100:.0f} euros" for each in top["top"]
        ),
    ),
    programs=one_program(_PROGRAM),
    facts=(_TOP,),
    never=tuple(product for product in _PRODUCTS if product not in _TOP),
    note=(
        "A plan hands the lines from tool to tool by reference. The program adds up the revenue itself. Direct calls "
        "need about two million tokens of context."
    ),
)
