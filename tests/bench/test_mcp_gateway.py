"""The measure of the gateway: calls through `callgate serve` beside the same calls made directly, and the page."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from callgate.bench.peers import mcp_echo
from callgate.bench.peers.process import Bubblewrap, MontyPeer
from callgate.bench.report.single_rows import rows_markdown, rows_title
from callgate.bench.rows import Row
from callgate.bench.singles.context import TINY, Bench, BenchFailed
from callgate.bench.singles.measures import mcp_gateway

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the jail needs Linux")

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return anyio.run(mcp_gateway.gateway, Bench(TINY, MontyPeer(), Bubblewrap(), Path("nowhere")))


def test_both_ways_are_measured_beside_the_direct_call(rows: list[Row]) -> None:
    through, inside = rows
    assert {row.key for row in rows} == {"gateway"}
    assert through.measure == mcp_gateway.THROUGH
    assert inside.measure == mcp_gateway.INSIDE
    assert through.numbers["ours"]["count"] == through.numbers["peer"]["count"] == 20
    assert inside.numbers["peer"] == through.numbers["peer"]


def test_what_is_added_is_what_the_gateway_takes_beyond_the_direct_call(rows: list[Row]) -> None:
    numbers = rows[0].numbers
    assert numbers["added_seconds"] == pytest.approx(numbers["ours"]["p50"] - numbers["peer"]["p50"])
    assert numbers["added_seconds"] > 0, "two connections, a check, a gate and a record take no time at all?"
    assert "; added: " in rows[0].measured
    assert rows[0].ratio is not None
    assert rows[0].ratio > 1


def test_a_call_that_fails_fails_the_measure() -> None:
    async def call() -> None:
        async with Client(mcp_echo.server) as client:
            assert await mcp_gateway._call(client, "echo", {"text": "x"}) > 0
            with pytest.raises(BenchFailed, match="no_such_tool failed: "):
                await mcp_gateway._call(client, "no_such_tool", {"text": "x"})

    anyio.run(call)


def test_the_page_is_written_by_the_report(rows: list[Row]) -> None:
    page = (DOCS / "benchmarks-mcp.md").read_text().splitlines()
    assert page[0] == f"# {rows_title(rows)}" == "# Benchmarks of the MCP gateway"
    assert "`callgate bench --only gateway " in page[2]
    written = rows_markdown(rows)
    told: Any = [[line.split(" | ")[0] for line in lines if line.startswith("| ")] for lines in (written, page)]
    assert told[0] == told[1]
