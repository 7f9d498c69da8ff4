"""Events while a program runs: their order, leaving early, and mistakes that come out as themselves."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import pytest

from callgate import CallEnded, CallStarted, ConfigurationError, Event, Printed, Runtime
from runtime.offered import CANCELLED

pytestmark = pytest.mark.anyio


def told(event: Event) -> str:
    if isinstance(event, Printed):
        return event.text
    assert isinstance(event, (CallStarted, CallEnded))
    return f"{'start' if isinstance(event, CallStarted) else 'end'} {event.record.tool}"


async def test_events_come_in_order(runtime: Runtime) -> None:
    async with runtime.stream_code(
        "print('a')\nawait echo(1)\nprint('b')\nawait get_weather('x')\nprint('c')\n7"
    ) as stream:
        events = [told(event) async for event in stream]
    assert events == ["a\n", "start echo", "end echo", "b\n", "start get_weather", "end get_weather", "c\n"]
    assert stream.result is not None
    assert stream.result.value == 7


async def test_events_come_while_the_program_runs(runtime: Runtime) -> None:
    with anyio.fail_after(20):
        async with runtime.stream_code("print('now')\nawait hang()") as stream:
            async for event in stream:
                if isinstance(event, CallStarted):
                    break
    assert stream.result is None


async def test_leaving_early_cancels_the_run(runtime: Runtime) -> None:
    CANCELLED.clear()
    with anyio.fail_after(20):
        async with runtime.stream_code("print('a')\nawait hang()") as stream:
            async for event in stream:
                if isinstance(event, CallStarted):
                    break
        assert CANCELLED == ["hang"]
        assert (await runtime.execute_code("1")).value == 1


async def test_after_its_block_a_stream_is_at_its_end(runtime: Runtime) -> None:
    async with runtime.stream_code("print('a')\nawait hang()") as stream:
        async for _ in stream:
            break
    assert [event async for event in stream] == []


async def test_a_program_that_fails_is_a_result(runtime: Runtime) -> None:
    async with runtime.stream_code("print('a')\n1 / 0") as stream:
        assert [told(event) async for event in stream] == ["a\n"]
    assert stream.result is not None
    assert stream.result.error is not None
    assert stream.result.error.kind == "ZeroDivisionError"


async def test_a_program_that_check_stops_has_no_events(runtime: Runtime) -> None:
    async with runtime.stream_code("x = (") as stream:
        assert [event async for event in stream] == []
    assert stream.result is not None
    assert not stream.result.ok


async def test_mistakes_of_the_operator_come_out_as_themselves(runtime: Runtime) -> None:
    with pytest.raises(ConfigurationError):  # noqa: PT012
        async with runtime.stream_code("1", inputs={"x": {1}}) as stream:
            async for _ in stream:
                pass


async def test_errors_of_the_block_come_out_as_themselves(runtime: Runtime) -> None:
    with pytest.raises(KeyError):
        async with runtime.stream_code("await hang()"):
            raise KeyError
    with pytest.raises(ExceptionGroup) as group:
        async with runtime.stream_code("await hang()"):
            raise ExceptionGroup("mine", [ValueError()])
    assert group.value.message == "mine"


async def test_every_start_has_its_end(runtime: Runtime) -> None:
    events: list[Event] = []
    await runtime.execute_code(
        "import asyncio\nleft = asyncio.create_task(hang())\n"
        "put_off = asyncio.create_task(echo(21))\nput_off.cancel()\n"
        "await asyncio.gather(*(echo(i) for i in range(20)), late(), return_exceptions=True)\nleft.cancel()",
        on_event=events.append,
    )
    started = [event.record.id for event in events if isinstance(event, CallStarted)]
    ended = [event.record.id for event in events if isinstance(event, CallEnded)]
    assert sorted(started) == sorted(ended) == list(range(1, 24))
    assert {event.record.status for event in events if isinstance(event, CallEnded)} == {
        "succeeded", "cancelled", "unknown_outcome",
    }  # fmt: skip


async def test_a_listener_that_fails_harms_nothing(runtime: Runtime, caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: Any) -> None:
        raise RuntimeError("the listener's own trouble")

    with caplog.at_level(logging.ERROR):
        run = await runtime.execute_code("print('a')\nawait echo(5)", on_event=fail)
    assert (run.value, run.logs) == (5, "a\n")
    assert "the listener's own trouble" in caplog.text
