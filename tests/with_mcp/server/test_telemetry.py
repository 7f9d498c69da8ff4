"""One trace through MCP: a client, `callgate serve`, and the server behind it; and what a client may not do to it."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from mcp import Client

from otlp_collector import Collector, Providers, collecting
from with_mcp.server.served import ERAS, Served, text

pytestmark = pytest.mark.anyio

START = """
import sys
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)

from callgate.cli import main

sys.exit(main())
"""
"""`callgate` in a process that exports its spans at once, as `opentelemetry-instrument` would set it up."""


@pytest.fixture
def providers() -> Iterator[Providers]:
    with collecting() as collected:
        yield collected


class Traced(Served):
    """`callgate serve` before another `callgate serve`, which has the tools."""

    def line(self, *arguments: str) -> list[str]:
        return [
            sys.executable,
            str(self.folder / "start.py"),
            "serve",
            "--mcp",
            "mcp.json",
            "--pass",
            "*",
            *arguments,
        ]


@pytest.fixture
def traced(served: Served, providers: Providers) -> Traced:
    start = served.folder / "start.py"
    start.write_text(START)
    endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": providers.collector.endpoint}
    upstream = {
        "command": sys.executable,
        "args": [str(start), "serve", "--tools", str(served.folder / "tools.py"), "--pass", "get_weather"],
        "env": {name: value for name, value in served.environment.items() if name != "WORD"} | endpoint,
    }
    (served.folder / "mcp.json").write_text(json.dumps({"mcpServers": {"up": upstream}}))
    return Traced(served.folder, served.environment | endpoint)


@contextlib.asynccontextmanager
async def client_of(traced: Traced, transport: str, era: str) -> AsyncIterator[Client]:
    if transport == "stdio":
        async with traced.client(era=era) as client:
            yield client
    else:
        with traced.http() as (url, _):
            async with traced.http_client(url, era=era) as client:
                yield client


async def weather(client: Client, **more: Any) -> str:
    names = [tool.name for tool in (await client.list_tools()).tools]
    (name,) = [each for each in names if each.endswith("get_weather")]
    return text(await client.call_tool(name, {"city": "Oslo"}, **more))


def of_trace(collector: Collector, trace: str) -> list[str]:
    """The chain of spans that ends in the second server, each name by its kind."""
    spans = {each.id: each for each in collector.spans if each.trace == trace and "tools/call" in each.name}
    return [("SERVER", "CLIENT")[each.kind - 2] for each in sorted(spans.values(), key=lambda each: each.start)]


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("era", ERAS)
async def test_a_call_through_the_gateway_is_one_trace_and_each_hop_is_in_it_once(
    traced: Traced, providers: Providers, transport: str, era: str
) -> None:
    tracer = providers.tracer.get_tracer("test")
    async with client_of(traced, transport, era) as client:
        with tracer.start_as_current_span("the client's own") as span:
            assert "4" in await weather(client)
    collected = providers.flush()
    trace = f"{span.get_span_context().trace_id:032x}"
    assert of_trace(collected, trace) == ["SERVER", "CLIENT", "SERVER"]


@pytest.mark.slow
async def test_no_trace_context_of_a_client_breaks_a_call(traced: Traced, providers: Providers) -> None:
    hostile: list[Any] = [
        "",
        "00-0-0-0",
        "x" * 100_000,
        7,
        [],
        [None],
        {"a": 1},
        None,
        "00-" + "f" * 32 + "-" + "0" * 16,
    ]
    async with traced.client() as client:
        for each in hostile:
            meta: Any = {"traceparent": each, "tracestate": each, "baggage": each}
            assert "4" in await weather(client, meta=meta)
    spans = providers.flush().spans
    assert all(len(str(span.attributes)) < 2_000 for span in spans)
