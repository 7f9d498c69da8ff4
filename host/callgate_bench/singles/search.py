"""Tool search: how many of the tools that answer a query are among the first ten, and how long it takes."""

from __future__ import annotations

import gc
import time
from functools import partial

from callgate import Registry, Runtime
from callgate_bench.figures import Row, timed, verdict_of
from callgate_bench.singles.bench import Bench, NotMeasured
from callgate_bench.singles.tool_sets import FOUND_BY_OTHERS, SETS, many_tools, read_set, recall

__all__ = ["search"]

_MANY = 4_000


async def search(bench: Bench) -> list[Row]:
    """Recall beside what other engines found in the same texts, and time among 4,000 tools."""
    folder = bench.calls.parent / "toolsearch"
    sets = {beginning: found for beginning in SETS if (found := read_set(folder, beginning))}
    if len(sets) < len(SETS):
        raise NotMeasured(f"no tools and queries in {folder}")
    rows = []
    among_many = Runtime(Registry(many_tools(sets.values(), _MANY)), sandbox=None)
    among_many.search_tools("weather")  # reads the tools
    for beginning, each in sets.items():
        others = FOUND_BY_OTHERS[beginning]
        queries = each.queries[:: max(1, len(each.queries) // bench.sizes.searches)]
        ours = recall(queries, partial(_found, Runtime(Registry(each.tools()), sandbox=None)))
        best = max(others.values())
        row = Row(
            key="search", measure=f"recall@10: {each.name}, {len(each.texts):,} tools, {len(queries):,} queries",
            measured=f"{ours:.3f}", peer=", ".join(f"{name}: {value:.3f}" for name, value in others.items()),
            note="the others were measured before, on the same texts", numbers={"ours": ours, "others": others},
            target=f"> {best:.3f}", verdict=verdict_of(ours > best),
        )  # fmt: skip
        rows.append(row)
        for query in queries:  # words' numbers are worked out when they are first asked for
            among_many.search_tools(query.text)
        gc.collect()
        took = [_took(among_many, query.text) for query in queries]
        rows.append(timed("search", f"a search among {_MANY:,} tools: {each.name}'s queries", took, within=200e-6))
    return rows


def _found(runtime: Runtime, query: str) -> list[str]:
    return [each.tool.name for each in runtime.search_tools(query, limit=10).found]


def _took(runtime: Runtime, query: str) -> float:
    started = time.perf_counter()
    runtime.search_tools(query)
    return time.perf_counter() - started
