"""Estimate a plan's seconds, calls, cost and odds from the shape of its steps and the history of their tools.

1. The duration is that of a simulated run: a step is ready when the steps it needs have ended, ready calls take free
   places in the order in which they became ready, and every call of a tool takes the tool's average. The gate and the
   engine do the same with real calls.
2. Unknown numbers are named, not made up. A tool without a history counts as 0 s and as certain to succeed, a
   `for_each` over an unknown list as one call; durations, calls and cost are then lower bounds.
3. Every step runs once: `when`, retries, fallbacks and the cache are left out.

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
    """One step, as far as an estimate needs it."""

    id: str
    tool: str
    """The tool's name."""
    needs: tuple[int, ...] = ()
    """Indices of the steps it waits for, without cycles."""
    calls: int | None = 1
    """Calls of the step; None for a `for_each` over a list that only the run will show."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanEstimate:
    """Estimated duration, calls, cost and odds of a plan."""

    duration_seconds: float
    """From the first call to the last result, when every call takes its tool's average."""
    p95_seconds: float
    """From the first call to the last result on a bad day, when every call takes its tool's p95. Never below
    `duration_seconds`, though one very slow call can lift an average above the p95."""
    sequential_seconds: float
    """Duration with one call at a time, at the average."""
    critical_path: tuple[str, ...]
    """Ids of the longest chain of steps, at the average: more places cannot make the plan faster than this chain."""
    calls: int
    """Calls; an unknown list counts as one."""
    cost: float | None
    """Sum of the costs that are numbers, in the operator's own unit; None when no tool of the plan has one."""
    costs_unknown: tuple[str, ...]
    """Tools whose cost is text or not a finite number; `cost` leaves them out. A tool without a cost costs nothing."""
    success_probability: float | None
    """Probability, from 0 to 1, that no call fails at its first attempt. An upper bound if some tools are `unknown`,
    None if all are. Retries and fallbacks improve it."""
    unknown: tuple[str, ...]
    """Tools without a history; they count as 0 s and as certain to succeed."""
    open_ended: tuple[str, ...]
    """Ids of steps whose number of calls only the run will show."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    def _odds(self) -> str:
        if self.success_probability is None:
            return "whether one fails is not known"
        most = "at most " if self.unknown else ""
        return f"{most}{100 * self.success_probability:.3g} % likely that none fails at its first attempt"

    def for_people(self) -> str:
        """Return the estimate as a few lines of text."""
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
    """Estimate a plan.

    Args:
        steps: of the plan, in any order; without cycles.
        tools: by name, for their cost; a missing tool has none.
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
    """Simulate a run. Returns when the last call ends, and the steps in the order of their ends."""
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
    """Return the longest chain; of equally long ones the one with more steps, for plans without any history."""
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
