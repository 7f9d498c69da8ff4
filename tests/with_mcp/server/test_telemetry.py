"""One trace through MCP: a client, `callgate serve`, and the server behind it; and what a client may not do to it."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import pytest
from mcp import Client

from otlp_collector import Collector, Providers, collecting
from with_mcp.server.served import ERAS, SECONDS, Served, text

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
    name = None
    with anyio.fail_after(SECONDS):
        while name is None:  # on a busy machine, the server behind is not there at once
            names = [tool.name for tool in (await client.list_tools()).tools]
            name = next((each for each in names if each.endswith("get_weather")), None)
            await anyio.sleep(0.1)
    return text(await client.call_tool(name, {"city": "Oslo"}, **more))


def of_trace(collector: Collector, trace: str) -> list[str]:
    """The chain of spans that ends in the second server, each name by its kind."""
    spans = {each.id: each for each in collector.spans if each.trace == trace and "tools/call" in each.name}
    return [("SERVER", "CLIENT")[each.kind - 2] for each in sorted(spans.values(), key=lambda each: each.start)]


@pytest.mark.anyio
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


@pytest.mark.anyio
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


HELLO = {
    "jsonrpc": "2.0", "id": 0, "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {},
               "clientInfo": {"name": "n" * 99_999, "version": ""}},
}  # fmt: skip
BIG = 1_000_000


def requests() -> Iterator[dict[str, Any]]:
    """What a hostile client sends after its first request."""
    yield {"method": "notifications/initialized"}
    for n, name in enumerate(("x" * BIG, "a\nb\x1b[31m", "a\ud800b", "\0", 7, {"a": "x" * BIG})):
        yield {"id": n + 1, "method": "tools/call", "params": {"name": name, "arguments": {}}}
        yield {"id": n + 101, "method": "prompts/get", "params": {"name": name}}
    yield {"id": "i" * BIG, "method": "tools/call", "params": {"name": "get_weather", "arguments": {"city": "Oslo"}}}
    for n, method in enumerate(("m" * BIG, "tools/call\nm", "m\ud800")):
        yield {"id": n + 201, "method": method, "params": {"name": "x" * BIG}}
        yield {"method": method, "params": {"name": "x" * BIG}}
    yield {"id": 301, "method": "resources/read", "params": {"uri": "u:" + "x" * BIG}}
    yield {"id": 302, "method": "tools/list", "params": {"cursor": "x" * BIG}}


def test_nothing_that_a_client_sends_makes_a_span_long_or_breaks_its_export(
    served: Served, providers: Providers
) -> None:
    (served.folder / "start.py").write_text(START)
    lines = [json.dumps(HELLO), *(json.dumps({"jsonrpc": "2.0", **each}) for each in requests())]
    with subprocess.Popen(
        [sys.executable, "start.py", "serve", "--tools", "tools.py", "--pass", "get_weather"],
        cwd=served.folder, env=served.environment | {"OTEL_EXPORTER_OTLP_ENDPOINT": providers.collector.endpoint},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as server:  # fmt: skip
        assert server.stdin is not None
        assert server.stdout is not None
        writer = threading.Thread(target=print, args=lines, kwargs={"sep": "\n", "file": server.stdin, "flush": True})
        writer.start()
        answers: dict[str, Any] = {}
        for line in server.stdout:
            answer = json.loads(line)
            answers[str(answer.get("id"))] = answer
            if "i" * BIG in answers and not server.stdin.closed:  # at the end of its input a server gives up its calls
                writer.join(SECONDS)
                server.stdin.close()
        writer.join(SECONDS)
    assert "4" in answers["i" * BIG]["result"]["content"][0]["text"]
    assert "there is no tool" in answers["1"]["result"]["content"][0]["text"]
    collected = providers.flush()
    assert len(collected.spans) >= len(answers)
    assert {"initialize", "tools/call get_weather", "execute_tool get_weather"} <= {
        each.name for each in collected.spans
    }
    for span in collected.spans:
        assert len(span.name) <= 600
        assert span.name.isprintable()
        assert len(span.message) <= 1_000
        assert len(repr((span.attributes, span.events))) <= 5_000
