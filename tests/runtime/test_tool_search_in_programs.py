"""`search_tools` and `describe_tools` inside programs and plans: they find what the run itself may call."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from callgate import Runtime, ToolError, tool
from callgate.limits import Limits
from callgate.runtime.discovery.search import ToolSearch
from callgate.runtime.gate import Gate
from callgate.runtime.offer import search_builtins
from callgate.tools import Registry
from runtime.conftest import opened

pytestmark = pytest.mark.anyio


@tool(read_only=True)
async def get_weather(city: str) -> dict[str, Any]:
    """Current weather in a city."""
    return {"city": city, "temp": len(city)}


@tool(allowed_callers=["direct"])
async def delete_weather(city: str) -> str:
    """Deletes the weather of a city."""
    return city


@tool
async def query_sales(region: str) -> list[int]:
    """Sales of a region."""
    return [len(region)]


@pytest.fixture(scope="module")
async def runtime(anyio_backend: str) -> AsyncIterator[Runtime]:
    async with opened(get_weather, delete_weather, query_sales, pool_size=1) as entered:
        yield entered


@pytest.mark.parametrize("path", ["sandbox", "auto"])
async def test_a_program_searches_describes_and_calls_what_it_found(runtime: Runtime, path: Any) -> None:
    run = await runtime.execute_code(
        "hits = await tools.search('weather of a city', limit=3)\n"
        "best = hits.found[0]\n"
        "about = await tools.describe(best.name)\n"
        "result = await tool_call(best.name, city='Oslo')\n"
        "print(best.signature, about.tools[0].input_schema.required)\n"
        "[[each.name for each in hits.found], hits.total, result.temp]",
        path=path,
    )
    assert run.ok, run.for_model()
    assert run.value == [["get_weather"], 2, 4]
    assert run.logs.startswith("get_weather(city: str) -> ")
    assert [(call.tool, call.status) for call in run.calls] == [
        ("search_tools", "succeeded"),
        ("describe_tools", "succeeded"),
        ("get_weather", "succeeded"),
    ]


async def test_under_their_own_names_too(runtime: Runtime) -> None:
    run = await runtime.execute_code("[e.name for e in (await search_tools('sales', detail='names')).found]")
    assert run.value == ["query_sales"], run.for_model()


@pytest.mark.parametrize("path", ["sandbox", "plan"])
async def test_a_program_searches_for_several_steps_at_once(runtime: Runtime, path: Any) -> None:
    code = "r = await search_tools(['sales', 'weather'], limit=2)\n[[e.name, e.query] for e in r.found]"
    run = await runtime.execute_code(code, path=path)
    assert run.value == [["query_sales", "sales"], ["get_weather", "weather"]], run.for_model()
    run = await runtime.execute_code("await search_tools(['sales', 7])", path=path)
    assert run.error is not None
    assert "argument 'query[1]' must be of type string, got 7 (a number)" in run.error.message


async def test_what_is_wrong_with_a_search_is_an_error_that_the_program_may_catch(runtime: Runtime) -> None:
    run = await runtime.execute_code(
        "try:\n    await search_tools('[', regex=True)\nexcept ToolError as error:\n    print(error.code, error)"
    )
    assert run.ok, run.for_model()
    assert run.logs.startswith("-32602 ")
    assert "the regular expression cannot be used" in run.logs


async def test_a_plan_may_search(runtime: Runtime) -> None:
    plan = {"steps": [{"id": "s", "tool": "search_tools", "arguments": {"query": "sales of the west"}}]}
    run = await runtime.execute_tool_plan(plan)
    assert run.ok, run.for_model()
    assert [each["name"] for each in run.outputs["s"]["found"]] == ["query_sales"]


async def test_a_plan_may_search_for_several_steps_at_once(runtime: Runtime) -> None:
    step = {"id": "s", "tool": "search_tools", "arguments": {"query": ["sales", "weather"]}}
    run = await runtime.execute_tool_plan({"steps": [step]})
    assert [each["query"] for each in run.outputs["s"]["found"]] == ["sales", "weather"], run.for_model()


def run_of(caller: Any, allowed: list[str] | None) -> Any:
    registry = Registry([get_weather, delete_weather, query_sales])
    gate = Gate(registry, builtins=search_builtins(lambda: ToolSearch(registry)))
    return gate.open(caller=caller, limits=Limits(), allowed=allowed)


@pytest.mark.parametrize(
    ("caller", "allowed", "total"),
    [("code", None, 2), ("direct", None, 3), ("code", ["get_weather"], 1), ("direct", ["delete_weather"], 1)],
)
async def test_only_what_the_run_may_call_is_searched(caller: Any, allowed: list[str] | None, total: int) -> None:
    run = run_of(caller, allowed)
    assert f'"total":{total}' in await run.call("search_tools", {"query": "weather sales delete"})
    with pytest.raises(ToolError, match="there is no tool 'no_such'"):
        await run.call("describe_tools", {"names": ["no_such"]})


async def test_what_the_run_may_not_call_is_not_described(anyio_backend: str) -> None:
    run = run_of("code", None)
    with pytest.raises(ToolError) as error:
        await run.call("describe_tools", {"names": ["delete_weather"]})
    assert "there is no tool 'delete_weather'" in str(error.value)


async def test_where_nothing_may_be_called_there_is_no_search_either() -> None:
    with pytest.raises(ToolError):
        await run_of("code", []).call("search_tools", {"query": "weather"})


async def test_tools_that_come_later_are_found_by_later_runs() -> None:
    registry = Registry([query_sales])
    gate = Gate(registry, builtins=search_builtins(lambda: ToolSearch(registry)))
    before = gate.open(caller="code", limits=Limits())
    registry.add(get_weather)
    after = gate.open(caller="code", limits=Limits())
    assert '"found":[]' in await before.call("search_tools", {"query": "weather"})
    assert '"name":"get_weather"' in await after.call("search_tools", {"query": "weather"})
