"""The comparison with real contestants in processes of their own and the real endpoint; bad ones do not spoil it."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from callgate_bench.contest.comparison import Pace, compare
from callgate_bench.contest.seats import Seat
from callgate_bench.contestants.listed import MODES, Listed
from callgate_bench.model.talks import ScriptedModel, talking
from callgate_bench.results import Cell, Results
from callgate_bench.workloads import WORKLOADS
from callgate_bench.workloads.workload import Call

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


@pytest.fixture(autouse=True)
def ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that these tests have started are known by it; others may run the same ones at the same time."""
    monkeypatch.setenv("OF_THE_TESTS", str(os.getpid()))


def bad(way: str) -> Listed:
    return Listed(name=way, title=way, mode="code", module="bench.misbehaving", about="behaves badly")


def mode(name: str) -> Listed:
    return next(each for each in MODES if each.name == name)


@asynccontextmanager
async def seated(listed: Sequence[Listed], answer_seconds: float = 60.0) -> AsyncIterator[list[Seat]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(Seat(each, answer_seconds=answer_seconds)) for each in listed]


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
    assert cells["direct"].rounds[0].input_tokens > cells["direct-parallel"].rounds[0].input_tokens
    assert len(results.yardstick.seconds) == 2
    assert "weather: direct, round 2 of 2" in told


class Noting(Seat):
    """A seat that notes how it was opened and paced, and the programs that it was handed."""

    asked: list[str]
    programs: list[str]

    async def ask(self, what: str, **details: Any) -> dict[str, Any]:
        if what in ("open", "pace"):
            scripted = f" {details['scripted']}" if what == "open" else ""
            self.asked = [*getattr(self, "asked", []), f"{what} {details['paced']:g}{scripted}"]
        if what == "turn":
            programs = [call["arguments"]["code"] for call in details["calls"]]
            self.programs = [*getattr(self, "programs", []), *programs]
        return await super().ask(what, **details)


async def test_a_contestant_is_opened_once_for_a_workload_and_sees_a_new_program_each_round() -> None:
    results = Results(made="", sizes="", command="", machine="", load="", sandbox="")
    model = ScriptedModel(turn_seconds=0.0, token_seconds=0.0)
    async with talking("openai", model) as talk, Noting(mode("code-fast")) as seat:
        pace = Pace(rounds=2, cell_seconds=60.0, paced=0.5)
        await compare(results, [WORKLOADS["monitoring"]], [seat], talk, pace, _nothing, lambda: None)
        assert seat.asked == ["open 0 True", "pace 0.5"]
        for done in only(results).rounds:
            assert done.tool_seconds >= 0.5 * (0.06 + 0.08 + 0.15)
        assert len(set(seat.programs)) == 3
        assert all(each.startswith("# conversation 000") for each in seat.programs)
        unpaid = Pace(rounds=1, cell_seconds=60.0, scripted=False, paced=0.25)
        await compare(results, [WORKLOADS["weather"]], [seat], talk, unpaid, _nothing, lambda: None)
        assert seat.asked[2:] == ["open 0.25 False"]
        assert results.cells[1].outcome == "right"


async def test_whose_words_the_model_got_is_in_the_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    async with seated([mode("plan"), bad("borrows words")]) as seats:
        for seat in seats:
            await seat.open("monitoring", 0.0)
        assert [seat.entry().own_words for seat in seats] == [True, False]


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
    assert not cell.tried


BAD = {
    "raises at once": ("failed", "RuntimeError: no such thing here"),
    "drives the terminal": ("failed", "RuntimeError: ?[2J?]0;owned? and more xxx"),
    "cannot at once": ("cannot", "it has no loops"),
    "exits at once": ("failed", "its process ended (status 3): ImportError: no module named peer"),
    "opens with nonsense": ("failed", "what it opened with is nothing for a model"),
    "shows a tool that is none": ("failed", "schema must be a JSON Schema"),
    "asks for a form of its own": ("failed", "no such form: 'poem'"),
    "searches with nonsense": ("failed", "what it opened with is nothing for a model"),
    "aborts": ("failed", "its process ended (status -6)"),
    "leaves a child and aborts": ("failed", "its process ended (status -6)"),
    "leaves a child": ("wrong", "the last line of the answer is not"),
    "raises": ("failed", "ValueError: the peer's own fault"),
    "cannot": ("cannot", "it knows no classes"),
    "floods": ("failed", "an answer of more than 64 MB"),
    "gives too few texts": ("failed", "0 texts for 1 call"),
    "gives nonsense": ("failed", "its answer is not a result of a turn"),
    "gives no texts": ("failed", "its answer is not a result of a turn"),
    "takes less than no time": ("failed", "seconds that are none"),
    "says a number": ("failed", "its output is not an answer"),
    "says something deep": ("failed", "its output is not an answer"),
    "speaks out of turn": ("wrong", "the last line of the answer is not"),
    "reads what is not for it": ("wrong", "the last line of the answer is not"),
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


async def test_one_that_dies_after_its_answer_is_begun_again_for_the_next_workload(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    async with seated([bad("aborts afterwards")]) as (seat,):
        await seat.open("monitoring")
        pid = seat.pid
        await seat.act([Call("run", {"code": ""})])
        await _until(lambda: seat.ended)
        await seat.open("weather")
        assert seat.pid != pid


async def test_who_is_interrupted_twice_does_not_wait_for_a_peer_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    opened = anyio.Event()

    async def hang() -> None:
        async with seated([bad("hangs for good")]) as (seat,):
            await seat.open("monitoring")
            opened.set()
            await seat.act([Call("run", {"code": ""})])

    run = asyncio.create_task(hang())
    await opened.wait()
    await anyio.sleep(0.1)  # it is in its turn
    with anyio.fail_after(5):
        for _ in range(2):
            run.cancel()  # as `asyncio.run` does on Ctrl-C: no scope shields from it
            await anyio.sleep(0.1)
        with pytest.raises(asyncio.CancelledError):
            await run
    assert not _of_the_misbehaving()


_HARNESS = """
import anyio, sys
from callgate_bench.contest.process import PeerProcess
async def main():
    async with PeerProcess("bench.misbehaving", ["leaves a child and hangs"]) as peer:
        await peer.ask("open", workload="weather")
        await peer.ask("turn", calls=[])
anyio.run(main)
"""


async def test_a_harness_that_is_killed_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    with anyio.fail_after(30):
        async with await anyio.open_process([sys.executable, "-c", _HARNESS], stderr=None) as harness:
            try:
                await _until(
                    lambda: len(_of_the_misbehaving()) == 3
                )  # the harness, whose text has the word, peer, child
            finally:
                harness.kill()
        await _until(lambda: not _of_the_misbehaving())


async def _until(so: Callable[[], bool]) -> None:
    with anyio.fail_after(20):
        while not so():  # noqa: ASYNC110 (nobody tells)
            await anyio.sleep(0.01)


def _nothing(told: str) -> None:
    assert told


def _processes() -> list[int]:
    return [int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit()]


def _runs(pid: int, what: str) -> bool:
    try:
        return what.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _of_the_misbehaving() -> list[int]:
    """Processes that are a misbehaving contestant, or that it has started."""
    return [pid for pid in _processes() if _runs(pid, "misbehaving") and _is_ours(pid)]


def _is_ours(pid: int) -> bool:
    try:
        return f"OF_THE_TESTS={os.getpid()}\0".encode() in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
