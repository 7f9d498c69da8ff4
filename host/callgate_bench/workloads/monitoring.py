"""The monitoring chain: three calls, each of which needs what the one before it gave."""

from __future__ import annotations

import functools
import random
from typing import Any

from callgate_bench.workloads.pacing import wait
from callgate_bench.workloads.scripts import by_hand, one_plan, one_program, step
from callgate_bench.workloads.workload import Pattern, Workload

__all__ = ["WORKLOAD"]

_METRICS = {
    "compute": {"cpu_usage": 72.5, "memory_usage": 60.9, "load_per_core": 3.1},
    "network": {"packet_loss": 2.6, "retransmits": 0.8},
}
_ALERTS = {"cpu_usage": 80.0, "memory_usage": 75.0, "load_per_core": 4.0, "packet_loss": 1.0, "retransmits": 2.0}
_ALERT = (
    r"(?<!no )(?<!not )(?<!not an )(?<!not in )(?<!without )(?<!below )(?<!\w)"
    r"alert(?! (?:threshold|limit|level|line|status|state|at|above|over|from)|\w)(?!:? (?:ok|no)(?!\w))"
)
"""The verdict, and not the threshold, nor that there is none."""
_CURRENT = {name: value for category in _METRICS.values() for name, value in category.items()}


@functools.cache
def _samples(name: str) -> list[float]:
    chance = random.Random(f"metric {name}")
    current = _CURRENT[name]
    return [round(current * chance.uniform(0.7, 1.15), 1) for _ in range(59)] + [current]


async def list_metrics(category: str) -> dict[str, Any]:
    """The metrics of a category.

    Gives {"metrics": [{"name": str, "unit": str}]}.

    Args:
        category: compute or network.
    """
    await wait(0.08, 0.08)
    return {"metrics": [{"name": name, "unit": "percent"} for name in _METRICS[category]]}


async def query_metric(name: str) -> dict[str, Any]:
    """The last hour of a metric.

    Gives {"name": str, "unit": str, "current": float, "samples": [float]}, oldest sample first.

    Args:
        name: as list_metrics names it.
    """
    await wait(0.15, 0.15)
    samples = _samples(name)
    return {"name": name, "unit": "percent", "current": samples[-1], "samples": samples}


async def check_threshold(metric_name: str, value: float) -> dict[str, Any]:
    """Hold a value against the alert threshold of a metric.

    Gives {"metric": str, "threshold": float, "exceeded": bool}.

    Args:
        metric_name: as list_metrics names it.
        value: in the metric's unit.
    """
    await wait(0.06, 0.06)
    return {"metric": metric_name, "threshold": _ALERTS[metric_name], "exceeded": value > _ALERTS[metric_name]}


_PROGRAM = """
metrics = (await list_metrics(category="compute"))["metrics"]
metric = await query_metric(name=metrics[0]["name"])
check = await check_threshold(metric_name=metric["name"], value=metric["current"])
state = "ALERT" if check["exceeded"] else "OK"
f"answer: {metric['name']} is at {metric['current']} %: {state}"
"""


_TOOLS = (list_metrics, query_metric, check_threshold)
_STATES = {True: "ALERT", False: "OK"}
WORKLOAD = Workload(
    name="monitoring",
    title="Monitoring chain",
    about="Three calls in a chain: each needs what the one before it gave, and none needs thought.",
    data="Made up: five metrics with 60 samples each. The tools take 60, 80 and 150 ms, simulated.",
    task=(
        "List the compute metrics, query the first one, and check its current value against its alert threshold. "
        "Answer with the metric's name, its current value, and the word ALERT or OK."
    ),
    tools=_TOOLS,
    calls=by_hand(_PROGRAM, _TOOLS),
    plans=one_plan(
        step("list", "list_metrics", category="compute"),
        step("query", "query_metric", name="$ref:list.metrics[0].name"),
        step("check", "check_threshold", metric_name="$ref:query.name", value="$ref:query.current"),
        outputs=("query", "check"),
        answer=lambda query, check: f"{query['name']} is at {query['current']} %: {_STATES[check['exceeded']]}",
    ),
    programs=one_program(_PROGRAM),
    facts=("cpu_usage", "72.5", Pattern("ok", r"(?<!not )(?<!\w)ok(?!\w)")),
    never=(Pattern("alert", _ALERT),),
)
