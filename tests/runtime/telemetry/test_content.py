"""What spans and metrics have of names, arguments and results: bounded, valid, redacted, whatever a program sends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Annotated, Any

import pytest

from callgate import ConfigurationError, Redaction, Runtime, Secret, Telemetry, ToolError, tool
from callgate.runtime.telemetry.content import MOST_CHARACTERS, Content, clean, label
from callgate.runtime.telemetry.names import TABLES
from otlp_collector import Providers
from runtime.telemetry.conftest import Reporting

pytestmark = pytest.mark.anyio

SECRET = "tok-83jf8"


@tool
async def echo(value: Any) -> Any:
    return value


@tool
async def spills(value: str) -> Any:
    raise ToolError(f"cannot use {value}")


async def test_content_is_in_spans_only_where_it_is_included(reporting: Reporting, providers: Providers) -> None:
    async with reporting(echo, spills) as runtime:
        await runtime.execute_code(f"print(await echo(value={SECRET!r}))")
        await runtime.execute_code(f"await spills(value={SECRET!r})")
    assert len(providers.flush().spans) == 4
    assert SECRET not in repr(providers.collector.spans)


async def test_content_is_bounded_and_redacted_everywhere(reporting: Reporting, providers: Providers) -> None:
    def redact(text: str) -> str:
        return text.replace(SECRET, "[gone]")

    async with reporting(echo, spills, content=True, redact=redact) as runtime:
        result = await runtime.execute_code(f"x = await echo(value=[{SECRET!r}] * 9999)\nx")
        assert result.ok
        assert SECRET in result.value
        await runtime.execute_code(f"await spills(value={SECRET!r})")
    collector = providers.flush()
    assert SECRET not in repr(collector.spans)
    for span in collector.spans:
        assert "[gone]" in span.attributes["gen_ai.tool.call.arguments"]
        assert all(len(each) <= MOST_CHARACTERS for each in span.attributes.values() if isinstance(each, str))
    assert collector.one("execute_tool spills").message == "cannot use [gone]"


@tool
async def login(user: str) -> Annotated[str, Secret]:
    return SECRET


@tool(read_only=True)
async def opens(password: Annotated[str, Secret]) -> str:
    return "open"


async def test_a_secret_of_a_call_is_not_in_what_the_run_prints_says_or_was_given(
    reporting: Reporting, providers: Providers
) -> None:
    step = {"id": "a", "tool": "opens", "arguments": {"password": SECRET}}
    never = {"id": "b", "tool": "opens", "arguments": {"password": f"{SECRET}-2"}, "depends_on": ["a"]}
    async with reporting(login, opens, spills, content=True, sandbox="jail") as runtime:
        printed = await runtime.execute_code("import math\nt = await login(user='x')\nprint(t)\nt")
        assert SECRET in printed.logs
        assert SECRET in printed.value
        await runtime.execute_code("t = await login(user='x')\nawait spills(value=t)\nraise ValueError(t)")
        await runtime.execute_tool_plan({"steps": [step]})
        await runtime.execute_tool_plan(json.dumps({"steps": [step, {**never, "tool": "none"}]}))
        await runtime.handle("opens", {"password": SECRET})
    collector = providers.flush()
    assert len(collector.spans) >= 8
    assert SECRET not in repr(collector.spans)
    assert "print(t)" in repr(collector.spans)


async def test_a_redaction_that_fails_shows_nothing(providers: Providers, caplog: pytest.LogCaptureFixture) -> None:
    def redact(text: str) -> str:
        raise RuntimeError("a fault of the operator's")

    telemetry = Telemetry(include_content=True, redact=redact, tracer_provider=providers.tracer)
    async with Runtime([echo], sandbox=None, telemetry=telemetry) as runtime:
        assert await runtime.handle("echo", {"value": SECRET})
    span = providers.flush().one("execute_tool echo")
    assert span.attributes["gen_ai.tool.call.arguments"] == "[redacted]"
    assert span.attributes["gen_ai.tool.call.result"] == "[redacted]"


async def test_hostile_names_stay_short_and_out_of_metrics(reporting: Reporting, providers: Providers) -> None:
    names = ["x" * 100_000, "a\nb\x1b[31m", "\ud800", *(f"made_up_{n}" for n in range(50))]
    async with reporting(echo, content=True) as runtime:
        for name in names:
            await runtime.handle(name, {"value": "\udfff"})
        await runtime.handle("echo", {"value": "\udfff"})
    collector = providers.flush()
    assert len(collector.spans) == len(names) + 1
    for span in collector.named("execute_tool"):
        name = span.attributes["gen_ai.tool.name"]
        assert len(name) <= 256
        assert name.isprintable()
    assert len(collector.named("execute_tool")) == len(names)
    tools = {
        attributes.get("gen_ai.tool.name")
        for name, attributes, _ in collector.points
        if name.startswith("callgate.call")
    }
    assert tools <= {None, "echo"}
    assert len(collector.metric("callgate.call.duration")) <= 3


async def test_a_programs_own_exceptions_are_one_kind_in_metrics(reporting: Reporting, providers: Providers) -> None:
    async with reporting(echo, sandbox="jail") as runtime:
        for n in range(3):
            await runtime.execute_code(f"class Mine{n}(Exception): pass\nraise Mine{n}('x')")
        await runtime.execute_code("1 / 0", path="sandbox")
    collector = providers.flush()
    kinds = {a.get("error.type") for name, a, _ in collector.points if name == "callgate.run.duration"}
    assert kinds == {"ProgramError", "ZeroDivisionError"}
    assert {s.attributes["error.type"] for s in collector.spans} == {"Mine0", "Mine1", "Mine2", "ZeroDivisionError"}


async def test_a_streamed_plan_is_content_once_it_has_come_and_a_large_result_is_left_out(
    reporting: Reporting, providers: Providers
) -> None:
    async def chunks() -> AsyncIterator[str]:
        yield '{"steps": [{"id": "a", "tool": "echo", '
        yield '"arguments": {"value": "shown"}}]}'

    many = {"id": "b", "tool": "echo", "for_each": list(range(300)), "arguments": {"value": "y" * 1_000}}
    async with reporting(echo, content=True) as runtime:
        assert (await runtime.stream_plan(chunks())).ok
        assert (await runtime.execute_tool_plan({"steps": [many]})).ok
        assert (await runtime.execute_code("['y' * 1_000] * 300")).ok
    streamed, large = providers.flush().named("execute_tool execute_tool_plan")
    assert '"value":"shown"' in streamed.attributes["gen_ai.tool.call.arguments"]
    assert "shown" in streamed.attributes["gen_ai.tool.call.result"]
    program = providers.collector.one("execute_tool execute_code")
    for each in (large, program):
        assert each.attributes["gen_ai.tool.call.result"] == "(not shown: the result is large)"


def test_large_arguments_are_left_out_and_of_a_large_result_the_beginning_is_shown() -> None:
    content = Content(Redaction().run(), lambda text: text)
    assert content.arguments(None, {"x": ["y" * 1000] * 10_000}).startswith("(not shown")
    assert content.result(None, json.dumps(["y" * 1000] * 10_000)).startswith('["yyy')


@pytest.mark.parametrize("text", ["\ud800", "a\x00b", "é" * 20_000, "\U0001f600" * 20_000])
def test_texts_are_valid_and_cut(text: str) -> None:
    assert clean(text).encode()
    assert len(clean(text)) <= MOST_CHARACTERS
    assert label(text).isprintable()
    assert len(label(text)) <= 256


def test_each_version_of_the_conventions_has_names_of_its_own() -> None:
    for table in TABLES.values():
        values = [getattr(table, name) for name in type(table).__slots__]
        assert len(set(values)) == len(values)
    assert Telemetry(conventions="1.36").conventions == "1.36"
    with pytest.raises(ConfigurationError, match=r"there are: 1\.41, 1\.36"):
        Telemetry(conventions="2")  # type: ignore[arg-type]


def test_telemetry_of_another_kind_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"telemetry is a callgate\.Telemetry\(\), not True"):
        Runtime(telemetry=True, sandbox=None)  # type: ignore[arg-type]


def test_without_the_package_the_error_says_how_to_install_it() -> None:
    program = """
import sys
sys.modules["opentelemetry"] = None
from callgate import ConfigurationError, Runtime, Telemetry
Runtime(sandbox=None)
try:
    Runtime(sandbox=None, telemetry=Telemetry())
except ConfigurationError as error:
    print(error)
"""
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert said.stdout.startswith("telemetry needs opentelemetry-api, which is not installed: pip install")
    assert "[telemetry]" in said.stdout


def test_a_runtime_without_telemetry_imports_none_of_it() -> None:
    program = """
import json, sys, anyio
from callgate import Runtime, tool

@tool
async def one() -> int:
    return 1

async def main():
    async with Runtime([one], sandbox=None) as runtime:
        await runtime.execute_code("await one()")

anyio.run(main)
print(json.dumps([name for name in sys.modules if name.startswith(("opentelemetry", "callgate.runtime.telemetry"))]))
"""
    environment = {**os.environ, "PYDANTIC_DISABLE_PLUGINS": "__all__"}  # Logfire's plugin imports OpenTelemetry
    command = [sys.executable, "-c", program]
    said = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(said.stdout) == []
