"""Plans that start while they are being written. The finished plan decides; nothing is called twice."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callgate import CallStarted, ConfigurationError, Event, Limits, PlanResult, StepEnded, StepStarted
from runtime.planned import World, world
from runtime.test_plans import step

pytestmark = pytest.mark.anyio


def pieces(plan: Any, size: int = 7) -> Iterator[str]:
    text = plan if isinstance(plan, str) else json.dumps(plan)
    for start in range(0, len(text), size):
        yield text[start : start + size]


class Writing:
    """A plan that is written as far as the test says."""

    def __init__(self, plan: Any) -> None:
        self.text = plan if isinstance(plan, str) else json.dumps(plan)
        self.more, self.take = anyio.create_memory_object_stream[str](100)
        self.at = 0

    async def until(self, mark: str) -> None:
        """Write up to and with the first `mark` that has not been written."""
        end = self.text.index(mark, self.at) + len(mark)
        await self.more.send(self.text[self.at : end])
        self.at = end

    async def rest(self) -> None:
        await self.more.send(self.text[self.at :])
        self.more.close()

    async def chunks(self) -> AsyncIterator[str]:
        async with self.take:
            async for chunk in self.take:
                yield chunk


async def logged(made: World, words: str) -> None:
    with anyio.fail_after(10):
        while words not in made.log:  # noqa: ASYNC110 (the log tells nobody)
            await anyio.sleep(0.001)


async def test_a_read_starts_while_the_plan_is_still_being_written() -> None:
    async with world() as (runtime, made):
        writing = Writing({"steps": [step("a"), step("b", arguments={"key": "$ref:a"}), step("w", "put")]})
        found: list[PlanResult] = []

        async def go() -> None:
            found.append(await runtime.stream_plan(writing.chunks()))

        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(go)
                await writing.until('"a"}}')
                await logged(made, "get a")
                await writing.until('"$ref:a"}}')
                while made.log.count("get a") < 2:  # noqa: ASYNC110 (the second step's key is the first one's result)
                    await anyio.sleep(0.001)
                await writing.until('"w"}}')
                await anyio.sleep(0.02)
                assert "put w" not in made.log  # it has side effects: not before the plan is complete
                await writing.rest()
        assert found[0].ok
        assert made.log == ["get a", "get a", "put w"]
        assert [call.tool for call in found[0].calls] == ["get", "get", "put"]
        assert found[0].outputs == {"a": "a", "b": "a", "w": {"key": "w", "value": None}}


async def test_what_must_not_start_early_does_not() -> None:
    async with world(approve=lambda request: None) as (runtime, made):
        steps = [
            step("erase", "erase"),
            step("risky", "flaky", fallback="put"),
            step("later", arguments={"key": "$ref:end"}),
            step("hidden", "private", arguments={}),
            step("end"),
        ]
        writing = Writing({"steps": steps})
        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(runtime.stream_plan, writing.chunks())
                await writing.until('"end"}}')
                await logged(made, "get end")
                await anyio.sleep(0.02)
                assert made.log == ["get end"]
                writing.more.close()
                tasks.cancel_scope.cancel()


@pytest.mark.parametrize("tail", [', "steps": []}', "}}", "", ', "output_steps": ["nobody"]}'])
async def test_a_plan_that_turns_out_bad_reports_what_already_ran(tail: str) -> None:
    async with world() as (runtime, made):
        text = json.dumps({"steps": [step("a"), step("w", "put")]})[:-1] + " " * 2000 + tail
        result = await runtime.stream_plan(pieces(text))
    assert result.error is not None
    assert result.error.kind == "PlanRefused"
    assert made.log == ["get a"]
    assert [call.status for call in result.calls] == ["succeeded"]
    assert "Already called while the plan was being written: get succeeded." in result.for_model()


async def test_calls_under_way_are_given_up_when_the_plan_is_bad_or_its_source_fails() -> None:
    async with world() as (runtime, made):
        with anyio.fail_after(10):
            spaces = " " * 5000  # time for the call to begin
            text = '{"steps": [' + json.dumps(step("x", "wait")) + spaces + ', {"id": 1}]}'
            bad = await runtime.stream_plan(pieces(text))
        assert [call.status for call in bad.calls] == ["cancelled"]
        assert made.log == ["wait x", "end x"]

        async def broken() -> AsyncIterator[str]:
            yield '{"steps": [' + json.dumps(step("y", "wait"))
            await logged(made, "wait y")
            raise ZeroDivisionError

        with anyio.fail_after(10), pytest.raises(ZeroDivisionError):
            await runtime.stream_plan(broken())
        assert made.log[2:] == ["wait y", "end y"]
        with pytest.raises(ConfigurationError, match="the chunks of a plan are text, not int"):
            await runtime.stream_plan(iter([1]))  # type: ignore[arg-type]


async def test_an_early_call_that_fails_fails_its_step_once() -> None:
    async with world() as (runtime, made):
        made.failures["a"] = 9
        steps = [step("a", "flaky"), step("b", depends_on="a"), step("c")]
        result = await runtime.stream_plan(pieces({"steps": steps}))
    assert [each.status for each in result.steps] == ["failed", "skipped", "succeeded"]
    assert made.log == ["flaky a", "flaky a", "flaky a", "get c"]


async def test_maps_and_conditions_start_early_too() -> None:
    async with world() as (runtime, made):
        steps = [
            step("list", arguments={"key": "", "value": ["p", "q"]}),
            step("all", for_each="$ref:list", arguments={"key": "$item"}),
            step("no", when="$ref:all[5]"),
            step("w", "put"),
        ]
        writing = Writing({"steps": steps})
        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(runtime.stream_plan, writing.chunks())
                await writing.until('"no"}')
                await logged(made, "get q")
                await writing.rest()
    assert [made.log[0], *sorted(made.log[1:3]), *made.log[3:]] == ["get ", "get p", "get q", "put w"]


async def test_a_plan_longer_than_max_message_bytes_is_refused_while_it_comes() -> None:
    async with world() as (runtime, _):
        taken = 0

        def endless() -> Iterator[str]:
            nonlocal taken
            yield '{"steps": ['
            while True:
                taken += 1
                yield json.dumps(step(f"s{taken}", "put")) + ","

        with anyio.fail_after(20):
            result = await runtime.stream_plan(endless(), limits=Limits(max_message_bytes=100_000))
    assert result.faults[0].code == "too-large"
    assert taken < 3000


async def test_limits_hold_across_the_early_part() -> None:
    async with world() as (runtime, made):
        plan = {"steps": [step("m", for_each=list(range(50)), arguments={"key": "${index}"}), step("w", "put")]}
        with anyio.fail_after(10):
            result = await runtime.stream_plan(pieces(plan), limits=Limits(max_tool_calls=10))
    assert result.error is not None
    assert (result.error.kind, result.error.limit) == ("LimitReached", "max_tool_calls")
    assert len(made.log) == 10


async def test_events_come_in_order() -> None:
    events: list[str] = []

    def note(event: Event) -> None:
        if isinstance(event, CallStarted):
            events.append(f"call {event.record.tool}")
        elif isinstance(event, StepStarted):
            events.append(f"started {event.id}")
        elif isinstance(event, StepEnded):
            events.append(f"ended {event.step.id} {event.step.status}")

    async with world() as (runtime, _):
        plan = {"steps": [step("a"), step("b", "put", arguments={"key": "$ref:a"}), step("c", when="$ref:b.none")]}
        await runtime.execute_tool_plan(plan, on_event=note)
        straight = list(events)
        events.clear()
        await runtime.stream_plan(pieces(plan), on_event=note)
    assert straight == ["started a", "call get", "ended a succeeded", "started b", "call put", "ended b succeeded",
                        "ended c skipped"]  # fmt: skip
    assert sorted(events) == sorted(straight)


steps_of_reads = st.lists(
    st.tuples(st.sampled_from(["get", "put", "flaky"]), st.integers(0, 6), st.booleans()), min_size=1, max_size=7
)


@settings(max_examples=40, deadline=None)
@given(written=steps_of_reads, size=st.integers(1, 60))
async def test_a_streamed_plan_comes_to_what_the_whole_one_comes_to(written: list[Any], size: int) -> None:
    steps = []
    for number, (tool, to, refers) in enumerate(written):
        key = f"$ref:s{to % len(written)}.key" if refers and to % len(written) != number else f"k{number}"
        steps.append(step(f"s{number}", tool, arguments={"key": key}))
    async with world() as (runtime, whole):
        expected = await runtime.execute_tool_plan({"steps": steps})
    async with world() as (runtime, streamed):
        with anyio.fail_after(20):
            result = await runtime.stream_plan(pieces({"steps": steps}, size))
    assert [each.status for each in result.steps] == [each.status for each in expected.steps]
    assert result.outputs == expected.outputs
    assert [fault.code for fault in result.faults] == [fault.code for fault in expected.faults]
    if expected.steps:
        assert sorted(streamed.log) == sorted(whole.log)
