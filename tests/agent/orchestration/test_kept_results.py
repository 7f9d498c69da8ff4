"""Results used again: the same call of a read-only tool is made once, and never where that could be wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from agent.orchestration.orchestrated import QUICK, data, errors, orchestrator, plan, step
from callgate import Allow, ToolError, tool
from callgate.agent.orchestration.kept import KeptResults
from callgate.agent.orchestration.orchestrator import ToolOrchestrator
from callgate.agent.planning.settings import PlannerSettings
from callgate.agent.planning.tool_plan import StepFallback
from callgate.tools import Tool

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
async def _in_time() -> AsyncIterator[None]:
    with anyio.fail_after(20):
        yield


class World:
    """Tools, and how often they were called."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.confidence = 0.9

    def tools(self, **options: Any) -> list[Tool]:
        @tool(read_only=True, **options)
        async def lookup(unit: str) -> dict[str, Any]:
            """Facts about a unit."""
            self.calls[f"lookup {unit}"] += 1
            return {"unit": unit, "n": len(unit), "items": [unit], "confidence": self.confidence}

        @tool(read_only=True)
        async def compare(a: Any, b: Any, note: str = "") -> dict[str, Any]:
            """Both."""
            self.calls["compare"] += 1
            return {"a": a, "b": b, "note": note}

        @tool
        async def change(unit: str) -> str:
            """Change it."""
            self.calls["change"] += 1
            return unit

        @tool(read_only=True)
        async def fail(unit: str) -> None:
            """Fail for good."""
            self.calls["fail"] += 1
            raise ToolError("no luck")

        return [lookup, compare, change, fail]


COMPARISON = (
    step("t", "lookup", unit="terminator"),
    step("d", "lookup", unit="dreadnought"),
    step("c", "compare", a="$ref:t", b={"x": ["$ref:d.items[0]", 1]}, note="${t.unit} and ${d.n}", dependencies=("t",)),
)


async def test_a_plan_that_was_run_before_makes_no_call() -> None:
    world = World()
    async with orchestrator(world.tools()) as made:
        first = await made.execute(plan(*COMPARISON))
        second = await made.execute(plan(*COMPARISON, id="p2"))
    assert world.calls == {"lookup terminator": 1, "lookup dreadnought": 1, "compare": 1}
    assert data(first) == data(second)
    assert second.success
    assert [each.cached for each in first.results] == [False] * 3
    assert [each.cached for each in second.results] == [True] * 3
    assert [each.confidence for each in second.results] == [each.confidence for each in first.results]
    assert second.plan_result is None
    assert second.results[0].duration_seconds == 0


async def test_a_result_that_is_there_is_put_into_the_steps_that_need_it() -> None:
    world = World()
    async with orchestrator(world.tools()) as made:
        await made.execute(plan(step("x", "lookup", unit="terminator")))
        note = {"a": "$ref:t", "b": {"deep": ["$ref:t.n", "$ref:d", "$$ref:t"]}, "note": "${t.unit}"}
        execution = await made.execute(plan(*COMPARISON[:2], step("c", "compare", parameters=note), id="p2"))
    assert world.calls == {"lookup terminator": 1, "lookup dreadnought": 1, "compare": 1}
    t, d = data(execution)["t"], data(execution)["d"]
    assert data(execution)["c"] == {"a": t, "b": {"deep": [10, d, "$ref:t"]}, "note": "terminator"}
    assert [each.cached for each in execution.results] == [True, False, False]


async def test_a_result_whose_text_looks_like_a_reference_stays_text() -> None:
    @tool(read_only=True)
    async def say(text: str) -> dict[str, str]:
        """Say it."""
        return {"text": text}

    async with orchestrator([say]) as made:
        hostile = {"text": {"$literal": "$ref:b.text ${b} $item"}}
        await made.execute(plan(step("a", "say", parameters=hostile)))
        execution = await made.execute(
            plan(step("a", "say", parameters=hostile), step("b", "say", text="$ref:a.text"), id="p2")
        )
    assert data(execution)["b"] == {"text": "$ref:b.text ${b} $item"}


@pytest.mark.parametrize(
    "mixed",
    [
        {"note": "${t.unit} against ${d.unit}"},
        {"note": {"$expr": "t.unit + ' against ' + d.unit"}},
    ],
)
async def test_where_known_and_unknown_results_are_mixed_the_call_is_made_again(mixed: dict[str, Any]) -> None:
    world = World()
    async with orchestrator(world.tools()) as made:
        await made.execute(plan(step("t", "lookup", unit="terminator")))
        execution = await made.execute(plan(*COMPARISON[:2], step("c", "compare", a=1, b=2, parameters=mixed), id="p2"))
    assert data(execution)["c"]["note"] == "terminator against dreadnought"
    assert world.calls["lookup terminator"] == 2


async def test_a_path_that_leads_nowhere_fails_as_it_does_where_nothing_is_kept() -> None:
    world = World()
    async with orchestrator(world.tools()) as made:
        steps = (COMPARISON[0], step("c", "compare", a={"$ref": "t.nowhere"}, b="$ref:t.nowhere"))
        first = await made.execute(plan(*steps))
        second = await made.execute(plan(*steps, id="p2"))
    assert "'t' has the keys: unit, n, items, confidence" in errors(first)["c"]
    assert errors(first) == errors(second)


async def test_references_by_position_count_the_whole_plan() -> None:
    world = World()
    async with orchestrator(world.tools()) as made:
        await made.execute(plan(step("t", "lookup", unit="terminator")))
        by_position = {"a": {"$ref": "steps[1].result.unit"}, "b": {"$ref": "steps[0].result.unit"}}
        execution = await made.execute(plan(*COMPARISON[:2], step("c", "compare", parameters=by_position), id="p2"))
    assert data(execution)["c"] == {"a": "dreadnought", "b": "terminator", "note": ""}


async def test_other_arguments_and_failures_are_not_there() -> None:
    world = World()
    async with orchestrator(world.tools()) as made:
        for _ in range(2):
            execution = await made.execute(plan(step("f", "fail", unit="x")))
            assert errors(execution) == {"f": "no luck"}
        await made.execute(plan(step("a", "lookup", unit="x")))
        await made.execute(plan(step("a", "lookup", unit="y")))
    assert world.calls == {"fail": 2, "lookup x": 1, "lookup y": 1}


async def test_the_settings_turn_it_off() -> None:
    world = World()
    async with orchestrator(world.tools(), PlannerSettings(result_cache_enabled=False)) as made:
        for _ in range(2):
            await made.execute(plan(step("a", "lookup", unit="x")))
    assert made.kept is None
    assert world.calls == {"lookup x": 2}


async def test_a_call_that_may_change_something_makes_everything_stale() -> None:
    world = World()
    async with orchestrator(world.tools()) as made:
        read = step("a", "lookup", unit="x")
        await made.execute(plan(read))
        await made.execute(plan(step("w", "change", unit="x"), id="p2"))
        await made.execute(plan(read, id="p3"))
        assert world.calls == {"lookup x": 2, "change": 1}
        # and within a plan: what has to wait for a change is not taken from before it
        after = step("b", "lookup", unit="x", execution_mode="sequential")
        await made.execute(plan(step("w", "change", unit="x"), after, id="p4"))
    assert world.calls == {"lookup x": 3, "change": 2}


async def test_a_plan_that_was_cut_off_while_it_changed_something_makes_everything_stale() -> None:
    world = World()
    begun = anyio.Event()

    @tool
    async def write() -> None:
        """Write for ever."""
        begun.set()
        await anyio.sleep_forever()

    async with orchestrator([*world.tools(), write]) as made:
        await made.execute(plan(step("a", "lookup", unit="x")))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(made.execute, plan(step("w", "write"), id="p2"))
            await begun.wait()
            await made.cancel("p2")
        await made.execute(plan(step("a", "lookup", unit="x"), id="p3"))
    assert world.calls == {"lookup x": 2}


async def test_what_was_read_while_another_plan_changed_something_is_not_kept() -> None:
    world = World()
    reading, changed = anyio.Event(), anyio.Event()
    calls: list[int] = []

    @tool(read_only=True)
    async def read() -> int:
        """Read, slowly the first time."""
        calls.append(1)
        if len(calls) == 1:
            reading.set()
            await changed.wait()
        return len(calls)

    async with orchestrator([*world.tools(), read]) as made:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(made.execute, plan(step("r", "read")))
            await reading.wait()
            await made.execute(plan(step("w", "change", unit="x"), id="p2"))
            changed.set()
        again = await made.execute(plan(step("r", "read"), id="p3"))
    assert data(again) == {"r": 2}


async def test_a_sequential_step_still_waits_for_the_one_before_it_where_others_need_no_call() -> None:
    world = World()
    order: list[str] = []
    door = anyio.Event()

    @tool
    async def slow() -> None:
        """Wait for the door."""
        order.append("slow begins")
        await door.wait()
        order.append("slow ends")

    @tool
    async def last() -> None:
        """The last."""
        order.append("last")

    async with orchestrator([*world.tools(), slow, last]) as made:
        await made.execute(plan(step("a", "lookup", unit="x")))
        for number, steps in enumerate(
            (
                (step("a", "lookup", unit="x"), step("s", "slow"), step("l", "last", execution_mode="sequential")),
                (step("s", "slow"), step("a", "lookup", unit="x"), step("l", "last", after=("s", "a"))),
            )
        ):
            order.clear()
            door = anyio.Event()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(made.execute, plan(*steps, id=f"q{number}"))
                while not order:
                    await anyio.lowlevel.checkpoint()
                for _ in range(20):
                    await anyio.lowlevel.checkpoint()
                assert order == ["slow begins"]
                door.set()
            assert order == ["slow begins", "slow ends", "last"]
            await made.execute(plan(step("a", "lookup", unit="x")))  # the others made it stale
    assert world.calls == {"lookup x": 3}


async def test_approval_is_asked_for_every_call() -> None:
    world = World()
    asked: list[str] = []

    def approve(request: Any) -> Allow:
        asked.append(request.tool.name)
        return Allow()

    async with orchestrator(world.tools(requires_approval=True), approve=approve) as made:
        for _ in range(2):
            await made.execute(plan(step("a", "lookup", unit="x")))
    assert asked == ["lookup", "lookup"]
    assert world.calls == {"lookup x": 2}


async def test_a_tool_that_the_plan_may_not_call_is_refused_however_often_it_was_called_before() -> None:
    world = World()
    async with orchestrator(world.tools()) as made:
        await made.execute(plan(step("a", "lookup", unit="x")))
        execution = await made.execute(plan(step("a", "lookup", unit="x"), id="p2"), tools=["compare"])
    assert "lookup" in errors(execution)["a"]


async def test_a_tool_that_took_the_place_of_another_gives_its_own_results() -> None:
    world = World()
    async with orchestrator(world.tools()) as made:
        await made.execute(plan(step("a", "lookup", unit="x")))
        made._runtime.registry.remove("lookup")
        made._runtime.registry.add(world.tools()[0])
        await made.execute(plan(step("a", "lookup", unit="x"), id="p2"))
    assert world.calls == {"lookup x": 2}


async def test_a_tool_with_a_cache_of_its_own_is_left_to_the_gate() -> None:
    world = World()
    async with orchestrator(world.tools(cache_seconds=60)) as made:
        await made.execute(plan(step("a", "lookup", unit="x")))
        second = await made.execute(plan(step("a", "lookup", unit="x"), id="p2"))
    assert world.calls == {"lookup x": 1}
    assert second.results[0].cached
    assert second.plan_result is not None
    assert second.plan_result.calls[0].cached


async def test_a_result_that_is_not_confident_enough_is_no_reason_to_leave_the_fallback_out() -> None:
    world = World()
    world.confidence = 0.1
    fallback = StepFallback(tool="compare", condition="on_low_confidence", threshold=0.5)
    async with orchestrator(world.tools()) as made:
        await made.execute(plan(step("a", "lookup", unit="x")))
        again = await made.execute(plan(step("a", "lookup", unit="x", fallback=fallback), id="p2"))
        assert not again.results[0].cached
        assert made.kept is not None
        assert made.kept.hits == 1
        assert made.kept.asked == 2


async def test_repeated_questions_are_answered_by_what_is_there_in_more_than_a_third_of_the_steps() -> None:
    world = World()
    units = ["terminator", "dreadnought", "terminator", "captain", "terminator", "dreadnought"]
    async with orchestrator(world.tools()) as made:
        for number, unit in enumerate(units):
            await made.execute(plan(step("a", "lookup", unit=unit), id=f"p{number}"))
        assert made.kept is not None
        assert made.kept.asked == 6
        assert made.kept.hits == 3


async def test_results_are_kept_for_so_long_so_many_and_so_large() -> None:
    now = [0.0]
    (lookup, *_) = World().tools()
    kept = KeptResults(seconds=10, entries=2, max_bytes=400, clock=lambda: now[0])
    for unit in ("a", "b", "c"):
        kept.put(lookup, {"unit": unit}, '"' + unit * 100 + '"')
    assert kept.get(lookup, {"unit": "a"}) is None
    assert len(kept) == 2
    assert kept.get(lookup, {"unit": "b"}) is not None  # and now "c" was not used longest
    kept.put(lookup, {"unit": "d"}, '"d"')
    assert kept.get(lookup, {"unit": "c"}) is None
    assert kept.get(lookup, {"unit": "b"}) is not None
    kept.put(lookup, {"unit": "e"}, '"' + "ü" * 300 + '"')
    assert kept.get(lookup, {"unit": "e"}) is None  # larger than all there is room for
    kept.put(lookup, {"unit": "f"}, '"' + "f" * 250 + '"')
    assert len(kept) == 2
    assert kept.get(lookup, {"unit": "b"}) is not None
    now[0] = 10.0
    assert kept.get(lookup, {"unit": "f"}) is None
    assert kept.get(lookup, {"unit": "b"}) is None
    assert len(kept) == 0


async def test_the_time_of_the_settings_holds() -> None:
    world = World()
    async with orchestrator(world.tools(), QUICK) as made:
        now = [0.0]
        assert isinstance(made, ToolOrchestrator)
        made.kept = KeptResults(seconds=300, entries=10, clock=lambda: now[0])
        for second in (0.0, 299.0, 301.0):
            now[0] = second
            await made.execute(plan(step("a", "lookup", unit="x")))
    assert world.calls == {"lookup x": 2}
