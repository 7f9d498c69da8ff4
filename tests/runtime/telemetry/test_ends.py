"""Every span that began has ended and arrives, however its run ends; and no run waits for an exporter."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import AsyncIterator, Iterator

import anyio
import anyio.to_thread
import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from callgate import Limits, Runtime, Telemetry, tool
from otlp_collector import Providers
from runtime.telemetry.conftest import Reporting

pytestmark = pytest.mark.anyio

CODE = "execute_tool execute_code"
PLAN = {"steps": [{"id": "a", "tool": "waits"}, {"id": "b", "tool": "waits", "depends_on": ["a"]}]}


class Waiting:
    """A tool that never returns, and says that it was called."""

    def __init__(self, *, read_only: bool = False) -> None:
        self.begun = anyio.Event()

        @tool(read_only=read_only)
        async def waits() -> None:
            self.begun.set()
            await anyio.sleep_forever()

        self.tool = waits


async def run(runtime: Runtime, how: str) -> None:
    """Run something that calls `waits`."""
    match how:
        case "direct":
            await runtime.handle("waits", {})
        case "sandbox" | "plan":
            await runtime.execute_code("await waits()", path=how)
        case "steps":
            await runtime.execute_tool_plan(PLAN)
        case "session":
            async with runtime.session() as session:
                await session.execute_code("import math\nawait waits()")
        case "stream":
            async with runtime.stream_code("import math\nawait waits()") as stream:
                async for _ in stream:
                    pass


@tool(read_only=True)
async def reads() -> int:
    return 1


HOW = ["direct", "sandbox", "plan", "steps", "session", "stream"]


@pytest.mark.parametrize("how", HOW)
async def test_a_call_under_way_ends_its_spans_when_the_run_is_cancelled(
    reporting: Reporting, providers: Providers, how: str
) -> None:
    waiting = Waiting()
    async with reporting(waiting.tool, sandbox="jail") as runtime:
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run, runtime, how)
                await waiting.begun.wait()
                tasks.cancel_scope.cancel()
        collector = providers.all_ended()  # at once, not at the runtime's end
    assert collector.one("execute_tool waits").attributes["error.type"] == "unknown_outcome"
    assert {span.attributes["error.type"] for span in collector.spans} <= {"unknown_outcome", "cancelled"}
    assert len(collector.spans) == (1 if how == "direct" else 2)


@pytest.mark.parametrize("how", ["sandbox", "plan", "session", "stream"])
async def test_a_program_under_way_ends_its_spans_when_the_runtime_is_left(
    reporting: Reporting, providers: Providers, how: str
) -> None:
    waiting = Waiting()
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks, reporting(waiting.tool, sandbox="jail") as runtime:
            tasks.start_soon(run, runtime, how)
            await waiting.begun.wait()
    collector = providers.all_ended()
    assert collector.one("execute_tool waits").attributes["error.type"] == "unknown_outcome"
    assert collector.tree() == [CODE, f"{CODE} > execute_tool waits"]


@pytest.mark.parametrize("end", ["cancelled", "ConnectionError"])
async def test_the_early_calls_of_a_plan_that_is_never_read_to_its_end_end_their_spans(
    reporting: Reporting, providers: Providers, end: str
) -> None:
    waiting = Waiting(read_only=True)

    async def chunks() -> AsyncIterator[str]:
        yield '{"steps": [{"id": "a", "tool": "waits"}, '
        await waiting.begun.wait()
        if end == "cancelled":
            tasks.cancel_scope.cancel()
            await anyio.sleep_forever()
        raise ConnectionError("the model is gone")

    async with reporting(waiting.tool) as runtime:
        with anyio.fail_after(60), contextlib.suppress(ExceptionGroup):
            async with anyio.create_task_group() as tasks:
                await runtime.stream_plan(chunks())
        collector = providers.all_ended()
    assert collector.one("execute_tool execute_tool_plan").attributes["error.type"] == end
    assert collector.one("execute_tool waits").attributes["error.type"] == "cancelled"


@pytest.mark.parametrize(
    ("program", "limits", "limit"),
    [
        ("import math\nawait reads()\nx = bytearray(1 << 30)", Limits(memory_bytes=128 << 20), "memory_bytes"),
        ("import asyncio\nasyncio.ensure_future(waits())\nawait asyncio.sleep(0.1)\nwhile True: pass",
         Limits(cpu_seconds=1), "cpu_seconds"),
        ("import asyncio\nawait asyncio.gather(*(waits() for _ in range(9)))",
         Limits(max_tool_calls=5), "max_tool_calls"),
    ],
    ids=["memory", "cpu", "calls"],
)  # fmt: skip
async def test_a_guest_that_a_limit_ends_leaves_no_span_open(
    reporting: Reporting, providers: Providers, program: str, limits: Limits, limit: str
) -> None:
    async with reporting(Waiting().tool, reads, sandbox="jail") as runtime:
        with anyio.fail_after(60):
            result = await runtime.execute_code(program, limits=limits)
        collector = providers.all_ended()
    assert result.error is not None
    run = collector.one("execute_tool execute_code")
    assert run.attributes["error.type"] == result.error.kind
    assert run.attributes.get("callgate.limit") == result.error.limit == limit
    assert len(collector.spans) == 1 + len(result.calls)
    assert result.calls


@contextlib.contextmanager
def listening(answers: bool) -> Iterator[tuple[int, threading.Event]]:
    """A port where connections are taken and never answered, or refused; and whether somebody has connected."""
    connected = threading.Event()
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        kept: list[socket.socket] = []

        def take() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                kept.append(connection)
                connected.set()

        thread = threading.Thread(target=take)
        if answers:
            server.listen()
            thread.start()
        try:
            yield server.getsockname()[1], connected
        finally:
            if answers:
                server.shutdown(socket.SHUT_RDWR)
                thread.join()
            for connection in kept:
                connection.close()


@pytest.mark.parametrize("answers", [True, False], ids=["hangs", "refuses"])
async def test_no_run_waits_for_an_exporter(answers: bool) -> None:
    with listening(answers) as (port, connected):
        tracers = TracerProvider(shutdown_on_exit=False)
        exporter = OTLPSpanExporter(f"http://127.0.0.1:{port}/v1/traces", timeout=60)
        tracers.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=1, max_export_batch_size=1))
        try:
            async with Runtime([reads], sandbox=None, telemetry=Telemetry(tracer_provider=tracers)) as runtime:
                with anyio.fail_after(60):
                    await runtime.handle("reads", {})
                    if answers:
                        await anyio.to_thread.run_sync(connected.wait)
                    result = await runtime.execute_code("for n in range(3000):\n    await reads()")
                    assert result.ok
                    assert (await runtime.execute_tool_plan({"steps": [{"id": "a", "tool": "reads"}]})).ok
        finally:
            exporter.shutdown()  # type: ignore[no-untyped-call]
    tracers.shutdown()
