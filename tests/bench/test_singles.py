"""All single measures with counts so small that their figures mean nothing: every target has a row."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from callgate_bench.contest.process import PeerFailed, PeerProcess
from callgate_bench.figures import Row
from callgate_bench.singles.bench import CALLS, TINY, Bench, beside, of_command
from callgate_bench.singles.measures import MEASURES, run
from callgate_bench.singles.shapes import chain, layers, longest
from sandbox.docker.images import have_engine_and_image

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the jail needs Linux")
MISSING = {"search": "toolsearch", "docker": "docker", "sandboxes": "this sandbox does not work"}
"""What may not be there, by the measure that needs it."""


def measured(*names: str, calls: Path = CALLS, packages: Mapping[str, str] | None = None) -> list[Row]:
    rows: list[Row] = []

    async def measure() -> None:
        await run(TINY, names, lambda name: None, rows.extend, calls=calls, packages=packages)

    anyio.run(measure)
    return rows


@pytest.mark.slow
@pytest.mark.parametrize("name", MEASURES)
def test_every_measure_gives_rows_that_are_held_against_a_target(name: str) -> None:
    if name in ("docker", "sandboxes"):
        anyio.run(have_engine_and_image)
    rows = measured(name)
    assert {row.key for row in rows} == {name}
    for row in rows:
        assert not row.measured.startswith("failed"), row.measured
        if row.measured.startswith("not measured"):
            assert MISSING[name] in row.measured.lower()
            continue
        assert row.target
        assert row.numbers
        assert row.verdict in ("met", "missed", "open")


def test_a_measure_that_fails_gets_a_row_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(bench: Bench) -> list[Row]:
        raise ExceptionGroup("of tasks", [ModuleNotFoundError("No module named 'mcp'")])

    async def goes_on(bench: Bench) -> list[Row]:
        return [Row(key="slow", measure="another", measured="1 ms")]

    monkeypatch.setitem(MEASURES, "call", fails)
    monkeypatch.setitem(MEASURES, "slow", goes_on)
    rows = measured("call", "slow")
    assert [(row.key, row.verdict) for row in rows] == [("call", "open"), ("slow", "for information")]
    assert rows[0].measured == "failed: ModuleNotFoundError: No module named 'mcp'"


def test_what_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    search, docker = measured("search", "docker", calls=tmp_path / "calls")
    assert search.measured == f"not measured: no tools and queries in {tmp_path / 'toolsearch'}"
    assert docker.measured.startswith("not measured: ")
    assert "/nowhere/docker.sock" in docker.measured


async def _turns(theirs: list[float | Exception]) -> Row:
    async def ours() -> list[float]:
        return [0.02]

    async def other() -> list[float]:
        each = theirs.pop(0)
        if isinstance(each, Exception):
            raise each
        return [each]

    return await beside("it", "a thing", 3, ours, "the peer", other, most=0.5)


@pytest.mark.parametrize(
    ("theirs", "verdict", "words"),
    [
        ([0.1, 0.1, 0.1], "met", "the peer: 100 ms"),
        ([0.03, 0.03, 0.03], "missed", "the peer: 30 ms"),
        ([0.1, PeerFailed("it is ill")], "met", "it stopped: it is ill"),
        ([PeerFailed("it is not installed")], "open", "the peer: it is not installed"),
    ],
)
def test_both_sides_take_turns_until_the_peer_fails(theirs: list[Any], verdict: str, words: str) -> None:
    row = anyio.run(_turns, theirs)
    assert row.verdict == verdict
    assert words in row.peer
    assert row.numbers["ours"]["count"] == 3


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("no-such-command",), "no-such-command is not installed"),
        ((sys.executable, "-c", "print(3)"), "status 0"),
        ((sys.executable, "-c", "import sys; sys.exit('no namespaces here')"), "no namespaces here"),
    ],
)
def test_a_command_that_does_not_print_2_says_why(command: tuple[str, ...], words: str) -> None:
    with pytest.raises(PeerFailed, match=words):
        anyio.run(of_command, command)
    assert anyio.run(of_command, (sys.executable, "-c", "print(1 + 1)"))[0] > 0


@pytest.mark.slow
def test_a_peer_that_cannot_do_what_it_is_asked_goes_on_and_one_that_dies_does_not() -> None:
    pytest.importorskip("pydantic_monty", reason="pydantic-monty is not installed")

    async def ask() -> None:
        async with PeerProcess("callgate_bench.contestants.monty") as peer:
            with pytest.raises(PeerFailed, match="ZeroDivisionError"):
                await peer.ask("measure", code="1 / 0")
            answer = await peer.ask("measure", code="for n in range(3):\n    await tick(n=n)\n")
            assert len(answer["round_trips"]) == 2
            assert peer._process is not None
            peer._process.kill()
            for _ in range(2):
                with pytest.raises(PeerFailed, match="ended"):
                    await peer.ask("measure", code="1 + 1")

    anyio.run(ask)


def test_every_step_of_the_graphs_needs_only_steps_before_it() -> None:
    needs = layers(1000)
    assert needs == layers(1000)
    assert {len(needed) for needed in needs} == {0, 1, 2, 3}
    assert all(need < step for step, needed in enumerate(needs) for need in needed)
    assert 1000 / 50 <= longest(needs) <= 1000 / 10
    assert longest([(), (), (0, 1), (1,)], [1.0, 5.0, 2.0, 4.0]) == 9.0
    assert [step["tool"] for step in chain(3)["steps"]] == ["give", "keep", "keep"]
