"""Programs that look for a way to tell two runs apart find none; what docs/durable.md calls open is open."""

from __future__ import annotations

import sys

import anyio
import pytest

from callgate import tool
from callgate.runtime.replay.check import replay_check
from docs.pages import rows
from replays.attacks import ATTACKS, OPEN
from replays.programs import Program
from replays.recording import Recorder
from runtime.conftest import opened

pytestmark = pytest.mark.anyio
_TRIES = 40
"""Of what is open, one of so many replays differs."""


@tool
async def count(name: str) -> int:
    """Count."""
    return 1


@pytest.mark.sampled
@pytest.mark.parametrize("name", ATTACKS)
async def test_an_attack_on_replay_finds_no_difference(name: str, recorder: Recorder) -> None:
    checked = await recorder.check(Program(ATTACKS[name]), 1)
    assert checked.faults == []
    assert checked.ended in ("ended well", "failed")


def test_the_page_has_all_that_is_open() -> None:
    told = [cells[0] for cells in rows("durable", "What is not made deterministic")]
    assert told == [*OPEN, "`hash(None)` on Python 3.11, and so the order of a set with `None`"]


@pytest.mark.sampled
@pytest.mark.parametrize("name", OPEN)
async def test_what_the_page_calls_open_is_not_always_the_same(name: str, recorder: Recorder) -> None:
    async with opened(count, pool_size=2) as runtime:
        for _ in range(_TRIES):
            if (await replay_check(runtime, OPEN[name])).difference:
                return
            if (
                await recorder.check(Program(OPEN[name]), 1)
            ).faults:  # in another zygote, but takes addresses for equal
                return
    pytest.fail("it was the same in all replays: say so on the page")


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="a constant since Python 3.12")
async def test_the_hash_of_none_is_an_address_on_python_3_11(recorder: Recorder) -> None:
    command = [sys.executable, "-c", "print(hash(None))"]
    if len({(await anyio.run_process(command)).stdout for _ in range(4)}) == 1:
        pytest.skip("this Python always lies at the same addresses")
    assert (await recorder.check(Program("print(hash(None))"), 1)).faults
