"""What telemetry costs a call, next to a bare span with the same attributes: processor time. A script, not a test."""

from __future__ import annotations

import asyncio
import time

from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

from callgate import Limits, Runtime, Telemetry, tool
from callgate.runtime.gate.watches import RunWatches
from callgate.runtime.gate.watching import RunStart

CALLS = 3000
ROUNDS = 7
ATTRIBUTES: dict[str, str | int] = {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": "one",
    "gen_ai.tool.type": "function",
    "callgate.run.id": f"run_{'0' * 32}",
    "callgate.caller": "code",
    "callgate.call.number": 1,
    "callgate.attempts": 1,
    "callgate.cached": False,
}
CONTENT = {"gen_ai.tool.call.arguments": '{"n":1}', "gen_ai.tool.call.result": "1"}


@tool
async def one(n: int) -> int:
    return n


async def seconds_a_call(runtime: Runtime) -> float:
    """Seconds of one call, in the gate of one program."""
    gate = runtime.gate.open(caller="code", limits=Limits(max_tool_calls=CALLS), allowed=None, on_event=None)
    start = RunStart(kind="code", limits=gate.limits, offer=gate.offer)
    if runtime.gate.watchers:
        gate.watches = RunWatches(runtime.gate.watchers)
        gate.watches.begin(start)
    began = time.process_time()
    for n in range(CALLS):
        await gate.call("one", {"n": n})
    took = (time.process_time() - began) / CALLS
    if gate.watches is not None:
        gate.watches.ended(None, None)
    return took


async def main() -> None:
    none = NoOpMeterProvider()
    tracers = TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(SpanProcessor())
    meters = MeterProvider([InMemoryMetricReader()], shutdown_on_exit=False)
    runtimes = {
        "no telemetry": Runtime([one], sandbox=None),
        "span": Runtime([one], sandbox=None, telemetry=Telemetry(tracer_provider=tracers, meter_provider=none)),
        "span and metrics": Runtime(
            [one], sandbox=None, telemetry=Telemetry(tracer_provider=tracers, meter_provider=meters)
        ),
        "span with content": Runtime(
            [one],
            sandbox=None,
            telemetry=Telemetry(include_content=True, tracer_provider=tracers, meter_provider=none),
        ),
    }
    tracer = tracers.get_tracer("bare")
    best: dict[str, float] = {}
    for _ in range(ROUNDS):
        for name, runtime in runtimes.items():
            best[name] = min(best.get(name, 1), await seconds_a_call(runtime))
        for bare, attributes in (("bare", ATTRIBUTES), ("bare with content", ATTRIBUTES | CONTENT)):
            began = time.process_time()
            for _ in range(CALLS):
                with tracer.start_as_current_span("execute_tool one", attributes=attributes):
                    pass
            best[bare] = min(best.get(bare, 1), (time.process_time() - began) / CALLS)
    for name in list(runtimes)[1:]:
        beside = best["bare with content" if name == "span with content" else "bare"]
        print(f"{name}: {(best[name] - best['no telemetry']) / beside:.2f} times a bare span with the same attributes")


if __name__ == "__main__":
    asyncio.run(main())
