"""The spans of runs and calls, as a collector gets them."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import pytest
from opentelemetry.trace import get_current_span

from callgate import Allow, CallEnded, Deny, Limits, Runtime, ToolError, tool
from callgate.runtime.gate.watching import Origin, origin
from otlp_collector import Collector, Providers
from runtime.telemetry.conftest import Reporting

pytestmark = pytest.mark.anyio

CODE = "execute_tool execute_code"
PLAN = "execute_tool execute_tool_plan"
CALL = "execute_tool get_weather"

TWO = """
tokyo = await get_weather(city="Tokyo")
paris = await get_weather(city="Paris")
[tokyo, paris]
"""
UNUSED = """
a = await get_weather(city="x")
1 / 0
b = await get_weather(city="y")
[a, b]
"""
KILLED = """
import asyncio, os, signal
asyncio.ensure_future(hangs())
await asyncio.sleep(0.05)
os.kill(os.getpid(), signal.SIGKILL)
"""
NO_GRAPH = f"import math\nmath.sqrt(4)\n{TWO}"


@tool(read_only=True)
async def get_weather(city: str) -> str:
    """The weather."""
    await anyio.sleep(0.001)
    return f"sunny in {city}"


@tool(fallback="get_weather")
async def fails(city: str) -> str:
    raise ToolError("no such city")


@tool
async def hangs() -> None:
    await anyio.sleep_forever()


@tool(requires_approval=True)
async def pay(euros: int) -> str:
    return f"paid {euros}"


@tool(read_only=True, cache_seconds=60)
async def kept(city: str) -> str:
    return city


def every_span_has_ended(collector: Collector) -> None:
    """A parent that never ended never comes to the collector, and `tree` fails then."""
    collector.tree()
    assert all(span.end >= span.start for span in collector.spans)


async def test_a_direct_call_is_one_span_below_the_callers_own(reporting: Reporting, providers: Providers) -> None:
    async with reporting(get_weather) as runtime:
        with providers.tracer.get_tracer("app").start_as_current_span("request"):
            answer = await runtime.handle("get_weather", {"city": "Tokyo"})
    assert answer
    collector = providers.flush()
    assert collector.tree() == ["request", f"request > {CALL}"]
    span = collector.one(CALL)
    assert span.attributes.pop("callgate.run.id").startswith("run_")
    assert span.attributes == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "get_weather",
        "gen_ai.tool.type": "function",
        "callgate.caller": "direct",
        "callgate.call.number": 1,
        "callgate.attempts": 1,
        "callgate.cached": False,
    }
    assert span.status == "UNSET"


async def test_a_program_in_the_jail_is_a_span_above_its_calls(reporting: Reporting, providers: Providers) -> None:
    async with reporting(get_weather, sandbox="jail") as runtime:
        with providers.tracer.get_tracer("app").start_as_current_span("request"):
            result = await runtime.execute_code(NO_GRAPH)
    assert result.ok
    assert result.path == "sandbox"
    collector = providers.flush()
    assert collector.tree() == ["request", f"request > {CODE}", *[f"request > {CODE} > {CALL}"] * 2]
    run, calls = collector.one(CODE), collector.named(CALL)
    assert run.attributes["callgate.path"] == "sandbox"
    assert run.attributes["callgate.sandbox"].startswith("jail")
    assert run.attributes["callgate.tool_calls"] == 2
    assert run.attributes["callgate.cpu_seconds"] > 0
    assert {call.attributes["callgate.run.id"] for call in calls} == {run.attributes["callgate.run.id"]}
    assert all(run.start <= call.start <= call.end <= run.end for call in calls)


async def test_a_session_is_a_span_for_each_program(reporting: Reporting, providers: Providers) -> None:
    async with reporting(get_weather, sandbox="jail") as runtime, runtime.session() as session:
        await session.execute_code("x = await get_weather(city='Tokyo')")
        await session.execute_code("await get_weather(city=x)")
    assert providers.flush().tree() == [CODE, f"{CODE} > {CALL}"] * 2


async def test_a_program_on_the_fast_path_has_its_early_calls_marked(
    reporting: Reporting, providers: Providers
) -> None:
    async with reporting(get_weather) as runtime:
        result = await runtime.execute_code(TWO)
    assert result.ok
    assert result.path == "plan"
    collector = providers.flush()
    assert collector.tree() == [CODE, *[f"{CODE} > {CALL}"] * 2]
    early = [call.attributes.get("callgate.speculative", False) for call in collector.named(CALL)]
    assert early == [False, True]
    assert collector.one(CODE).attributes["callgate.speculative_unused"] == 0


async def test_an_early_call_that_was_never_used_is_counted(reporting: Reporting, providers: Providers) -> None:
    code = UNUSED
    async with reporting(get_weather) as runtime:
        result = await runtime.execute_code(code)
    collector = providers.flush()
    assert collector.one(CODE).attributes["callgate.speculative_unused"] == len(result.speculative)
    assert len(collector.named(CALL)) == len(result.calls) + len(result.speculative)
    every_span_has_ended(collector)


async def test_the_calls_of_a_plan_name_their_step_and_item(reporting: Reporting, providers: Providers) -> None:
    steps = [
        {"id": "one", "tool": "get_weather", "arguments": {"city": "Tokyo"}},
        {"id": "all", "tool": "get_weather", "for_each": ["a", "b"], "arguments": {"city": "$item"}},
    ]
    async with reporting(get_weather) as runtime:
        result = await runtime.execute_tool_plan({"steps": steps})
    assert result.ok
    collector = providers.flush()
    assert collector.tree() == [PLAN, *[f"{PLAN} > {CALL}"] * 3]
    places = {(c.attributes["callgate.step"], c.attributes.get("callgate.item")) for c in collector.named(CALL)}
    assert places == {("one", None), ("all", 0), ("all", 1)}
    assert collector.one(PLAN).attributes["callgate.steps"] == 2


async def test_the_early_calls_of_a_streamed_plan_stand_below_the_plan(
    reporting: Reporting, providers: Providers
) -> None:
    async def chunks() -> Any:
        yield '{"steps": [{"id": "a", "tool": "get_weather", "arguments": {"city": "x"}}, '
        await anyio.sleep(0.05)
        yield '{"id": "b", "tool": "get_weather", "arguments": {"city": "$ref:a"}}]}'

    async with reporting(get_weather) as runtime:
        assert (await runtime.stream_plan(chunks())).ok
    collector = providers.flush()
    assert collector.tree() == [PLAN, *[f"{PLAN} > {CALL}"] * 2]
    first, second = collector.named(CALL)
    assert first.attributes["callgate.speculative"]
    assert first.attributes["callgate.step"] == "a"
    assert "callgate.speculative" not in second.attributes


async def test_a_plans_span_says_who_approved_it(reporting: Reporting, providers: Providers) -> None:
    plan = {"steps": [{"id": "a", "tool": "get_weather", "arguments": {"city": "x"}}]}
    async with reporting(get_weather) as runtime:
        await runtime.execute_tool_plan(plan, approve_plan=lambda _: Allow(by="ann"))
        await runtime.execute_tool_plan(plan, approve_plan=lambda _: Deny("no", by="bob"))
    answers = {
        (s.attributes["callgate.approval"], s.attributes["callgate.approved_by"])
        for s in providers.flush().named(PLAN)
    }  # fmt: skip
    assert answers == {("granted", "ann"), ("denied", "bob")}


async def test_a_fallback_stands_below_the_call_that_failed(reporting: Reporting, providers: Providers) -> None:
    async with reporting(get_weather, fails) as runtime:
        await runtime.execute_tool_plan({"steps": [{"id": "a", "tool": "fails", "arguments": {"city": "x"}}]})
    collector = providers.flush()
    assert collector.tree() == [PLAN, f"{PLAN} > execute_tool fails", f"{PLAN} > execute_tool fails > {CALL}"]
    failed = collector.one("execute_tool fails")
    assert failed.attributes["callgate.fallback"] == "get_weather"
    assert (failed.status, failed.attributes["error.type"]) == ("ERROR", "failed")


async def test_what_a_tool_does_stands_below_its_call(reporting: Reporting, providers: Providers) -> None:
    tracer = providers.tracer.get_tracer("app")

    @tool
    async def outer() -> str:
        with tracer.start_as_current_span("query"):
            return await runtime.handle("get_weather", {"city": "x"})

    @tool
    def sync() -> None:
        tracer.start_span("in a thread").end()

    async with reporting(get_weather, outer, sync, sandbox="jail") as runtime:
        result = await runtime.execute_code("import math\nawait outer()\nawait sync()")
        assert result.ok
        assert get_current_span().get_span_context().span_id == 0
    below = f"{CODE} > execute_tool outer"
    assert providers.flush().tree() == [
        CODE, below, f"{below} > query", f"{below} > query > {CALL}",
        f"{CODE} > execute_tool sync", f"{CODE} > execute_tool sync > in a thread",
    ]  # fmt: skip


async def test_the_outcome_of_a_call_is_its_error_type(reporting: Reporting, providers: Providers) -> None:
    async def approve(request: Any) -> Any:
        euros = request.arguments["euros"]
        return Allow(by="ann") if euros < 10 else Allow({"euros": 1}, by="ann") if euros < 100 else Deny("no", by="bob")

    steps = [{"id": f"p{euros}", "tool": "pay", "arguments": {"euros": euros}} for euros in (1, 50, 500)]
    async with reporting(pay, hangs, kept, approve=approve) as runtime:
        await runtime.execute_tool_plan({"steps": steps})
        for _ in range(2):
            await runtime.handle("kept", {"city": "x"})
        await runtime.handle("nothing", {})
        await runtime.handle("kept", {"citi": 1})
        await runtime.execute_tool_plan({"steps": [{"id": "h", "tool": "hangs", "timeout_seconds": 0.01}]})
    collector = providers.flush()
    pays = {
        (s.attributes["callgate.approval"], s.attributes.get("callgate.approved_by"), s.attributes.get("error.type"))
        for s in collector.named("execute_tool pay")
    }
    assert pays == {("granted", "ann", None), ("changed", "ann", None), ("denied", "bob", "denied")}
    keeps = [
        (s.attributes["callgate.cached"], s.attributes.get("error.type")) for s in collector.named("execute_tool kept")
    ]
    assert keeps == [(False, None), (True, None), (False, "refused")]
    hung = collector.one("execute_tool hangs")
    assert (hung.attributes["error.type"], hung.status) == ("unknown_outcome", "ERROR")


async def test_the_spans_of_a_cancelled_run_end(
    reporting: Reporting, providers: Providers, caplog: pytest.LogCaptureFixture
) -> None:
    async with reporting(hangs, sandbox="jail") as runtime:
        for path in ("sandbox", "plan"):
            with anyio.move_on_after(0.3):
                await runtime.execute_code("await hangs()", path=path)
        with anyio.move_on_after(0.1):
            await runtime.execute_tool_plan({"steps": [{"id": "h", "tool": "hangs"}]})
        async with runtime.stream_code("await hangs()") as stream:
            async for _ in stream:
                break
        assert get_current_span().get_span_context().span_id == 0
    collector = providers.flush()
    every_span_has_ended(collector)
    runs = [*collector.named(CODE), *collector.named(PLAN)]
    assert len(runs) == 4
    assert {run.attributes["error.type"] for run in runs} == {"cancelled"}
    calls = collector.named("execute_tool hangs")
    assert len(calls) >= 3
    assert {call.attributes["error.type"] for call in calls} <= {"unknown_outcome", "cancelled"}
    assert not [each for each in caplog.records if "detach" in each.getMessage()]


async def test_the_spans_of_a_killed_guest_end(reporting: Reporting, providers: Providers) -> None:
    code = KILLED
    async with reporting(hangs, sandbox="jail") as runtime:
        result = await runtime.execute_code(code)
        limited = await runtime.execute_code("await hangs()", limits=Limits(wall_seconds=0.2))
    assert result.error is not None
    assert limited.error is not None
    collector = providers.flush()
    every_span_has_ended(collector)
    first, second = collector.named(CODE)
    assert first.attributes["error.type"] == result.error.kind
    assert second.attributes["error.type"] == "LimitReached"
    assert second.attributes["callgate.limit"] == "wall_seconds"


async def test_the_spans_of_a_runtime_that_is_left_end(reporting: Reporting, providers: Providers) -> None:
    begun = anyio.Event()

    @tool
    async def waits() -> None:
        begun.set()
        await anyio.sleep_forever()

    async with anyio.create_task_group() as tasks, reporting(waits) as runtime:
        tasks.start_soon(runtime.execute_code, "await waits()")
        await begun.wait()
    collector = providers.flush()
    every_span_has_ended(collector)
    assert collector.tree() == [CODE, f"{CODE} > execute_tool waits"]


async def test_a_run_says_who_asked_for_it(reporting: Reporting, providers: Providers) -> None:
    asked = Origin(task="t1", turn=3, call="call_7", client="desk")
    async with reporting(get_weather) as runtime:
        before = origin.set(asked)
        try:
            await runtime.execute_code("1 + 1\nawait get_weather(city='x')")
        finally:
            origin.reset(before)
    attributes = providers.flush().one(CODE).attributes
    assert attributes["gen_ai.tool.call.id"] == "call_7"
    assert attributes["callgate.task"] == "t1"
    assert attributes["callgate.turn"] == 3
    assert attributes["callgate.client"] == "desk"


async def test_a_span_that_is_not_sampled_costs_no_result(providers: Providers) -> None:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

    from callgate import Telemetry

    telemetry = Telemetry(tracer_provider=TracerProvider(ALWAYS_OFF), meter_provider=providers.meter)
    async with Runtime([get_weather], sandbox=None, telemetry=telemetry) as runtime:
        assert (await runtime.execute_code(TWO)).ok
    assert providers.flush().spans == []
    assert sum(providers.collector.metric("callgate.call.duration")) == 2


async def test_logs_carry_the_ids_of_their_span(
    reporting: Reporting, providers: Providers, caplog: pytest.LogCaptureFixture
) -> None:
    @tool
    async def speaks() -> None:
        logging.getLogger("callgate").warning("hello")

    async with reporting(speaks) as runtime:
        await runtime.handle("speaks", {})
        logging.getLogger("callgate").warning("outside")
    span = providers.flush().one("execute_tool speaks")
    inside, outside = caplog.records
    assert (inside.otelTraceID, inside.otelSpanID) == (span.trace, span.id)  # type: ignore[attr-defined]
    assert outside.otelTraceID == "0"  # type: ignore[attr-defined]


async def test_a_listener_that_stops_a_run_leaves_no_span_open(reporting: Reporting, providers: Providers) -> None:
    def stop(event: Any) -> None:
        if isinstance(event, CallEnded):
            raise RuntimeError("enough")

    async with reporting(get_weather) as runtime:
        await runtime.execute_code(TWO, on_event=stop)
    collector = providers.flush()
    every_span_has_ended(collector)
    assert len(collector.named(CODE)) == 1
