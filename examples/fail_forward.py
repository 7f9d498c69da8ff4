"""Failure goes forward: what depends on a failed step is skipped, everything else runs, and the model reads which.

A plan with a fault in it is another matter: nothing of it is run, and all its faults come back at once.
"""

from __future__ import annotations

import asyncio
from typing import Any

from callgate import Runtime, ToolError, tool

STOCK = {"bolt": 120, "nut": 80, "washer": 0}
PRICES = {"bolt": 0.12, "nut": 0.05, "washer": 0.02}
CALLED: list[str] = []


@tool(read_only=True)
async def get_stock(part: str) -> dict[str, Any]:
    """How many of a part are there.

    Args:
        part: the part's name.
    """
    CALLED.append(part)
    if part not in STOCK:
        raise ToolError(f"there is no part {part!r}; there are: {', '.join(STOCK)}", retryable=False)
    return {"part": part, "count": STOCK[part]}


@tool(read_only=True)
async def get_value(part: str, count: int) -> float:
    """What so many of a part are worth, in euros.

    Args:
        part: the part's name.
        count: how many.
    """
    return round(PRICES[part] * count, 2)


@tool(read_only=True)
async def add_up(values: list[float]) -> float:
    """The sum of some values.

    Args:
        values: in euros.
    """
    return sum(values)


def plan_for(*parts: str) -> dict[str, Any]:
    """Look up each part and its value, then add the values up."""
    steps: list[dict[str, Any]] = []
    for part in parts:
        steps.append({"id": part, "tool": "get_stock", "arguments": {"part": part}})
        value = {"part": f"$ref:{part}.part", "count": f"$ref:{part}.count"}
        steps.append({"id": f"{part}_value", "tool": "get_value", "arguments": value})
    total = {"values": [f"$ref:{part}_value" for part in parts]}
    steps.append({"id": "total", "tool": "add_up", "arguments": total})
    return {"steps": steps, "output_steps": ["bolt_value", "total"]}


async def main() -> None:
    async with Runtime([get_stock, get_value, add_up], sandbox=None) as runtime:
        failed = await runtime.execute_tool_plan(plan_for("bolt", "screw", "nut"))
        corrected = await runtime.execute_tool_plan(plan_for("bolt", "washer", "nut"))
        CALLED.clear()
        faulty = plan_for("bolt", "nut")
        faulty["steps"][0]["tool"] = "get_stok"
        faulty["steps"][3]["arguments"]["count"] = "$ref:nutt.count"
        refused = await runtime.execute_tool_plan(faulty)

    # 1. one step fails: its dependents are skipped, with the root cause; the others have run
    assert not failed.ok
    states = {step.id: step.status for step in failed.steps}
    assert states == {
        "bolt": "succeeded", "bolt_value": "succeeded", "screw": "failed", "screw_value": "skipped",
        "nut": "succeeded", "nut_value": "succeeded", "total": "skipped",
    }  # fmt: skip
    assert failed.step("total").cause == "screw"
    assert failed.outputs == {"bolt_value": 14.4}
    assert "Skipped because dependency 'screw' failed" in failed.for_model()

    # 2. the model reads what there is instead, and sends a better plan
    assert corrected.ok, corrected.for_model()
    assert corrected.outputs["total"] == 14.4 + 0.0 + 4.0

    # 3. a plan with faults is not run at all
    assert refused.error is not None
    assert refused.error.kind == "PlanRefused"
    assert [fault.code for fault in refused.faults] == ["unknown-tool", "unknown-step"]
    assert not CALLED

    for title, run in [("failed", failed), ("corrected", corrected), ("refused", refused)]:
        print(f"--- {title}: the model reads")
        print(run.for_model())


if __name__ == "__main__":
    asyncio.run(main())
