"""A task of an agent, its programs and plans, and the MCP server that has the tool: one trace, as a collector gets it
from both processes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import anyio
import pytest

from agent.loop.scripted_runs import sandboxed
from otlp_collector import Collector, ReceivedSpan, collecting

SDK = """
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)
"""
LOGFIRE = """
import logfire

logfire.configure(send_to_logfire=False, console=False, inspect_arguments=False, service_name="test")
"""
SERVER = """
from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations

server = MCPServer("weather")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def get_weather(city: str) -> str:
    return f"sunny in {city}"


server.run("stdio")
"""
TASK = """
import os
import sys

import anyio

from callgate import Agent, Runtime, Telemetry
from callgate.agent import ScriptedModel
from callgate.agent.models.scripted import Calls
from callgate.mcp import McpServers

CALL = "await weather.get_weather(city='Oslo')"
STEP = {"id": "a", "tool": "weather_get_weather", "arguments": {"city": "Rome"}}
ITEMS = {"id": "b", "tool": "weather_get_weather", "arguments": {"city": "$item"}, "for_each": ["Bonn", "Bern"]}
TURNS = [
    Calls(("execute_code", {"code": "import math\\nmath.sqrt(4)\\n" + CALL})),
    Calls(("execute_code", {"code": CALL})),
    Calls(("execute_tool_plan", {"steps": [STEP, ITEMS]})),
    Calls(("weather_get_weather", {"city": "Lima"})),
    "It is sunny.",
]


async def main():
    variable = "OTEL_EXPORTER_OTLP_ENDPOINT"
    server = {"command": sys.executable, "args": ["server.py"], "env": {variable: os.environ[variable]}}
    servers = McpServers.read({"mcpServers": {"weather": server}}, ready_seconds=60)
    async with Runtime(sources=[servers], telemetry=Telemetry()) as runtime:
        result = await Agent(ScriptedModel(TURNS), runtime).run("Is it sunny?")
        assert result.ok, result


anyio.run(main, backend=sys.argv[1])
"""

TASK_SPAN, CHAT = "invoke_agent callgate", "invoke_agent callgate > chat scripted"
CODE, PLAN = f"{TASK_SPAN} > execute_tool execute_code", f"{TASK_SPAN} > execute_tool execute_tool_plan"


def through(parent: str) -> list[str]:
    """A call of the MCP server's tool, from the gate to the server."""
    call = f"{parent} > execute_tool weather_get_weather"
    sent = f"{call} > MCP send tools/call get_weather"
    return [call, sent, f"{sent} > tools/call get_weather"]


@pytest.mark.anyio
@pytest.mark.sampled
@pytest.mark.parametrize("sdk", [SDK, LOGFIRE], ids=["sdk", "logfire"])
async def test_a_task_is_one_tree_from_the_model_to_the_mcp_server(
    sdk: str, tmp_path: Path, anyio_backend: str
) -> None:
    async with sandboxed([]):
        """A sandbox that is missing is a skip."""
    with collecting() as providers:
        (tmp_path / "server.py").write_text(SDK + SERVER)
        (tmp_path / "task.py").write_text(sdk + TASK)
        endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": providers.collector.endpoint, "LOGFIRE_IGNORE_NO_CONFIG": "1"}
        environment = os.environ | endpoint
        command = [sys.executable, "task.py", anyio_backend]
        with anyio.fail_after(120):
            await anyio.run_process(command, cwd=tmp_path, env=environment, stderr=None)
        collector = of_the_task(providers.collector)
    programs, plan, direct = [CODE, *through(CODE)] * 2, [PLAN, *through(PLAN) * 3], through(TASK_SPAN)
    assert sorted(collector.tree()) == sorted([TASK_SPAN, *[CHAT] * 5, *programs, *plan, *direct])
    assert len({span.trace for span in collector.spans}) == 1
    assert [span.attributes["callgate.path"] for span in collector.named("execute_tool execute_code")] == [
        "sandbox", "plan",
    ]  # fmt: skip
    calls = collector.named("execute_tool weather_get_weather")
    assert [span.attributes["callgate.caller"] for span in calls] == ["code", "code", *["plan"] * 3, "direct"]
    assert {span.attributes.get("callgate.step") for span in calls} == {None, "a", "b"}


def of_the_task(collector: Collector) -> Collector:
    """The collector with the spans of the task's trace alone: listing the server's tools is another trace. Logfire also
    sends each span when it begins."""
    assert not collector.faults
    ended = [span for span in collector.spans if span.attributes.get("logfire.span_type") != "pending_span"]
    (task,) = (span for span in ended if span.name == TASK_SPAN)

    def is_of_the_task(span: ReceivedSpan) -> bool:
        return span.trace == task.trace

    return Collector(collector.endpoint, spans=list(filter(is_of_the_task, ended)))
