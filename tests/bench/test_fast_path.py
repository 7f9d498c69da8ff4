"""Rows about the fast path: what they say of programs that are no graphs, and of requests that are not there."""

from __future__ import annotations

import ast
from pathlib import Path

import anyio

from callgate.bench.peers.process import Bubblewrap, MontyPeer
from callgate.bench.singles.context import TINY, Bench
from callgate.bench.singles.gold import SHAPES, GoldCall, Request, programs
from callgate.bench.singles.measures.fast_path import INDEPENDENT, PROGRAMS, Share, _refusals, share
from callgate.runtime import CodeResult, Runtime
from callgate.tools import tool

REQUEST = Request("r1", "", [], [GoldCall("get_weather", {"city": city, "days": 2}) for city in ("Oslo", "Lima")])


@tool(read_only=True)
async def get_weather(city: str, days: int = 1) -> dict[str, object]:
    """Stub."""
    return {"city": city, "days": days}


def test_the_bench_programs_make_the_calls_they_are_named_for() -> None:
    for calls, code in PROGRAMS.items():
        compile(code, "<program>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        assert code.count("await") == (calls if calls <= 3 else 1)
    assert INDEPENDENT.count("await pause(") == 10


def test_every_shape_of_a_request_makes_the_same_calls() -> None:
    async def run() -> list[CodeResult]:
        async with Runtime([get_weather], sandbox=None) as runtime:
            written = programs(REQUEST, {"get_weather": "get_weather"})
            return [await runtime.execute_code(written[shape], path="plan") for shape in SHAPES]

    for result in anyio.run(run):
        assert result.ok
        assert [call.arguments for call in result.calls] == [call.arguments for call in REQUEST.calls]


def test_calls_that_are_not_alike_are_gathered_from_a_list() -> None:
    calls = [*REQUEST.calls, GoldCall("get_weather", {"city": "Cairo"})]
    written = programs(Request("r2", "", [], calls), {"get_weather": "get_weather"})
    assert "gather(*calls)" in written["looped over objects"]
    assert written["looped over objects"] == written["looped over tuples"]


def test_a_reason_is_told_once_for_all_shapes_that_have_it() -> None:
    everywhere = [Share("f", shape, 2, {"a": "unknown argument"}) for shape in SHAPES]
    everywhere[0].refused["b"] = "too deep"
    assert _refusals(everywhere) == ["a: unknown argument", f"b {next(iter(SHAPES))}: too deep"]


def test_without_the_requests_the_row_says_so() -> None:
    bench = Bench(TINY, MontyPeer(), Bubblewrap(), Path("nowhere"))
    (row,) = anyio.run(share, bench)
    assert row.measured == "not measured: no requests in nowhere"
    assert row.verdict == "for information"
