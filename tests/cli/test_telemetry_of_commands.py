"""Commands report to the OpenTelemetry SDK of their process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from otlp_collector import collecting

STARTER = """
from opentelemetry import metrics, trace
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from callgate.cli.commands import callgate

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)
metrics.set_meter_provider(MeterProvider([PeriodicExportingMetricReader(OTLPMetricExporter())]))
callgate()
"""
TOOLS = """
from callgate import tool

@tool
async def get_weather(city: str) -> str:
    return city
"""


def test_a_command_reports_where_its_process_has_set_up_the_sdk(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    (tmp_path / "traced.py").write_text(STARTER)
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"steps": [{"id": "a", "tool": "get_weather", "arguments": {"city": "x"}}]}))
    with collecting() as providers:
        environment = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": providers.collector.endpoint}
        command = [
            sys.executable,
            str(tmp_path / "traced.py"),
            "plan",
            str(plan),
            "--tools",
            str(tmp_path / "tools.py"),
        ]
        subprocess.run(command, env=environment, timeout=120, check=True, capture_output=True)
        command[2:4] = ["run", "-c", "import math; await get_weather(city='x')"]
        subprocess.run(command, env=environment, timeout=120, check=True, capture_output=True)
        run, program = "execute_tool execute_tool_plan", "execute_tool execute_code"
        assert providers.flush().tree() == [
            run, f"{run} > execute_tool get_weather", program, f"{program} > execute_tool get_weather",
        ]  # fmt: skip
        assert providers.collector.metric("callgate.run.duration") == [1, 1]
