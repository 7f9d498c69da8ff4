"""Hostile names, arguments, results, prints and errors: every span arrives, within bounds; metrics and logs, too."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import anyio
import pytest

from callgate import ToolError, tool
from callgate.runtime.gate.watching import Origin, origin
from callgate.runtime.telemetry.content import MOST_CHARACTERS
from otlp_collector import Collector, Providers
from runtime.telemetry.conftest import Reporting

pytestmark = pytest.mark.anyio

HUGE = 10 * 1024 * 1024


@tool
async def echo(value: Any) -> Any:
    return value


@tool
async def spills(value: Any) -> None:
    raise ToolError(f"cannot use {value}", data={"value": value})


@tool
async def crashes(value: Any) -> None:
    raise RuntimeError(value)


@tool
async def huge(depth: int = 0) -> Any:
    value: Any = "x" * HUGE
    for _ in range(depth):
        value = [value]
    return value


PROGRAMS = [
    "a\\x00b\\x1b[31m\\r\\n\\u2028\\u202e",
    "\\ud800\\udfff",
    "x' * 10_000_000 + '",
    "é' * 5_000_000 + '",
]
"""Texts, as Python source between single quotes."""


def programs() -> Iterator[str]:
    for text in PROGRAMS:
        yield f"v = '{text}'\nprint(v)\nawait echo(value=v)\nv"
        yield f"v = '{text}'\nawait spills(value=v)"
        yield f"v = '{text}'\nawait crashes(value=v)"
        yield f"raise ValueError('{text}')"
        yield f"raise type('E' * 300 + '{text}'[:9].replace('\\x00', ''), (Exception,), {{}})('{text}')"
        yield f"from tools import call\nawait call('{text}', v=1)"
    yield "await echo(value=float('nan'))"
    yield "v = []\nfor _ in range(90): v = [v]\nawait echo(value=v)"
    yield "v = []\nfor _ in range(5_000): v = [v]\nawait echo(value=v)"
    yield "v = {}\nfor _ in range(400): v = {'k' * 300: v}\nprint(v)\nawait echo(value=v)"
    yield "await echo(value=10 ** 4000)"
    yield "await echo(value={'\\ud800' * 9: ['\\udfff'] * 9})"
    yield "await huge()\nawait huge(depth=50)"
    yield "#" + "é" * 60_000
    yield "(" * 5_000


def within_bounds(collector: Collector) -> None:
    for span in collector.spans:
        assert len(span.name) <= 300
        assert span.name.isprintable()
        assert len(span.message) <= MOST_CHARACTERS
        for name, value in span.attributes.items():
            most = MOST_CHARACTERS if name.startswith("gen_ai.tool.call.") else 256
            assert not isinstance(value, str) or len(value) <= most, name
        assert span.events == []


def on_one_line_each(caplog: pytest.LogCaptureFixture) -> None:
    """No line of the log can be forged, each has the ids of its span, and the SDK had nothing to complain of."""
    for record in caplog.records:
        assert record.name.startswith("callgate")
        assert record.getMessage().isprintable()
        assert "redacting" not in record.getMessage()
        assert len(record.getMessage()) < 1_000
        assert re.fullmatch("[0-9a-f]{32}", record.otelTraceID)  # type: ignore[attr-defined]


@pytest.mark.sampled
@pytest.mark.parametrize(("content", "path"), [(True, "auto"), (True, "sandbox"), (False, "auto")])
async def test_whatever_a_program_does_its_spans_arrive_within_bounds(
    reporting: Reporting, providers: Providers, caplog: pytest.LogCaptureFixture, content: bool, path: Any
) -> None:
    async with reporting(echo, spills, crashes, huge, content=content, sandbox="jail") as runtime:
        for program in programs():
            with anyio.fail_after(60):
                await runtime.execute_code(program, path=path)
    collector = providers.all_ended()
    assert len(collector.named("execute_tool execute_code")) == len(list(programs()))
    within_bounds(collector)
    on_one_line_each(caplog)
    assert [record for record in caplog.records if "'crashes' failed" in record.getMessage()]
    assert any("gen_ai.tool.call.arguments" in span.attributes for span in collector.spans) == content


@pytest.mark.sampled
@pytest.mark.parametrize("content", [True, False])
async def test_whatever_a_model_sends_its_spans_arrive_within_bounds(
    reporting: Reporting, providers: Providers, caplog: pytest.LogCaptureFixture, content: bool
) -> None:
    texts = ["a\x00b\x1b[31m\r\n\u2028\u202e", "\ud800\udfff", "x" * HUGE, "é" * HUGE]
    deep: Any = []
    for _ in range(10_000):
        deep = [deep]
    async with reporting(echo, spills, content=content) as runtime:
        for value in [*texts, float("nan"), float("inf"), 10**4000, deep, {texts[1]: texts[0]}, object()]:
            for name in ("echo", "spills"):
                await runtime.handle(name, {"value": value})
                step = {"id": "a", "tool": name, "arguments": {"value": value}}
                await runtime.execute_tool_plan({"steps": [step]})
        for text in texts:
            before = origin.set(Origin(task=text, call=text, client=text))
            await runtime.handle(text, {text[:99]: 1})
            await runtime.execute_code(text)
            await runtime.execute_tool_plan(text)
            await runtime.execute_tool_plan({"steps": [{"id": text, "tool": text}]})
            origin.reset(before)
    collector = providers.all_ended()
    assert len(collector.spans) >= 50
    within_bounds(collector)
    on_one_line_each(caplog)
