"""The whole harness with counts so small that its figures mean nothing: every row is there, the report is written."""

from __future__ import annotations

import json
import sys
from io import StringIO

import anyio
import pytest
from rich.console import Console

from callgate.bench.context import TINY
from callgate.bench.harness import run
from callgate.bench.measures import MEASURES
from callgate.bench.peers import MontyPeer, PeerFailed
from callgate.bench.report import Report

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="the jail needs Linux")]


HERE = [name for name in MEASURES if name != "docker"]
"""`docker` has tests of its own."""


@pytest.fixture(scope="module")
def report() -> Report:
    return run(TINY, HERE, lambda name: None)


def test_every_measurement_gives_a_row_with_a_verdict(report: Report) -> None:
    assert {row.key for row in report.rows} == set(HERE)
    assert all(row.measured and row.verdict for row in report.rows)


def test_rows_without_a_target_are_for_information_only(report: Report) -> None:
    assert {row.verdict for row in report.rows if not row.target} == {"for information"}


def test_some_rows_are_repeated_under_trio(report: Report) -> None:
    again = [row for row in report.rows if row.measure.endswith("(host on trio)")]
    assert {row.key for row in again} == {"warm", "call"}


def test_the_report_goes_out_as_table_json_and_markdown(report: Report) -> None:
    told = StringIO()
    report.show(Console(file=told, width=200))
    assert "tool call round trip" in told.getvalue()
    data = json.loads(report.to_json())
    assert len(data["rows"]) == len(report.rows)
    page = report.to_markdown()
    assert all(f"| {row.measure} |" in page for row in report.rows)
    assert "targets met" in page


def test_a_peer_that_cannot_do_what_it_is_asked_says_so_and_goes_on() -> None:
    pytest.importorskip("pydantic_monty", reason="pydantic-monty is not installed")

    async def ask() -> tuple[str, int]:
        async with MontyPeer() as peer:
            with pytest.raises(PeerFailed) as failure:
                await peer.ask("run", code="1 / 0")
            return str(failure.value), len((await peer.ask("run", code="1 + 1", count=2))["seconds"])

    reason, runs = anyio.run(ask)
    assert "ZeroDivisionError" in reason
    assert runs == 2


def test_a_peer_whose_process_dies_fails_ever_after() -> None:
    pytest.importorskip("pydantic_monty", reason="pydantic-monty is not installed")

    async def ask() -> list[str]:
        reasons = []
        async with MontyPeer() as peer:
            await peer.ask("run", code="1 + 1")
            assert peer._process is not None
            peer._process.kill()
            for _ in range(2):
                with pytest.raises(PeerFailed) as failure:
                    await peer.ask("run", code="1 + 1")
                reasons.append(str(failure.value))
        return reasons

    assert all("ended" in reason for reason in anyio.run(ask))
