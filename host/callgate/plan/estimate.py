"""What a plan will take: seconds, calls, cost, odds; from the shape of its steps and the history of their tools.

1. The duration comes from running the plan on paper: a step is ready when the steps it needs have ended, ready calls
   take free places in the order in which they became ready, and every call of a tool takes the tool's average. That is
   what the gate and the engine do with real calls.
2. What is not known is not made up. A tool without a history counts as 0 s and as certain to succeed, a `for_each` over
   a list that is not there yet as one call: then durations, calls and cost are *at least* so much, and the estimate
   says which tools and steps it is about.
3. Steps are taken to run once each: what `when` skips, retries, fallbacks and the cache are left out.

Iterative and about linear: a chain of 100,000 steps is fine. Knows no plan language, no clock and no I/O.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from callgate.cut import duration
from callgate.tools import Tool
from callgate.tools.statistics import Statistics

__all__ = ["EstimatedStep", "PlanEstimate", "estimate_plan"]

_MAX_SHOWN = 8


@dataclass(frozen=True, slots=True)
class EstimatedStep:
    """What an estimate needs to know of a step."""

    id: str
    tool: str
    """The tool's name."""
    needs: tuple[int, ...] = ()
    """Indices of the steps it waits for; together they make no cycle."""
    calls: int | None = 1
    """How many calls it makes, all at once; None for a `for_each` over what is not known until it runs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanEstimate:
    """What a plan will take."""

    duration_seconds: float
    """From the first call to the last result, when every call takes its tool's average."""
    p95_seconds: float
    """The same when every call takes its tool's p95: a bad day. Never below `duration_seconds`, though an average that
    rests on one very slow call can be above the p95."""
    sequential_seconds: float
    """One call at a time, at the average: what running at the same time saves is the difference."""
    critical_path: tuple[str, ...]
    """Ids of the longest chain of steps, at the average: no number of places makes the plan faster than that."""
    calls: int
    """Calls; a list that is not known yet counts as one."""
    cost: float | None
    """Sum of the costs that are numbers, in the operator's own unit; None when no tool of the plan has one."""
    costs_unknown: tuple[str, ...]
    """Tools whose cost is a text, or no finite number: it is not in `cost`. A tool that names no cost has none."""
    success_probability: float | None
    """That no call fails at its first attempt, from 0 to 1, as far as is known: at most that where tools are `unknown`,
    None where all are. Retries and fallbacks make it better."""
    unknown: tuple[str, ...]
    """Tools without a history; they count as 0 s and as certain."""
    open_ended: tuple[str, ...]
    """Ids of the steps whose number of calls is not known yet."""

    def to_dict(self) -> dict[str, Any]:
        """As a JSON object, by the names of the fields."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    def _odds(self) -> str:
        if self.success_probability is None:
            return "whether one fails is not known"
        most = "at most " if self.unknown else ""
        return f"{most}{100 * self.success_probability:.3g} % likely that none fails at its first attempt"

    def for_people(self) -> str:
        """A few lines of text."""
        least = "at least " if self.unknown or self.open_ended else "about "
        nothing_known = self.unknown and self.success_probability is None
        lines = [
            "how long it takes is not known: none of its tools has a history yet"
            if nothing_known
            else f"{least}{duration(self.duration_seconds)}, {duration(self.p95_seconds)} on a bad day; "
            f"one call at a time: {duration(self.sequential_seconds)}",
            f"{'at least ' if self.open_ended else ''}{self.calls} call{'' if self.calls == 1 else 's'}, "
            + self._odds(),
        ]
        if self.cost is not None:
            lines.append(f"cost: {'at least ' if self.costs_unknown or self.open_ended else ''}{self.cost:g}")
        for title, listed, separator in (
            ("cost not in numbers: ", self.costs_unknown, ", "),
            ("longest chain: ", self.critical_path, " → "),
            ("no history yet: " if nothing_known else "no history yet, counted as 0 s: ", self.unknown, ", "),
            ("number of calls not known yet, counted as 1: ", self.open_ended, ", "),
        ):
            if listed:
                lines.append(title + _shown(listed, separator))
        return "\n".join(lines)


def estimate_plan(
    steps: Sequence[EstimatedStep],
    tools: Mapping[str, Tool],
    statistics: Statistics,
    *,
    max_concurrent_calls: int,
) -> PlanEstimate:
    """What a plan will take.

    Args:
        steps: of the plan, in any order; without cycles.
        tools: by name; for their cost. One that is missing has none.
        statistics: the history of the tools.
        max_concurrent_calls: how many calls run at the same time; at least 1.
    """
    counts = [1 if step.calls is None else step.calls for step in steps]
    calls_by_tool: dict[str, int] = {}
    for step, count in zip(steps, counts, strict=True):
        calls_by_tool[step.tool] = calls_by_tool.get(step.tool, 0) + count
    history = {tool: stats for tool in calls_by_tool if (stats := statistics.of(tool)) is not None}
    averages = {tool: history[tool].average_seconds if tool in history else 0.0 for tool in calls_by_tool}
    p95s = {tool: history[tool].p95_seconds if tool in history else 0.0 for tool in calls_by_tool}
    odds = (
        (1.0 - stats.failure_rate) ** calls_by_tool[tool] if calls_by_tool[tool] else 1.0
        for tool, stats in history.items()
    )
    costs = {tool: tools[tool].cost for tool in calls_by_tool if tool in tools and tools[tool].cost is not None}
    numbers = {tool: cost for tool, cost in costs.items() if isinstance(cost, (int, float)) and math.isfinite(cost)}
    duration, order = _makespan(steps, counts, averages, max_concurrent_calls)
    return PlanEstimate(
        duration_seconds=duration,
        p95_seconds=max(duration, _makespan(steps, counts, p95s, max_concurrent_calls)[0]),
        sequential_seconds=math.fsum(averages[tool] * count for tool, count in calls_by_tool.items()),
        critical_path=_longest_chain(steps, counts, averages, max_concurrent_calls, order),
        calls=sum(counts),
        cost=math.fsum(cost * calls_by_tool[tool] for tool, cost in numbers.items()) if numbers else None,
        costs_unknown=tuple(sorted(costs.keys() - numbers.keys())),
        success_probability=math.prod(odds) if history or not calls_by_tool else None,
        unknown=tuple(sorted(calls_by_tool.keys() - history.keys())),
        open_ended=tuple(step.id for step in steps if step.calls is None),
    )


def _makespan(
    steps: Sequence[EstimatedStep], counts: Sequence[int], seconds: Mapping[str, float], places: int
) -> tuple[float, list[int]]:
    """When the last call ends, and the steps in the order of their ends."""
    dependents: list[list[int]] = [[] for _ in steps]
    for index, step in enumerate(steps):
        for need in step.needs:
            dependents[need].append(index)
    waits, left, unended = [len(step.needs) for step in steps], list(counts), list(counts)
    begin = [index for index, wait in enumerate(waits) if not wait]
    ready = deque(sorted(begin, key=lambda index: counts[index] > 0))  # a step without calls waits for no place
    running: list[tuple[float, int, int, int]] = []  # when it ends, number of the start, step, calls
    order: list[int] = []
    now, free, starts = 0.0, places, 0
    while True:
        while ready and (free or not left[ready[0]]):
            index = ready[0]
            begun = min(left[index], free)
            left[index] -= begun
            free -= begun
            starts += 1
            heapq.heappush(running, (now + (seconds[steps[index].tool] if begun else 0.0), starts, index, begun))
            if not left[index]:
                ready.popleft()
        if not running:
            return now, order
        now, _, index, ended = heapq.heappop(running)
        free += ended
        unended[index] -= ended
        if unended[index]:
            continue
        order.append(index)
        for dependent in dependents[index]:
            waits[dependent] -= 1
            if not waits[dependent]:
                (ready.append if counts[dependent] else ready.appendleft)(dependent)


def _longest_chain(
    steps: Sequence[EstimatedStep],
    counts: Sequence[int],
    seconds: Mapping[str, float],
    places: int,
    order: Iterable[int],
) -> tuple[str, ...]:
    """Of chains that take equally long the one with more steps, so that a plan without any history has one as well."""
    longest: dict[int, tuple[float, int]] = {}
    before: dict[int, int] = {}
    for index in order:
        step = steps[index]
        so_far = (0.0, 0)
        for need in step.needs:
            if longest[need] > so_far:
                so_far = longest[need]
                before[index] = need
        rounds = -(-counts[index] // places)
        longest[index] = (so_far[0] + rounds * seconds[step.tool], so_far[1] + 1)
    if not longest:
        return ()
    at: int | None = max(longest, key=lambda index: (longest[index], -index))
    chain = []
    while at is not None:
        chain.append(steps[at].id)
        at = before.get(at)
    return tuple(reversed(chain))


def _shown(listed: Sequence[str], separator: str) -> str:
    if len(listed) <= _MAX_SHOWN:
        return separator.join(listed)
    half = _MAX_SHOWN // 2
    return separator.join([*listed[:half], f"… {len(listed) - 2 * half} more …", *listed[-half:]])
