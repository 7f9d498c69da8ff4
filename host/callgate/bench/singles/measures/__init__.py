"""The measurements, in the order of the table. Each takes a `Bench` and gives rows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from callgate.bench.rows import Row
from callgate.bench.singles.context import Bench

from . import (
    calls,
    definition_tokens,
    docker,
    fast_path,
    footprint,
    loop,
    mcp_gateway,
    planner,
    planner_caches,
    planner_learning,
    planner_selection,
    plans,
    runs,
    throughput,
    tool_search,
)
from . import makespan as makespans

__all__ = ["MEASURES", "ON_TRIO", "Measure"]

Measure = Callable[[Bench], Awaitable[list[Row]]]

MEASURES: dict[str, Measure] = {
    "warm": runs.warm,
    "cold": runs.cold,
    "call": calls.sequential,
    "gather": calls.gathered,
    "many": calls.many,
    "slow": calls.slow_tools,
    "throughput": throughput.throughput,
    "memory": footprint.memory,
    "loop": loop.loop,
    "flat": footprint.flat,
    "engine": plans.engine,
    "plan": plans.plan,
    "makespan": makespans.makespan,
    "early": makespans.early,
    "fast": fast_path.fast,
    "reads": fast_path.reads,
    "share": fast_path.share,
    "definitions": definition_tokens.definitions,
    "search": tool_search.search,
    "planner-selection": planner_selection.rules,
    "planner-model": planner_selection.model,
    "planner-learning": planner_learning.learning,
    "planner-speed": planner.speed,
    "planner-retries": planner.retries,
    "planner-caches": planner_caches.caches,
    "planner-timeouts": planner.timeouts,
    "gateway": mcp_gateway.gateway,
    "docker": docker.docker,
}
"""By the names that `--only` takes."""

ON_TRIO = ("warm", "call")
"""Those that are repeated under trio, for information."""
