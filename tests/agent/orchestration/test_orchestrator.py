"""Plans run: side by side, one after the other, in stages; what a failure ends, and what it does not."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import anyio
import pytest

from agent.orchestration.orchestrated import QUICK, compare, data, errors, fail, lookup, orchestrator, plan, step
from callgate import ConfigurationError, Limits, tool
from callgate.agent.planning.settings import PlannerSettings
from callgate.agent.planning.tool_plan import ExecutionContext, StepFallback
from callgate.runtime import CallEnded, CallStarted, Event, StepEnded, StepStarted

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
async def _in_time() -> AsyncIterator[None]:
    with anyio.fail_after(20):
        yield


class Meeting:
    """A tool whose calls end only when so many of them have begun."""

    def __init__(self, guests: int) -> None:
        self.running = 0
        self.most = 0
        self.full = anyio.Event()
        self._guests = guests

    async def visit(self, name: str) -> str:
        """Come, and wait for the others."""
        self.running += 1
        self.most = max(self.most, self.running)
        if self.running == self._guests:
            self.full.set()
        await self.full.wait()
        self.running -= 1
        return name


async def test_three_independent_tools_run_at_the_same_time() -> None:
    meeting = Meeting(3)
    events: list[Event] = []
    async with orchestrator([tool(read_only=True)(meeting.visit)]) as made:
        steps = [step(name, "visit", parameters={"name": name}) for name in "abc"]
        execution = await made.execute(plan(*steps), on_event=events.append)
    assert meeting.most == 3
    assert execution.success
    assert data(execution) == {"a": "a", "b": "b", "c": "c"}
    kinds = [type(event) for event in events if isinstance(event, CallStarted | CallEnded)]
    assert kinds == [CallStarted] * 3 + [CallEnded] * 3


@pytest.mark.parametrize(
    ("settings", "limits"),
    [(PlannerSettings(parallel_limit=2), None), (QUICK, Limits(max_concurrent_calls=2))],
    ids=["the settings' own", "the runtime's, where it is lower"],
)
async def test_more_calls_than_the_limit_wait_and_none_is_refused(
    settings: PlannerSettings, limits: Limits | None
) -> None:
    meeting = Meeting(2)
    async with orchestrator([tool(meeting.visit)], settings, limits=limits) as made:
        execution = await made.execute(plan(*[step(f"s{n}", "visit", parameters={"name": str(n)}) for n in range(9)]))
    assert execution.success
    assert len(data(execution)) == 9
    assert meeting.most == 2


async def test_tool_b_receives_the_result_of_tool_a() -> None:
    seen: list[Any] = []

    @tool
    async def b(of: dict[str, Any], number: int) -> int:
        """Take both."""
        seen.append((of, number))
        return number + 1

    async with orchestrator([lookup, b]) as made:
        first = step("a", "lookup", unit="terminator")
        second = step("b", "b", of="$ref:a", number="$ref:a.toughness", execution_mode="sequential")
        execution = await made.execute(plan(first, second))
    assert seen == [({"unit": "terminator", "toughness": 5, "confidence": 0.9, "source": "codex/terminator"}, 5)]
    assert data(execution)["b"] == 6


async def test_a_comparison_gets_the_data_of_two_lookups() -> None:
    async with orchestrator([lookup, compare]) as made:
        execution = await made.execute(
            plan(
                step("t", "lookup", unit="terminator"),
                step("d", "lookup", unit="dreadnought"),
                step("c", "compare", a="$ref:t", b="$ref:d", confidence=0.7),
            )
        )
    assert data(execution)["c"] == {"tougher": "dreadnought", "of": ["terminator", "dreadnought"]}
    t, _, c = execution.results
    assert t.confidence == 0.9  # the result's own
    assert c.confidence == 0.7  # it says nothing: the step's
    assert [(source.title, source.location) for source in t.sources] == [("lookup", "codex/terminator")]
    assert t.duration_seconds > 0
    assert t.retries == 0
    assert t.tool == "lookup"
    assert execution.plan_result is not None
    assert execution.plan_result.ok


async def test_stages_mix_parallel_and_sequential_steps() -> None:
    order: list[str] = []
    both = anyio.Event()

    @tool
    async def note(name: str, after: list[Any] = []) -> str:  # noqa: B006
        """Note that it was called."""
        order.append(name)
        if {"a", "b"} <= set(order):
            both.set()
        if name in "ab":
            await both.wait()
        return name

    async with orchestrator([note]) as made:
        execution = await made.execute(
            plan(
                step("a", "note", parameters={"name": "a"}),
                step("b", "note", parameters={"name": "b"}),
                step("c", "note", parameters={"name": "c", "after": ["$ref:a", "$ref:b"]}),
                step("d", "note", parameters={"name": "d"}, execution_mode="sequential"),
                step("e", "note", parameters={"name": "e"}, execution_mode="sequential"),
            )
        )
    assert execution.success
    assert sorted(order[:2]) == ["a", "b"]
    assert order[2:] == ["c", "d", "e"]


async def test_a_partial_failure_leaves_the_other_results_and_names_the_failed_steps() -> None:
    async with orchestrator([lookup, compare, fail]) as made:
        execution = await made.execute(
            plan(
                step("good", "lookup", unit="terminator"),
                step("bad", "fail", why="no luck"),
                step("needs", "compare", a="$ref:good", b="$ref:bad"),
            )
        )
    assert not execution.success
    assert not execution.cancelled
    assert list(data(execution)) == ["good"]
    assert execution.failed_steps == ("bad", "needs")
    assert (execution.plan_id, execution.total_seconds > 0) == ("p1", True)
    assert errors(execution)["bad"] == "no luck"
    assert "dependency 'bad' failed" in errors(execution)["needs"]
    assert [each.confidence for each in execution.results] == [0.9, 0, 0]


@pytest.mark.parametrize(("stop", "left"), [(True, []), (False, ["later"])])
async def test_a_critical_failure_stops_the_plan_unless_the_settings_say_otherwise(stop: bool, left: list[str]) -> None:
    async with orchestrator([lookup, fail], PlannerSettings(stop_on_critical=stop)) as made:
        execution = await made.execute(
            plan(
                step("bad", "fail", why="no luck", critical=True),
                step("later", "lookup", unit="terminator", execution_mode="sequential"),
            )
        )
    assert list(data(execution)) == left
    if stop:
        assert "critical step 'bad' failed" in errors(execution)["later"]


async def test_the_retries_of_a_tool_and_of_its_fallback_are_counted_and_the_change_to_it_is_none() -> None:
    tries: list[str] = []

    @tool(read_only=True)
    async def first(why: str) -> str:
        """Fails each time."""
        tries.append("first")
        raise ConnectionError("not now")

    @tool(read_only=True)
    async def archive(why: str) -> str:
        """Succeeds the second time."""
        tries.append("archive")
        if tries.count("archive") == 1:
            raise ConnectionError("not now")
        return "found"

    made_of = replace(QUICK, max_retries=2)
    async with orchestrator([first, archive], made_of) as made:
        execution = await made.execute(plan(step("a", "first", why="x", fallback=StepFallback(tool="archive"))))
    assert tries == ["first"] * 3 + ["archive"] * 2
    result = execution.results[0]
    assert (result.data, result.tool, result.retries) == ("found", "archive", 3)


async def test_a_fallback_on_low_confidence_is_asked_and_the_better_result_taken() -> None:
    @tool(read_only=True)
    async def unsure(q: str) -> dict[str, Any]:
        """Not sure."""
        return {"text": "perhaps", "confidence": 0.2}

    @tool(read_only=True)
    async def sure(q: str) -> dict[str, Any]:
        """Sure."""
        return {"text": "yes", "confidence": 0.8}

    fallback = StepFallback(tool="sure", condition="on_low_confidence", threshold=0.5)
    async with orchestrator([unsure, sure]) as made:
        execution = await made.execute(plan(step("a", "unsure", q="?", fallback=fallback)))
    assert execution.results[0].tool == "sure"
    assert execution.results[0].confidence == 0.8


async def test_a_plan_with_faults_is_not_run_and_every_step_says_why() -> None:
    async with orchestrator([lookup]) as made:
        execution = await made.execute(plan(step("a", "lookup", unit="terminator"), step("b", "look_up", unit="x")))
    assert not execution.success
    assert execution.failed_steps == ("a", "b")
    assert "there is no tool 'look_up'" in errors(execution)["b"]
    assert "the plan was not run" in errors(execution)["a"]
    assert "look_up" in errors(execution)["a"]


@pytest.mark.parametrize(("source", "success"), [("model", True), ("fallback", False)])
async def test_a_plan_without_steps_succeeds_where_a_model_wanted_none(source: Any, success: bool) -> None:
    async with orchestrator([lookup]) as made:
        execution = await made.execute(plan(source=source))
    assert execution.results == ()
    assert execution.success is success
    assert execution.plan_result is None


async def test_only_the_tools_that_are_named_may_be_called() -> None:
    async with orchestrator([lookup, fail]) as made:
        execution = await made.execute(plan(step("a", "fail", why="x")), tools=["lookup"])
        assert "fail" in errors(execution)["a"]
        assert execution.plan_result is not None
        assert execution.plan_result.calls == []
        with pytest.raises(ConfigurationError, match="lookdown"):
            await made.execute(plan(step("a", "lookup", unit="terminator")), tools=["lookdown"])
        assert made.running == ()


async def test_events_come_in_order_and_what_a_listener_raises_harms_nothing(caplog: pytest.LogCaptureFixture) -> None:
    events: list[Event] = []

    def listen(event: Event) -> None:
        events.append(event)
        raise RuntimeError("a bad listener")

    async with orchestrator([lookup]) as made:
        execution = await made.execute(plan(step("a", "lookup", unit="terminator")), on_event=listen)
    assert execution.success
    assert [type(event) for event in events] == [StepStarted, CallStarted, CallEnded, StepEnded]
    assert "the on_event callback failed" in caplog.text


async def test_a_plan_in_the_plan_language_is_refused_and_said_where_it_runs() -> None:
    async with orchestrator([lookup]) as made:
        with pytest.raises(ConfigurationError, match=r"plan is a ToolPlan.*not dict; Runtime.execute_tool_plan runs"):
            await made.execute({"steps": []})  # type: ignore[arg-type]


async def test_an_async_listener_is_refused() -> None:
    async def listen(event: Event) -> None: ...

    async with orchestrator([lookup]) as made:
        with pytest.raises(ConfigurationError, match="not async"):
            await made.execute(plan(), on_event=listen)  # type: ignore[arg-type]


async def test_a_timeout_is_logged_for_analysis(caplog: pytest.LogCaptureFixture) -> None:
    @tool
    async def sleepy(q: str) -> str:
        """Never answers."""
        await anyio.sleep_forever()
        return q

    with caplog.at_level(logging.WARNING, "callgate"):
        async with orchestrator([sleepy], QUICK) as made:
            await made.execute(plan(step("s", "sleepy", q="x", timeout_seconds=0.02), id="plan-7"))
    assert "plan plan-7, step s: tool 'sleepy' timed out, after 1 attempts" in caplog.text


def _deep() -> list[Any]:
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    return deep


@pytest.mark.parametrize("value", [_deep(), float("nan"), object()], ids=["deep", "nan", "object"])
async def test_arguments_that_are_no_json_are_refused_and_nothing_is_called(value: Any) -> None:
    calls: list[str] = []

    @tool(read_only=True)
    async def take(x: Any = None) -> None:
        """Take it."""
        calls.append("take")

    async with orchestrator([take]) as made:
        execution = await made.execute(plan(step("a", "take", parameters={"x": value}), step("b", "take")))
        alone = await made.execute_step(step("a", "take", parameters={"x": value}), ExecutionContext(plan_id="p1"))
    assert calls == []
    assert "the plan was not run" in errors(execution)["a"]
    assert not alone.success
    assert alone.error


async def test_a_plan_of_a_thousand_steps_that_hang_on_each_other_is_run_and_then_served_from_what_was_kept() -> None:
    @tool(read_only=True)
    async def add(x: int) -> int:
        """One more."""
        return x + 1

    steps = [step(f"s{n}", "add", parameters={"x": f"$ref:s{n - 1}" if n else 0}) for n in range(1000)]
    async with orchestrator([add]) as made:
        first = await made.execute(plan(*steps))
        second = await made.execute(plan(*steps, id="p2"))
    assert data(first)["s999"] == data(second)["s999"] == 1000
    assert all(each.cached for each in second.results)


async def test_repeated_questions_are_answered_by_what_is_there_in_more_than_a_third_of_the_steps() -> None:
    units = ["terminator", "dreadnought", "terminator", "terminator", "dreadnought"]
    async with orchestrator([lookup]) as made:
        found = [
            (await made.execute(plan(step("a", "lookup", unit=unit), id=f"p{number}"))).results[0]
            for number, unit in enumerate(units)
        ]
    assert [each.cached for each in found] == [False, False, True, True, True]
    assert [each.data["unit"] for each in found] == units


async def test_the_settings_turn_off_that_results_are_kept() -> None:
    async with orchestrator([lookup], PlannerSettings(result_cache_enabled=False)) as made:
        for id in ("p1", "p2"):
            execution = await made.execute(plan(step("a", "lookup", unit="terminator"), id=id))
            assert not execution.results[0].cached


async def test_what_has_to_wait_for_a_change_is_read_after_it() -> None:
    left = [2]

    @tool(read_only=True)
    async def stock() -> int:
        """How many are left."""
        return left[0]

    @tool
    async def sell() -> None:
        """Sell one."""
        left[0] -= 1

    steps = (step("a", "stock"), step("b", "sell", after=("a",)), step("c", "stock", execution_mode="sequential"))
    async with orchestrator([stock, sell]) as made:
        found = data(await made.execute(plan(*steps)))
    assert (found["a"], found["c"]) == (2, 1)


async def test_a_tools_own_plan_reads_what_the_plan_around_it_waits_to_read() -> None:
    @tool
    async def around() -> Any:
        """Run a plan that reads, while the plan around waits for the only place to read the same."""
        await anyio.wait_all_tasks_blocked()
        return data(await made.execute(plan(step("x", "lookup", unit="terminator"), id="inner")))

    async with orchestrator([lookup, around], PlannerSettings(parallel_limit=1)) as made:
        with anyio.fail_after(10):
            found = await made.execute(plan(step("a", "around"), step("b", "lookup", unit="terminator")))
    assert found.success, errors(found)
