"""Twenty employees and their travel expenses: who spent more than the budget allows?"""

from __future__ import annotations

import functools
import random
from typing import Any

from callgate_bench.workloads.pacing import wait
from callgate_bench.workloads.scripts import by_hand, one_plan, one_program, step
from callgate_bench.workloads.workload import Workload

__all__ = ["WORKLOAD"]

_NAMES = (
    "Ada", "Alan", "Barbara", "Claude", "Donald", "Edsger", "Frances", "Grace", "Hedy", "Ivan",
    "Jean", "Ken", "Leslie", "Margaret", "Niklaus", "Ole", "Peter", "Radia", "Sophie", "Tim",
)  # fmt: skip
_OVER = (("Donald", "587"), ("Jean", "96"), ("Leslie", "302"), ("Ole", "192"))
"""What the tools lead to: who is over budget, and by how many euros."""
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
        for number, name in enumerate(_NAMES, start=101)
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


_PROGRAM = """
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
_TOOLS = (get_team, get_expenses, check_budgets)
WORKLOAD = Workload(
    name="budget",
    title="Budget check of twenty employees",
    about=(
        "Twenty lookups of twenty to sixty lines each, sums of them, and a check. The model needs to see a few names."
    ),
    data=(
        "Made up: twenty employees and their travel expenses. An employee's expenses take 100 to 250 ms, the team and "
        "the check 20 ms, simulated."
    ),
    task=(
        "Which employees spent more on travel in Q3 than their budget allows, and by how much? Name each of them, "
        "followed by the amount over budget in whole euros, and nobody else."
    ),
    tools=_TOOLS,
    calls=by_hand(_PROGRAM, _TOOLS),
    plans=one_plan(
        step("team", "get_team"),
        step("expenses", "get_expenses", for_each="$ref:team.members", employee_id="$item.id", quarter="Q3"),
        step("check", "check_budgets", spending={"$expr": _SPENDING}),
        outputs=("check",),
        answer=lambda check: ", ".join(
            f"{each['name']} by {each['over_by_euros']:.0f} euros" for each in check["over"]
        ),
    ),
    programs=one_program(_PROGRAM),
    facts=_OVER,
    never=tuple(name for name in _NAMES if name not in dict(_OVER)),
    note="With direct calls the scripted model adds up every employee's lines without a mistake; a real one may not.",
)
