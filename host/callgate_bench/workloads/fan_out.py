"""A fan-out of two hundred calls: the stock of every product, and a quote for what runs short."""

from __future__ import annotations

import functools
import random
from typing import Any

from callgate_bench.workloads.pacing import wait
from callgate_bench.workloads.scripts import by_hand, one_plan, one_program, step
from callgate_bench.workloads.workload import Pattern, Workload

__all__ = ["WORKLOAD"]

_PRODUCTS_FIRST = r"(?<![\w.])27(?!\w|\.\d).{0,80}?(?<![\w.])5179(?!\w|\.\d)"
_PIECES_FIRST = r"(?<![\w.])5179 pieces\D{0,40}(?<![\w.])27 (?:\w+ )?(?:products|skus)"
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


_PROGRAM = """
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
_TOOLS = (list_products, get_stock, quote_order)
WORKLOAD = Workload(
    name="fan-out",
    title="Fan-out of 200 calls",
    about="Two hundred calls that need nothing of each other, and one that needs a few numbers of each.",
    data=(
        "Made up: the stock of 200 products. A product takes 50 to 150 ms, the list 20 ms, the quote 120 ms, simulated."
    ),
    task=(
        "Look at the stock of all products. For every product with less on hand than its reorder_at, the order has the "
        "quantity that brings it up to its target. Get a quote for one order of all of these. How many products and "
        "pieces is it, and what is its total in euros, with two decimals?"
    ),
    tools=_TOOLS,
    calls=by_hand(_PROGRAM, _TOOLS),
    plans=one_plan(
        step("list", "list_products"),
        step("stock", "get_stock", for_each="$ref:list.skus", sku="$item"),
        step("quote", "quote_order", lines={"$expr": _SHORT}),
        outputs=("quote",),
        answer="{0[products]} products, {0[pieces]} pieces, {0[total_euros]:.2f} euros".format,
    ),
    programs=one_program(_PROGRAM),
    facts=(
        Pattern("27 products, 5179 pieces", f"{_PRODUCTS_FIRST}|{_PIECES_FIRST}"),
        "19356.71",
    ),
    never=(Pattern("27 pieces", r"(?<![\w.])27 pieces"), Pattern("5179 products", r"(?<![\w.])5179 products")),
    note="With direct calls the scripted model goes through 200 results without a mistake; a real one may not.",
)
