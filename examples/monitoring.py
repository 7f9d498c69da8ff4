"""Monitoring: list the metrics, query the first, check it against a threshold. Three calls, one trip to the model.

Asked one call at a time, a model would pass each name on to the next call by hand. Here it hands over a plan, and each
step refers to what an earlier one found. The same plan twice: positions and `{"$ref": ...}`, then ids and `"$ref:..."`.
"""

from __future__ import annotations

import asyncio
import operator
from typing import Any, Literal

from callgate import Runtime, ToolError, tool

METRICS: dict[str, dict[str, list[float]]] = {
    "compute": {"cpu_usage": [64.0, 70.5, 72.5], "memory_usage": [58.0, 61.2, 60.9]},
    "network": {"packet_loss": [0.1, 0.4, 2.6]},
}
SAMPLES = {name: samples for category in METRICS.values() for name, samples in category.items()}
COMPARE = {"gt": operator.gt, "lt": operator.lt}


@tool(read_only=True)
async def list_metrics(category: str) -> dict[str, Any]:
    """The metrics of a category.

    Args:
        category: compute or network.
    """
    if category not in METRICS:
        raise ToolError(f"there is no category {category!r}; there are: {', '.join(METRICS)}")
    return {"metrics": [{"name": name, "unit": "percent"} for name in METRICS[category]]}


@tool(read_only=True)
async def query_metric(name: str) -> dict[str, Any]:
    """The samples of a metric, the oldest first.

    Args:
        name: as `list_metrics` names it.
    """
    return {"name": name, "current": SAMPLES[name][-1], "samples": SAMPLES[name]}


@tool(read_only=True)
async def check_threshold(metric_name: str, threshold: float | str, operator: Literal["gt", "lt"]) -> dict[str, Any]:
    """Whether a metric is above or below a threshold now.

    Args:
        metric_name: as `list_metrics` names it.
        threshold: in the metric's own unit; models write it as a number or as text.
        operator: gt for above, lt for below.
    """
    current = SAMPLES[metric_name][-1]
    return {"metric": metric_name, "current": current, "exceeded": COMPARE[operator](current, float(threshold))}


BY_POSITION = {
    "goal": "Check if CPU usage exceeds 80%",
    "steps": [
        {"tool": "list_metrics", "args": {"category": "compute"}, "description": "Get available compute metrics"},
        {
            "tool": "query_metric",
            "args": {"name": {"$ref": "steps[0].result.metrics[0].name"}},
            "description": "Query the first compute metric",
        },
        {
            "tool": "check_threshold",
            "args": {
                "metric_name": {"$ref": "steps[0].result.metrics[0].name"},
                "threshold": "80",
                "operator": "gt",
            },
            "description": "Check if above 80%",
        },
    ],
}
BY_ID = """
{"goal": "Check if packet loss exceeds 1%",
 "steps": [
   {"id": "list",  "tool": "list_metrics",    "arguments": {"category": "network"}},
   {"id": "query", "tool": "query_metric",    "arguments": {"name": "$ref:list.metrics[0].name"}},
   {"id": "check", "tool": "check_threshold", "arguments": {"metric_name": "$ref:query.name", "threshold": 1, "operator": "gt"}}],
 "output_steps": ["check"]}
"""  # noqa: E501 (as a model writes it)


async def main() -> None:
    async with Runtime([list_metrics, query_metric, check_threshold], sandbox=None) as runtime:
        cpu = await runtime.execute_tool_plan(BY_POSITION)
        loss = await runtime.execute_tool_plan(BY_ID)

    # without output_steps every result comes back; a step without an id is named by its position
    assert cpu.ok, cpu.for_model()
    assert cpu.outputs["steps[2]"] == {"metric": "cpu_usage", "current": 72.5, "exceeded": False}
    assert cpu.step("steps[1]").arguments == {"name": "cpu_usage"}

    # with output_steps the samples stay out of the model's context, and in the artifact
    assert loss.ok, loss.for_model()
    assert loss.outputs == {"check": {"metric": "packet_loss", "current": 2.6, "exceeded": True}}
    assert "samples" not in loss.for_model()
    assert loss.step("query").result["samples"] == [0.1, 0.4, 2.6]
    assert [step.wave for step in loss.steps] == [0, 1, 2]

    for run in (cpu, loss):
        print(f"--- {run.goal}: {len(run.calls)} calls; the model reads")
        print(run.for_model())


if __name__ == "__main__":
    asyncio.run(main())
