"""Approval: a destructive call waits for a yes, which may change the arguments; a no reaches the program, with why.

Here a rule answers in place of a person. `callgate run` asks at the terminal.
"""

from __future__ import annotations

import asyncio
import sqlite3

from callgate import Allow, ApprovalRequest, Deny, Runtime, tool

DATABASE = sqlite3.connect(":memory:")
DATABASE.execute("CREATE TABLE orders (id INTEGER, customer, year INTEGER)")
DATABASE.executemany("INSERT INTO orders VALUES (?, ?, ?)", [(n, f"customer {n % 7}", 2020 + n % 6) for n in range(60)])


@tool(read_only=True)
async def count_orders(year: int) -> int:
    """How many orders there are of a year.

    Args:
        year: the year.
    """
    return int(DATABASE.execute("SELECT COUNT(*) FROM orders WHERE year = ?", (year,)).fetchone()[0])


@tool(destructive=True, requires_approval=True)
async def delete_orders(year: int, limit: int = 1_000) -> int:
    """Delete orders of a year; returns how many are gone.

    Args:
        year: the year.
        limit: delete at most so many.
    """
    query = "DELETE FROM orders WHERE rowid IN (SELECT rowid FROM orders WHERE year = ? LIMIT ?)"
    return DATABASE.execute(query, (year, limit)).rowcount


async def approve(request: ApprovalRequest) -> Allow | Deny:
    """Old orders may go, a few at a time; recent ones may not."""
    if request.arguments["year"] >= 2024:
        return Deny("orders of the last two years are kept")
    return Allow({**request.arguments, "limit": 5})


PROGRAM = """
for year in (2020, 2025):
    before = await count_orders(year)
    try:
        gone = await delete_orders(year)
        print(f"{year}: {gone} of {before} deleted")
    except ToolError as error:
        print(f"{year}: {error}")
"""


async def main() -> None:
    async with Runtime([count_orders, delete_orders], approve=approve) as runtime:
        run = await runtime.execute_code(PROGRAM)
    async with Runtime([count_orders, delete_orders]) as nobody:
        refused = await nobody.execute_code("await delete_orders(2020)")

    assert run.ok, run.for_model()
    assert run.logs.splitlines() == [
        "2020: 5 of 10 deleted",
        "2025: the call of tool 'delete_orders' was denied: orders of the last two years are kept",
    ]
    first, second = (call for call in run.calls if call.tool == "delete_orders")
    assert (first.status, first.changed_arguments) == ("succeeded", {"year": 2020, "limit": 5})
    assert second.status == "denied"
    assert not refused.ok, "without anybody to ask, the answer is no"
    assert DATABASE.execute("SELECT COUNT(*) FROM orders").fetchone()[0] == 55

    print(run.logs, end="")
    print(f"with nobody to ask: {refused.error.message if refused.error else None}")


if __name__ == "__main__":
    asyncio.run(main())
