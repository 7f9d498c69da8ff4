"""The comparison with real contestants in processes of their own and the real endpoint; bad ones do not spoil it."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from callgate.bench.contest.comparison import Pace, compare
from callgate.bench.contest.seats import Seat
from callgate.bench.contestants.listed import MODES, Listed
from callgate.bench.model.talks import ScriptedModel, talking
from callgate.bench.results import Cell, Results
from callgate.bench.workloads import WORKLOADS

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="processes are looked at in /proc"),
]

TESTS = Path(__file__).parent.parent
PACE = Pace(rounds=2, cell_seconds=60.0, paced=0.0)


@pytest.fixture(params=["asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """The harness itself runs on asyncio."""
    return str(request.param)


def bad(way: str) -> Listed:
    return Listed(name=way, title=way, mode="code", module="bench.misbehaving", about="behaves badly", arguments=(way,))


def mode(name: str) -> Listed:
    return next(each for each in MODES if each.name == name)


@asynccontextmanager
async def seated(listed: Sequence[Listed], answer_seconds: float = 60.0) -> AsyncIterator[list[Seat]]:
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(
                Seat(each, sys.executable, ours=each in MODES, answer_seconds=answer_seconds)
            )
            for each in listed
        ]


async def compared(
    listed: Sequence[Listed], workloads: Sequence[str] = ("monitoring",), *, answer_seconds: float = 60.0,
    context_tokens: int = 200_000,
) -> tuple[Results, list[str]]:  # fmt: skip
    results = Results(made="", sizes="", command="", machine="", load="", sandbox="")
    told: list[str] = []
    model = ScriptedModel(turn_seconds=0.0, token_seconds=0.0, context_tokens=context_tokens)
    async with talking("openai", model) as talk, seated(listed, answer_seconds) as seats:
        chosen = [WORKLOADS[name] for name in workloads]
        await compare(results, chosen, seats, talk, PACE, told.append, lambda: None)
    return results, told


def only(results: Results) -> Cell:
    (cell,) = results.cells
    return cell


async def test_the_modes_reach_the_answer_and_what_they_cost_is_counted() -> None:
    names = ("direct", "direct-parallel", "plan", "code-jail", "code-fast")
    results, told = await compared([mode(name) for name in names], ["weather"])
    cells = {cell.contestant: cell for cell in results.cells}
    assert {name: (cell.outcome, cell.reason) for name, cell in cells.items()} == dict.fromkeys(names, ("right", ""))
    assert all(len(cell.rounds) == 2 for cell in cells.values())
    turns = {name: cell.rounds[0].turns for name, cell in cells.items()}
    assert turns == {"direct": 4, "direct-parallel": 2, "plan": 2, "code-jail": 2, "code-fast": 2}
    calls = {name: cell.rounds[0].calls for name, cell in cells.items()}
    assert calls["direct"] == calls["direct-parallel"] == calls["code-jail"] == calls["code-fast"] == 3
    for cell in cells.values():
        done = cell.rounds[1]
        parts = (done.model_seconds, done.tool_seconds, done.overhead_seconds)
        assert min(parts) >= 0
        assert done.wall_seconds == pytest.approx(sum(parts))
        assert done.input_tokens > 100
        assert done.output_tokens > 10
        assert cell.peak_bytes > 10_000_000
    assert cells["direct"].rounds[0].input_tokens > cells["direct-parallel"].rounds[0].input_tokens
    assert len(results.yardstick.seconds) == 2
    assert "weather: direct, round 2 of 2" in told


async def test_what_does_not_fit_the_context_is_told_and_the_others_go_on() -> None:
    results, _ = await compared([mode("direct"), mode("code-fast")], context_tokens=600)
    direct, fast = results.cells
    assert direct.outcome == "cannot"
    assert "600" in direct.reason
    assert direct.rounds == []
    assert fast.outcome in ("right", "cannot")


async def test_a_workload_that_no_plan_can_do_says_so_for_every_planner() -> None:
    cell = only((await compared([mode("plan")], ["aggregation"]))[0])
    assert (cell.outcome, cell.reason) == ("cannot", WORKLOADS["aggregation"].why_no_plan)
    assert cell.reason


BAD = {
    "raises at once": ("failed", "RuntimeError: no such thing here"),
    "cannot at once": ("cannot", "it has no loops"),
    "exits at once": ("failed", "its process ended (status 3): ImportError: no module named peer"),
    "aborts": ("failed", "its process ended (status -6)"),
    "raises": ("failed", "ValueError: the peer's own fault"),
    "cannot": ("cannot", "it knows no classes"),
    "floods": ("failed", "an answer of more than 64 MB"),
    "gives too few texts": ("failed", "0 texts for 1 call"),
    "gives nonsense": ("failed", "what it answered is no result of a turn"),
    "speaks out of turn": ("wrong", "not in the answer"),
}
"""How each ends, and why."""


async def test_bad_contestants_get_rows_that_say_why_and_spoil_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    results, _ = await compared([*map(bad, BAD), mode("code-fast")])
    *cells, other = results.cells
    assert {cell.contestant: cell.outcome for cell in cells} == {way: outcome for way, (outcome, _) in BAD.items()}
    for cell in cells:
        assert BAD[cell.contestant][1] in cell.reason
    assert (other.outcome, len(other.rounds)) == ("right", 2)
    assert not _of_the_misbehaving()


@pytest.mark.parametrize("way", ["hangs", "hangs for good", "leaves a child and hangs"])
async def test_a_contestant_that_hangs_is_ended_with_all_it_started(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    results, _ = await compared([bad(way)], ["monitoring", "weather"], answer_seconds=3.0)
    assert [(cell.outcome, cell.reason) for cell in results.cells] == [("failed", "no answer within 3 s")] * 2
    assert not _of_the_misbehaving()


def _runs(pid: int, what: str) -> bool:
    try:
        return what.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _of_the_misbehaving() -> list[int]:
    """Processes that are a misbehaving contestant, or that it has started."""
    pids = [int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit()]
    return [pid for pid in pids if _runs(pid, "misbehaving")]
