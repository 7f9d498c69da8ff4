"""How often the router's words lead to the right form: on the benchmarks' tasks, and on public queries whose right form
is known from their gold calls. The bounds are a little below what was measured; docs/agents-faults.md has the figures.

The rules were written with the even half of each collection in view. Only the odd half is held against the bounds.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from callgate.agent.planning.tool_plan import ToolPlan, ToolStep
from callgate.agent.routing.router import Router
from callgate_bench.workloads import WORKLOADS

DATA = Path(__file__).parents[4] / "shared" / "data"
ROUTER = Router()

RIGHT = {
    "aggregation": {"code"},
    "budget": {"plan", "code"},
    "enrich": {"plan", "code"},
    "fan-out": {"plan", "code"},
    "judgement": {"direct"},
    "large": {"plan", "code"},
    "monitoring": {"plan", "code"},
    "regions": {"plan", "code"},
    "weather": {"direct"},
}
"""By docs/benchmarks.md: the forms that win over the others on time or tokens. Between plans and programs the model's
tokens decide, and they are close."""


def rows(path: str) -> list[dict[str, Any]]:
    file = DATA / f"{path}.jsonl.gz"
    if not file.exists():
        pytest.skip(f"{file} is not there")
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def share(tasks: list[str], right: set[str]) -> float:
    modes = [ROUTER.route(ROUTER.profile(task, ("one", "two", "three"))).mode for task in tasks]
    return sum(mode in right for mode in modes) / len(modes)


@pytest.mark.parametrize("name", RIGHT)
def test_each_task_of_the_benchmarks_goes_to_a_form_that_wins_there(name: str) -> None:
    task = WORKLOADS[name]
    assert ROUTER.route(ROUTER.profile(task.task, task.tools)).mode in RIGHT[name]


def test_calls_that_need_nothing_of_each_other_do_not_become_programs() -> None:
    tasks = [row["query"] for name in ("parallel", "parallel_multiple") for row in rows(f"calls/bfcl_{name}")]
    assert share(tasks[1::2], {"direct", "plan"}) >= 0.95


def test_queries_for_one_call_are_called_directly() -> None:
    several = {row["query"] for name in ("parallel", "parallel_multiple") for row in rows(f"calls/bfcl_{name}")}
    single = [
        row["query"]
        for row in rows("toolsearch/bfcl_all_queries")
        if row["query"] not in several and len(row["relevant"]) == 1 and len(row["query"]) < 160
    ]
    assert share(single[1::2], {"direct"}) >= 0.95


def test_chains_are_seen_where_their_words_tell() -> None:
    """Not half as sure as the others: "Find artists that are similar to Sza" needs a chain, and no word says so."""
    tasks = [row["query"] for row in rows("plans/nestful") if row["n_refs"]]
    assert share(tasks[1::2], {"plan"}) >= 0.55
    assert share(tasks[1::2], {"code"}) <= 0.05


def test_chains_are_always_seen_in_their_plans() -> None:
    for row in rows("plans/nestful"):
        steps = tuple(
            ToolStep(id=step["id"], tool=step["tool"], dependencies=("var1",) if "$ref:" in json.dumps(step) else ())
            for step in row["plan"]["steps"]
        )
        plan = ToolPlan(id=row["source"], query=row["query"], steps=steps, stages=())
        route = ROUTER.route(ROUTER.profile(plan))
        assert route.mode == ("plan" if row["n_refs"] or len(steps) > 4 else "direct"), row["source"]
