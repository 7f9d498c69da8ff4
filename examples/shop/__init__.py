"""A shop's tools, for the examples in which a model has to find the right ones: a database in memory, four tools
written by hand, and three for each of its other tables."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Any

from callgate import Tool, tool

__all__ = ["DATABASE", "SENT", "TABLES", "TOOLS", "Customer", "Order", "over_budget"]

REGIONS = ("north", "south", "west", "east")
RATES = {"EUR": 1.0, "USD": 0.92, "GBP": 1.17, "JPY": 0.0061}
TABLES = (
    "complaints", "contracts", "deliveries", "discounts", "employees", "invoices", "leads", "meetings", "parcels",
    "products", "refunds", "suppliers", "tickets", "trucks", "vouchers", "warehouses",
)  # fmt: skip
SENT: list[tuple[int, str]] = []
"""Reminders that were sent."""

DATABASE = sqlite3.connect(":memory:", check_same_thread=False)
DATABASE.execute("CREATE TABLE customers (id INTEGER, name, region, budget REAL)")
DATABASE.execute("CREATE TABLE orders (customer INTEGER, amount REAL, currency)")
for number in range(24):
    DATABASE.execute(
        "INSERT INTO customers VALUES (?, ?, ?, ?)",
        (number, f"Customer {number}", REGIONS[number % 4], 1000.0 + 100 * (number % 7)),
    )
    DATABASE.executemany(
        "INSERT INTO orders VALUES (?, ?, ?)",
        [(number, 40.0 + (number * 37 + n * 53) % 190, list(RATES)[(number + n) % 3]) for n in range(10)],
    )
for table in TABLES:
    DATABASE.execute(f"CREATE TABLE {table} (id INTEGER, note)")
    DATABASE.executemany(f"INSERT INTO {table} VALUES (?, ?)", [(n, f"{table} {n}") for n in range(len(table))])


@dataclass
class Customer:
    id: int
    name: str
    budget: float
    """Euros a year."""


@dataclass
class Order:
    amount: float
    currency: str


@tool(read_only=True)
async def list_customers(region: str) -> list[Customer]:
    """The customers of a region, each with the budget that was agreed, in euros.

    Args:
        region: north, south, west or east.
    """
    found = DATABASE.execute("SELECT id, name, budget FROM customers WHERE region = ? ORDER BY id", (region,))
    return [Customer(id=number, name=name, budget=budget) for number, name, budget in found]


@tool(read_only=True)
async def list_orders(customer_id: int) -> list[Order]:
    """What a customer ordered this year: amounts, each in its own currency.

    Args:
        customer_id: the customer's id.
    """
    found = DATABASE.execute("SELECT amount, currency FROM orders WHERE customer = ?", (customer_id,))
    return [Order(amount=amount, currency=currency) for amount, currency in found]


@tool(read_only=True)
async def exchange_rate(currency: str) -> float:
    """Euros that one unit of a currency is worth.

    Args:
        currency: its three letters.
    """
    return RATES[currency]


@tool(requires_approval=True)
async def send_reminder(customer_id: int, text: str) -> int:
    """Write to a customer; returns how many reminders were sent so far.

    Args:
        customer_id: the customer's id.
        text: the message.
    """
    SENT.append((customer_id, text))
    return len(SENT)


def _about(table: str) -> list[Tool]:
    nothing: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
    number = {**nothing, "properties": {"id": {"type": "integer"}}, "required": ["id"]}

    async def count() -> int:
        return int(DATABASE.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0])

    async def listed() -> list[str]:
        return [note for (note,) in DATABASE.execute(f"SELECT note FROM {table} ORDER BY id")]

    async def remove(id: int) -> int:
        return DATABASE.execute(f"DELETE FROM {table} WHERE id = ?", (id,)).rowcount

    return [
        Tool.from_schema(f"count_{table}", f"How many {table} there are.", nothing, count, read_only=True),
        Tool.from_schema(f"list_{table}", f"The notes of all {table}.", nothing, listed, read_only=True),
        Tool.from_schema(f"delete_{table}", f"Delete one of the {table}.", number, remove, destructive=True),
    ]


TOOLS = [list_customers, list_orders, exchange_rate, send_reminder, *(each for name in TABLES for each in _about(name))]
"""52 of them."""


def over_budget(region: str) -> list[str]:
    """The answer, by the database alone: names of customers whose orders are worth more than their budget."""
    DATABASE.create_function("rate", 1, RATES.__getitem__, deterministic=True)
    query = """
        SELECT name FROM customers JOIN orders ON customer = id WHERE region = ?
        GROUP BY id HAVING SUM(amount * rate(currency)) > budget ORDER BY id
    """
    return [name for (name,) in DATABASE.execute(query, (region,))]
