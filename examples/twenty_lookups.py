"""Twenty lookups, one answer: who spent more than their travel budget in the third quarter?

Called one at a time, every employee's expense items would pass through the model's context, and the model would have to
add them up. Here one program asks for all of them, adds up exactly, and only those over budget come back.

The employees and their expenses are made up, by a fixed rule, and kept in SQLite.
"""

from __future__ import annotations

import asyncio
import random
import sqlite3
from dataclasses import dataclass

from callgate import Runtime, tool

NAMES = [
    "Ada", "Alan", "Barbara", "Claude", "Donald", "Edsger", "Frances", "Grace", "Hedy", "Ivan",
    "Jean", "Ken", "Leslie", "Margaret", "Niklaus", "Ole", "Peter", "Radia", "Sophie", "Tim",
]  # fmt: skip
LEVELS = {"junior": 3_000, "senior": 5_000, "lead": 8_000}


def make_database() -> sqlite3.Connection:
    """Twenty employees with forty to sixty expense items each, always the same ones."""
    chance = random.Random(2026)
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE employees (id INTEGER, name, level)")
    database.execute("CREATE TABLE expenses (employee INTEGER, day, category, cents INTEGER)")
    for number, name in enumerate(NAMES, start=1):
        database.execute("INSERT INTO employees VALUES (?, ?, ?)", (number, name, chance.choice(list(LEVELS))))
        for _ in range(chance.randint(40, 60)):
            day = f"2026-{chance.randint(7, 9):02}-{chance.randint(1, 28):02}"
            category = chance.choice(["train", "flight", "hotel", "meal"])
            item = (number, day, category, chance.randint(500, 13_500))
            database.execute("INSERT INTO expenses VALUES (?, ?, ?, ?)", item)
    return database


DATABASE = make_database()


@dataclass
class Employee:
    id: int
    name: str
    level: str


@dataclass
class Expense:
    day: str
    category: str
    cents: int


@tool(read_only=True)
async def get_team() -> list[Employee]:
    """Every employee of the team."""
    return [Employee(*row) for row in DATABASE.execute("SELECT id, name, level FROM employees ORDER BY id")]


@tool(read_only=True)
async def get_expenses(employee_id: int) -> list[Expense]:
    """The travel expenses of one employee in the third quarter, in cents.

    Args:
        employee_id: the employee's id.
    """
    query = "SELECT day, category, cents FROM expenses WHERE employee = ? ORDER BY day"
    return [Expense(*row) for row in DATABASE.execute(query, (employee_id,))]


@tool(read_only=True)
async def get_budget(level: str) -> int:
    """The quarterly travel budget of a level, in whole euros.

    Args:
        level: junior, senior or lead.
    """
    return LEVELS[level]


PROGRAM = """
import asyncio

team = await get_team()
expenses = await asyncio.gather(*(get_expenses(person.id) for person in team))
budgets = {level: await get_budget(level) for level in sorted({person.level for person in team})}

over = []
for person, items in zip(team, expenses):
    spent, budget = sum(item.cents for item in items), budgets[person.level] * 100
    if spent > budget:
        over.append({"name": person.name, "spent_cents": spent, "budget_cents": budget})
over
"""


async def main() -> None:
    async with Runtime([get_team, get_expenses, get_budget]) as runtime:
        run = await runtime.execute_code(PROGRAM)
    assert run.ok, run.for_model()

    # the same, asked of the database directly
    truth = DATABASE.execute(
        "SELECT name, level, SUM(cents) FROM employees JOIN expenses ON employee = id GROUP BY id ORDER BY id"
    )
    expected = [
        {"name": name, "spent_cents": spent, "budget_cents": LEVELS[level] * 100}
        for name, level, spent in truth
        if spent > LEVELS[level] * 100
    ]
    assert run.value == expected
    assert 0 < len(expected) < 20
    lookups = [call for call in run.calls if call.tool == "get_expenses"]
    assert len(lookups) == 20

    items = DATABASE.execute("SELECT COUNT(*) FROM expenses").fetchone()[0]
    print(f"{len(run.calls)} calls, {items} expense items, {run.usage.wall_seconds * 1000:.0f} ms; the model reads:")
    print(run.for_model())


if __name__ == "__main__":
    asyncio.run(main())
