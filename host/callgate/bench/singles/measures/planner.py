"""The tool planner's figures, as its reference asks for them: what running a plan in parallel gains, what retries save,
what the caches do, how often a chain is done in time. Real requests and plans, real engine and gate; made are the
tools' times and failures and the traffic, as each row says."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from callgate import Runtime
from callgate.agent.orchestration.orchestrator import ToolOrchestrator
from callgate.agent.planning.settings import PlannerSettings
from callgate.agent.planning.tool_plan import ToolExecution, ToolPlan
from callgate.bench.figures import times
from callgate.bench.rows import Row, Verdict
from callgate.bench.singles.context import Bench
from callgate.bench.singles.played import Weather, in_sequence, nestful_plans, plan_of, registry_of, requests_of
from callgate.limits import Limits

__all__ = ["no_data", "retries", "speed", "target", "timeouts"]

_MEDIAN_SECONDS = 0.01
_LIMITS = Limits(wall_seconds=600.0)
_RETRIES = 3


def target(key: str, measure: str, measured: str, share: float, least: float, asked: str, **more: Any) -> Row:
    """A row with a target.

    Args:
        key: the group.
        measure: what was measured.
        measured: the figure, for people.
        share: the figure.
        least: that it should be.
        asked: the target, for people.
        more: other fields of the row.
    """
    verdict: Verdict = "met" if share >= least else "missed"
    return Row(key=key, measure=measure, measured=measured, target=asked, verdict=verdict, **more)


def no_data(key: str, measure: str, folder: Path) -> list[Row]:
    """The row that stands where the data is not there."""
    return [Row(key=key, measure=measure, measured=f"not measured: no data in {folder}")]


async def _ran(
    plans: Sequence[ToolPlan], weather: Weather, settings: PlannerSettings, outputs: dict[str, tuple[str, ...]]
) -> list[ToolExecution]:
    """The plans, one after the other, in a runtime of their own."""
    async with Runtime(registry_of(plans, weather, outputs), sandbox=None, limits=_LIMITS) as runtime:
        orchestrator = ToolOrchestrator(runtime, settings=settings)
        return [await orchestrator.execute(plan) for plan in plans]


def _settings(**options: Any) -> PlannerSettings:
    return PlannerSettings(result_cache_enabled=False, retry_backoff="none", **options)


async def speed(bench: Bench) -> list[Row]:
    """Plans as they are beside the same plans one step after the other, with the same latencies."""
    gold = [plan_of(each) for each in requests_of(bench.calls, most=bench.sizes.runs)]
    nested, outputs = nestful_plans(bench.calls.parent / "plans", bench.sizes.runs)
    if not gold or not nested:
        return no_data("planner-speed", "a plan beside its steps one after the other", bench.calls.parent)
    rows = []
    for name, plans, sigma in (
        ("BFCL's parallel calls", gold, 1.0),
        ("BFCL's parallel calls", gold, 0.3),
        ("NESTFUL's nested plans", nested, 1.0),
    ):
        gained = await _gains(plans, dict(outputs), sigma)
        by_steps: defaultdict[int, list[float]] = defaultdict(list)
        for steps, before, after in gained:
            by_steps[steps].append(before / after)
        whole = sum(before for _, before, _ in gained) / sum(after for _, _, after in gained)
        sizes = [f"{n} steps {times(statistics.median(by_steps[n]))} ({len(by_steps[n])})" for n in sorted(by_steps)]
        note = f"latencies are made: log-normal, median {_MEDIAN_SECONDS * 1e3:.0f} ms; at most 5 calls at once"
        row = target(
            "planner-speed", f"{name}, {len(plans)} plans, sigma {sigma:g}: parallel over sequential execution",
            f"{times(whole)} in all; median by size, with the number of plans: {'; '.join(sizes)}",
            whole, 2.0, "≥ 2 ×", numbers={"speed_up": whole, "plans": len(plans)}, note=note,
        )  # fmt: skip
        if plans is nested:
            note += "; most are chains, whose steps need each other"
            row = replace(row, target="", verdict="for information", note=note)
        rows.append(row)
    return rows


async def _gains(
    plans: Sequence[ToolPlan], outputs: dict[str, tuple[str, ...]], sigma: float
) -> list[tuple[int, float, float]]:
    """Of each plan, its steps, and its seconds one step after the other and as it is; the two take turns."""
    weather = Weather(median_seconds=_MEDIAN_SECONDS, sigma=sigma)
    gained = []
    async with (
        Runtime(registry_of(plans, weather, outputs), sandbox=None, limits=_LIMITS) as one,
        Runtime(registry_of(plans, weather, outputs), sandbox=None, limits=_LIMITS) as other,
    ):
        sequential, parallel = (ToolOrchestrator(runtime, settings=_settings()) for runtime in (one, other))
        for plan in plans:
            before = await sequential.execute(in_sequence(plan))
            after = await parallel.execute(plan)
            gained.append((len(plan.steps), before.total_seconds, after.total_seconds))
    return gained


@dataclass(frozen=True, slots=True)
class _Failures:
    plans: int
    failed_plans: int
    steps: int
    failed_steps: int

    @classmethod
    def of(cls, executions: Sequence[ToolExecution]) -> _Failures:
        results = [result for each in executions for result in each.results]
        return cls(
            len(executions), sum(not each.success for each in executions),
            len(results), sum(not result.success for result in results),
        )  # fmt: skip

    @property
    def rate(self) -> float:
        return self.failed_steps / self.steps


async def retries(bench: Bench) -> list[Row]:
    """Flaky tools through the gate, without retries and with them."""
    plans = [plan_of(each) for each in requests_of(bench.calls, most=bench.sizes.runs)]
    if not plans:
        return no_data("planner-retries", "failures that retries save", bench.calls)
    rows = []
    for passing, lasting, judged in ((0.2, 0.02, True), (0.4, 0.02, False), (0.1, 0.1, False)):
        weather = Weather(passing=passing, lasting=lasting)
        without = _Failures.of(await _ran(plans, weather, _settings(max_retries=0), {}))
        with_them = _Failures.of(await _ran(plans, weather, _settings(max_retries=_RETRIES), {}))
        less = 1 - with_them.rate / without.rate if without.failed_steps else 0.0
        row = target(
            "planner-retries",
            f"failures that {_RETRIES} retries save: {passing:.0%} of attempts fail in passing, {lasting:.0%} of calls "
            "for good",
            f"{less:.0%}: of {without.steps:,} calls {without.rate:.1%} failed without, {with_them.rate:.1%} with; of "
            f"{without.plans} plans {without.failed_plans} and {with_them.failed_plans}",
            less, 0.5, "≥ 50 % fewer",
            note="BFCL's gold calls; the failures are made, and drawn anew for each attempt; retries follow at once",
            numbers={"without": without.rate, "with": with_them.rate},
        )  # fmt: skip
        rows.append(row if judged else replace(row, target="", verdict="for information"))
    return rows


async def timeouts(bench: Bench) -> list[Row]:
    """Nested plans whose tools take their time and hang now and then: how many are done, and no step gave up."""
    plans, outputs = nestful_plans(bench.calls.parent / "plans", bench.sizes.runs)
    if not plans:
        return no_data("planner-timeouts", "chains that are done in time", bench.calls.parent / "plans")
    rows = []
    for hanging in (0.0, 0.02, 0.1):
        # a hundredth of what tools take, and of what they are given: 1 s in the median, and 30 s
        weather = Weather(median_seconds=0.01, hanging=hanging, seed=1)
        done = await _ran(plans, weather, _settings(default_timeout_seconds=0.3, max_retries=_RETRIES), dict(outputs))
        in_time = sum(each.success for each in done) / len(done)
        steps = Counter(result.success for each in done for result in each.results)
        retried = sum(result.retries > 0 for each in done for result in each.results)
        rows.append(
            target(
                "planner-timeouts",
                f"NESTFUL's nested plans, {len(plans)}: chains whose every step is done within its timeout, where "
                f"{hanging:.0%} of attempts hang",
                f"{in_time:.1%}; {steps[True]} of {steps.total()} steps, {retried} of them after a retry",
                in_time, 0.95, "≥ 95 %",
                note="times are made: log-normal, median 10 ms, sigma 1, with a timeout of 0.3 s (a hundredth of 1 s "
                f"and 30 s); {_RETRIES} retries",
                numbers={"in_time": in_time, "plans": len(plans)},
            )
        )  # fmt: skip
    return rows
