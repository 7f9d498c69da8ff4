"""Rows about plans: what is judged, and what is said of a peer that stops."""

from __future__ import annotations

import sys

import anyio
import pytest

from callgate.bench.peers.process import LangGraphPeer, PeerFailed, PeerProcess, TasksPeer
from callgate.bench.rows import Row
from callgate.bench.singles.measures.plans import _Peer, _row, _Series
from callgate.bench.singles.shapes import SHAPES, Shape


def row_of(large: float, small: float = 5e-6, name: Shape = "chain") -> Row:
    ours = _Series("ours", {10: [9e-6], 1000: [small], 100_000: [large, large]})
    return _row("engine", "a step", name, ours, [], 10e-6, "")


def test_a_row_is_met_when_it_is_cheap_enough_and_linear() -> None:
    assert (row_of(7e-6).verdict, row_of(11e-6, 9e-6).verdict, row_of(9e-6, 5e-6).verdict) == (
        "met",
        "missed",
        "missed",
    )


def test_the_row_says_what_it_holds_against_what() -> None:
    row = row_of(7e-6)
    assert row.target == "≤ 10 µs at 100,000 steps, and linear: ≤ 1.5 × that at 1,000"
    assert row.measured == "7 µs (7 µs to 7 µs) at 100,000 steps, 1.40 × that at 1,000; 5 µs at 1,000, 9 µs at 10"


def test_wide_plans_are_for_information() -> None:
    assert (row_of(99.0, name="wide").target, row_of(99.0, name="wide").verdict) == ("", "for information")


def test_a_peer_that_is_not_installed_says_so_in_its_row() -> None:
    async def told() -> str:
        async with PeerProcess("Nobody", "callgate.bench.peers.tasks", "no-such-package") as process:
            peer = _Peer(process, 1.0)
            await peer.run("chain", 10)
            return peer.series.told()

    assert anyio.run(told) == "Nobody: at 10 steps: no-such-package is not installed"


def test_a_peer_that_would_take_too_long_is_not_asked() -> None:
    async def told() -> str:
        async with TasksPeer() as process:
            peer = _Peer(process, 0.0)
            for steps in (10, 1000):
                await peer.run("chain", steps)
            assert list(peer.series.by_size) == [10]
            return peer.series.stopped

    assert anyio.run(told).startswith("not tried at 1,000: 10 steps took ")


@pytest.mark.skipif(sys.platform == "win32", reason="a killed process has another status there")
def test_a_peer_that_does_not_answer_in_time_is_given_up() -> None:
    async def ask() -> list[str]:
        reasons = []
        async with PeerProcess("Slow", "callgate.bench.peers.tasks", answer_seconds=0.001) as process:
            for _ in range(2):
                with pytest.raises(PeerFailed) as failure:
                    await process.ask("run", name="chain", steps=10)
                reasons.append(str(failure.value))
        return reasons

    assert anyio.run(ask) == ["no answer within 0.001 s"] * 2


@pytest.mark.parametrize("kind", [TasksPeer, LangGraphPeer])
def test_peers_run_every_shape(kind: type[TasksPeer | LangGraphPeer]) -> None:
    if kind is LangGraphPeer:
        pytest.importorskip("langgraph", reason="langgraph is not installed")

    async def ask() -> list[float]:
        async with kind() as process:
            return [(await process.ask("run", name=name, steps=70))["seconds"] for name in SHAPES]

    assert all(seconds > 0 for seconds in anyio.run(ask))
