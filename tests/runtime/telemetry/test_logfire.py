"""Logfire's SDK, pointed at a collector, shows the runs of a runtime as one tree."""

from __future__ import annotations

import os
import subprocess
import sys

from otlp_collector import collecting

PROGRAM = """
import anyio, logfire
from callgate import Runtime, Telemetry, tool

logfire.configure(send_to_logfire=False, console=False, inspect_arguments=False, service_name="test")

@tool
async def get_weather(city: str) -> str:
    with logfire.span("lookup"):
        return city

async def main():
    with logfire.span("request"):
        async with Runtime([get_weather], sandbox=None, telemetry=Telemetry()) as runtime:
            await runtime.execute_code("await get_weather(city='x')")

anyio.run(main)
logfire.force_flush()
"""


def test_logfire_shows_one_tree() -> None:
    with collecting() as providers:
        collector = providers.collector
        environment = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint, "LOGFIRE_IGNORE_NO_CONFIG": "1"}
        subprocess.run([sys.executable, "-c", PROGRAM], env=environment, timeout=120, check=True)
        assert not collector.faults
        spans = [span for span in collector.spans if span.attributes.get("logfire.span_type") != "pending_span"]
        collector.spans = spans
        run = "request > execute_tool execute_code"
        assert collector.tree() == [
            "request", run, f"{run} > execute_tool get_weather", f"{run} > execute_tool get_weather > lookup",
        ]  # fmt: skip
        assert collector.metric("callgate.call.duration") == [1]
