"""What a plan will take, from its shape and the history of its tools."""

from __future__ import annotations

import json
import math
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgate.plan.estimate import EstimatedStep, PlanEstimate, estimate_plan
from callgate.tools import Tool
from callgate.tools.statistics import Statistics


def tools(**costs: float | str | None) -> dict[str, Tool]:
    return {
        name: Tool.from_schema(name, "does nothing", {"type": "object"}, dict, cost=cost)
        for name, cost in costs.items()
    }


def history(**seconds: float) -> Statistics:
    statistics = Statistics()
    for name, each in seconds.items():
        statistics.note(name, each, "succeeded")
    return statistics


def estimate(*steps: EstimatedStep, places: int = 10, **seconds: float) -> PlanEstimate:
    return estimate_plan(steps, {}, history(**seconds), max_concurrent_calls=places)


def step(id: str, *needs: int, tool: str = "one", calls: int | None = 1) -> EstimatedStep:
    return EstimatedStep(id, tool, needs, calls)


def test_an_empty_plan_takes_nothing() -> None:
    empty = estimate()
    assert (empty.duration_seconds, empty.calls, empty.critical_path, empty.cost) == (0.0, 0, (), None)
    assert empty.success_probability == 1.0


def test_a_chain_takes_the_sum() -> None:
    chain = estimate(step("a"), step("b", 0, tool="two"), step("c", 1), one=1.0, two=2.0)
    assert (chain.duration_seconds, chain.sequential_seconds, chain.calls) == (4.0, 4.0, 3)
    assert chain.critical_path == ("a", "b", "c")


def test_steps_that_do_not_wait_for_each_other_run_at_the_same_time() -> None:
    wide = estimate(step("a"), step("b", tool="two"), step("c"), one=1.0, two=2.0)
    assert (wide.duration_seconds, wide.sequential_seconds) == (2.0, 4.0)
    assert wide.critical_path == ("b",)


def test_a_step_begins_when_its_own_needs_are_there_and_not_with_a_wave() -> None:
    steps = [step("quick"), step("slow", tool="nine"), step("after", 0, tool="nine")]
    assert estimate(*steps, one=1.0, nine=9.0).duration_seconds == 10.0


def test_places_are_taken_in_the_order_of_becoming_ready() -> None:
    assert estimate(*(step(str(n)) for n in range(5)), places=2, one=1.0).duration_seconds == 3.0
    steps = [step("a", tool="three"), step("b"), step("c"), step("d", 1), step("e", 3)]
    # two places: a 0-3; b 0-1, c 1-2, d 2-3 (ready at 1, after c), e 3-4
    assert estimate(*steps, places=2, one=1.0, three=3.0).duration_seconds == 4.0


def test_needs_may_come_later_in_the_list_and_more_than_once() -> None:
    forward = estimate(step("last", 1, 1), step("first"), one=1.0)
    assert (forward.duration_seconds, forward.critical_path) == (2.0, ("first", "last"))


def test_the_calls_of_a_for_each_share_the_places() -> None:
    each = estimate(step("a", calls=7), step("b", 0), places=3, one=1.0)
    assert (each.duration_seconds, each.calls, each.sequential_seconds) == (4.0, 8, 8.0)
    assert each.critical_path == ("a", "b")


def test_a_for_each_over_nothing_takes_no_time() -> None:
    nothing = estimate(step("a"), step("b", 0, calls=0), step("c", 1), one=1.0)
    assert (nothing.duration_seconds, nothing.calls) == (2.0, 2)


def test_a_for_each_over_what_is_not_known_yet_counts_as_one_call_and_is_named() -> None:
    unknown = estimate(step("a"), step("b", 0, calls=None), one=1.0)
    assert (unknown.duration_seconds, unknown.calls, unknown.open_ended) == (2.0, 2, ("b",))


def test_a_tool_without_a_history_counts_as_nothing_and_is_named() -> None:
    unknown = estimate(step("a"), step("b", 0, tool="new"), step("c", 1, tool="other"), one=1.0)
    assert (unknown.duration_seconds, unknown.unknown) == (1.0, ("new", "other"))
    assert unknown.critical_path == ("a", "b", "c")
    assert unknown.success_probability == 1.0


def test_a_bad_day_is_counted_with_the_p95() -> None:
    statistics = Statistics()
    for seconds in (1.0, 1.0, 1.0, 5.0):
        statistics.note("one", seconds, "succeeded")
    bad = estimate_plan([step("a"), step("b", 0)], {}, statistics, max_concurrent_calls=1)
    assert (bad.duration_seconds, bad.p95_seconds) == (4.0, 10.0)


def test_a_bad_day_is_never_better_than_the_average() -> None:
    statistics = Statistics()
    for _ in range(99):
        statistics.note("one", 1.0, "succeeded")
    statistics.note("one", 1001.0, "succeeded")
    bad = estimate_plan([step("a")], {}, statistics, max_concurrent_calls=1)
    assert (bad.duration_seconds, bad.p95_seconds) == (11.0, 11.0)


def test_the_odds_are_those_of_every_call() -> None:
    statistics = history(one=1.0)
    for n in range(10):
        statistics.note("shaky", 1.0, "failed" if n == 0 else "succeeded")
    statistics.note("broken", 1.0, "failed")
    steps = [step("a", tool="shaky", calls=3), step("b", tool="shaky"), step("c"), step("d", tool="broken", calls=0)]
    odds = estimate_plan(steps, {}, statistics, max_concurrent_calls=1).success_probability
    assert odds == pytest.approx(0.9**4)


def test_costs_that_are_numbers_are_added_and_others_named() -> None:
    offered = tools(cheap=0.25, dear=10, odd="1 credit per page", endless=math.inf, free=None)
    steps = [
        step("a", tool="cheap", calls=4),
        step("b", tool="dear"),
        *(step(name, tool=name) for name in ("odd", "endless", "free", "missing")),
    ]
    paid = estimate_plan(steps, offered, Statistics(), max_concurrent_calls=1)
    assert (paid.cost, paid.costs_unknown) == (11.0, ("endless", "odd"))
    only_odd = estimate_plan([step("a", tool="odd")], offered, Statistics(), max_concurrent_calls=1)
    assert (only_odd.cost, only_odd.costs_unknown) == (None, ("odd",))
    nothing = estimate_plan([step("a", tool="free")], offered, Statistics(), max_concurrent_calls=1)
    assert (nothing.cost, nothing.costs_unknown) == (None, ())


@st.composite
def plans(draw: st.DrawFn) -> list[EstimatedStep]:
    steps = []
    for index in range(draw(st.integers(1, 25))):
        needs = draw(st.lists(st.integers(0, index - 1), max_size=3)) if index else []
        calls = draw(st.one_of(st.none(), st.integers(0, 6)))
        steps.append(EstimatedStep(str(index), draw(st.sampled_from("abc")), tuple(needs), calls))
    return steps


@given(plans(), st.integers(1, 5))
def test_a_makespan_is_between_its_bounds(steps: list[EstimatedStep], places: int) -> None:
    statistics = history(a=1.0, b=2.0, c=5.0)
    seconds = {"a": 1.0, "b": 2.0, "c": 5.0}
    found = estimate_plan(steps, {}, statistics, max_concurrent_calls=places)
    counts = {each.id: 1 if each.calls is None else each.calls for each in steps}
    by_id = {each.id: each for each in steps}
    path = sum(seconds[by_id[id].tool] * math.ceil(counts[id] / places) for id in found.critical_path)
    work = sum(seconds[each.tool] * counts[each.id] for each in steps)
    assert found.sequential_seconds == work
    assert max(path, work / places) - 1e-9 <= found.duration_seconds <= work
    longest: list[float] = []
    for each in steps:
        own = seconds[each.tool] if counts[each.id] else 0.0
        longest.append(own + max((longest[need] for need in each.needs), default=0.0))
    assert found.duration_seconds <= work / places + max(longest) + 1e-9  # Graham 1966: no place is idle without need
    for one, other in zip(found.critical_path, found.critical_path[1:], strict=False):
        assert int(one) in by_id[other].needs
    if places == 1:
        assert found.duration_seconds == work


@given(plans(), st.permutations(range(25)))
def test_with_places_for_all_the_order_in_the_list_does_not_matter(
    steps: list[EstimatedStep], order: list[int]
) -> None:
    order = [index for index in order if index < len(steps)]
    where = {old: new for new, old in enumerate(order)}
    moved = [
        EstimatedStep(steps[old].id, steps[old].tool, tuple(where[need] for need in steps[old].needs), steps[old].calls)
        for old in order
    ]
    statistics = history(a=1.0, b=2.0)
    one = estimate_plan(steps, {}, statistics, max_concurrent_calls=1000)
    other = estimate_plan(moved, {}, statistics, max_concurrent_calls=1000)
    assert one.duration_seconds == other.duration_seconds
    assert (one.calls, one.unknown) == (other.calls, other.unknown)


@pytest.mark.parametrize("shape", ["chain", "layers", "wide"])
def test_a_hundred_thousand_steps_are_fine(shape: str) -> None:
    draw = random.Random(1)
    needs: Any = {
        "chain": lambda n: (n - 1,) if n else (),
        "layers": lambda n: tuple(draw.randrange(n - n % 100 - 100, n - n % 100) for _ in range(3)) if n > 99 else (),
        "wide": lambda n: (),
    }[shape]
    found = estimate(*(step(str(n), *needs(n)) for n in range(100_000)), places=100, one=1.0)
    assert found.duration_seconds == {"chain": 100_000, "layers": 1000, "wide": 1000}[shape]
    assert len(found.critical_path) == {"chain": 100_000, "layers": 1000, "wide": 1}[shape]


def test_a_million_calls_of_one_step_are_fine() -> None:
    assert estimate(step("a", calls=1_000_000), places=100, one=1.0).duration_seconds == 10_000


def test_an_estimate_is_written_as_json() -> None:
    written = estimate(step("a"), step("b", 0, tool="new"), one=1.0).to_dict()
    assert json.loads(json.dumps(written)) == written
    assert written["critical_path"] == ["a", "b"]
    assert set(written) == set(PlanEstimate.__slots__)


def test_an_estimate_is_told_to_people() -> None:
    statistics = history(cheap=0.25, odd=3.0)
    steps = [step("a", tool="cheap"), step("b", 0, tool="odd", calls=2)]
    offered = tools(cheap=0.25, odd="1 credit per page")
    assert estimate_plan(steps, offered, statistics, max_concurrent_calls=1).for_people() == (
        "about 6.25 s, 6.25 s on a bad day; one call at a time: 6.25 s\n"
        "3 calls, 100 % likely that none fails at its first attempt\n"
        "cost: at least 0.25\n"
        "cost not in numbers: odd\n"
        "longest chain: a → b"
    )
    assert estimate(step("a", tool="new", calls=None)).for_people() == (
        "how long it takes is not known: none of its tools has a history yet\n"
        "at least 1 call, whether one fails is not known\n"
        "longest chain: a\n"
        "no history yet: new\n"
        "number of calls not known yet, counted as 1: a"
    )
    long = estimate(*(step(f"s{n}", *([n - 1] if n else [])) for n in range(100)), one=100.0).for_people()
    assert "about 2 h 46 min" in long
    assert "longest chain: s0 → s1 → s2 → s3 → … 92 more … → s96 → s97 → s98 → s99" in long
