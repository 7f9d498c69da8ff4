"""The whole harness with counts so small that its figures mean nothing: every row is there, the report is written."""

from __future__ import annotations

import sys
from io import StringIO

import anyio
import pytest
from rich.console import Console

from callgate.bench.peers.process import MontyPeer, PeerFailed
from callgate.bench.report.single_rows import rows_markdown, rows_table
from callgate.bench.rows import Row
from callgate.bench.singles.context import TINY, Bench
from callgate.bench.singles.harness import Measured, run
from callgate.bench.singles.measures import MEASURES

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="the jail needs Linux")]


HERE = [name for name in MEASURES if name != "docker"]
"""`docker` has tests of its own."""


@pytest.fixture(scope="module")
def report() -> Measured:
    return run(TINY, HERE, lambda name: None)


def test_every_measurement_gives_a_row_with_a_verdict(report: Measured) -> None:
    assert {row.key for row in report.rows} == set(HERE)
    assert all(row.measured and row.verdict for row in report.rows)


def test_rows_without_a_target_are_for_information_only(report: Measured) -> None:
    assert {row.verdict for row in report.rows if not row.target} == {"for information"}


def test_some_rows_are_repeated_under_trio(report: Measured) -> None:
    again = [row for row in report.rows if row.measure.endswith("(host on trio)")]
    assert {row.key for row in again} == {"warm", "call"}


def test_rows_come_as_they_are_measured_and_go_out_as_a_table() -> None:
    found: list[list[Row]] = []
    measured = run(TINY, ["slow"], lambda name: None, found=found.append)
    assert found == [measured.rows]
    told = StringIO()
    Console(file=told, width=200).print(rows_table(measured.rows, "single things"))
    assert "20 gathered tools of 0.1 s" in told.getvalue()
    assert "targets met" in "\n".join(rows_markdown(measured.rows))


def test_a_measurement_that_fails_gets_a_row_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(bench: Bench) -> list[Row]:
        raise ExceptionGroup("of tasks", [ModuleNotFoundError("No module named 'mcp'")])

    async def measured(bench: Bench) -> list[Row]:
        return [Row(key="slow", measure="another", measured="1 ms", verdict="for information")]

    monkeypatch.setitem(MEASURES, "gateway", fails)
    monkeypatch.setitem(MEASURES, "slow", measured)
    rows = run(TINY, ["gateway", "slow"], lambda name: None).rows
    assert [(row.key, row.verdict) for row in rows] == [("gateway", "open"), ("slow", "for information")]
    assert rows[0].measured == "failed: ModuleNotFoundError: No module named 'mcp'"


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
