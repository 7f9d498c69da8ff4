"""callgate's modes whose programs and plans answer in one turn, each in its own process, as the harness asks them."""

from __future__ import annotations

import json

import anyio
import pytest

from callgate_bench.contest.seats import Seat
from callgate_bench.contestants.contestant import Turn
from callgate_bench.contestants.listed import MODES
from callgate_bench.workloads import WORKLOADS
from callgate_bench.workloads.dialects import rewrite
from callgate_bench.workloads.workload import Call

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture
def anyio_backend() -> str:
    """The harness runs on asyncio."""
    return "asyncio"


async def written(seat: Seat, workload: str, *, heard: bool) -> Turn:
    """The turn of a workload's program. `heard`: it is heard piece by piece, and its reads have ended before it is
    whole."""
    chosen = WORKLOADS[workload]
    opened = await seat.open(workload)
    await seat.ask("begin")
    assert opened.streams
    program = rewrite(next(chosen.programs()), opened.dialect, [each.__name__ for each in chosen.tools])
    call = Call(opened.tool, {opened.argument: program})
    if heard:
        arguments = json.dumps(call.arguments)
        for begin in range(0, len(arguments), 24):
            await seat.hear(arguments[begin : begin + 24])
        await anyio.sleep(1)  # each of its reads takes 0.25 s at most
    return await seat.act([call])


@pytest.mark.parametrize("workload", ["weather", "budget"])
async def test_reads_of_a_program_that_is_heard_are_done_before_it_is_whole(workload: str) -> None:
    (listed,) = [each for each in MODES if each.name == "code-fast-answers"]
    async with Seat(listed) as seat:
        late, early, again = [await written(seat, workload, heard=heard) for heard in (False, True, True)]
    for turn in (late, early, again):
        assert WORKLOADS[workload].wrong(turn.final) == ""
        assert (turn.calls, turn.concurrency) == (late.calls, late.concurrency)
    assert late.tool_seconds > 0
    assert early.tool_seconds == again.tool_seconds == 0
