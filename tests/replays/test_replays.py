"""Generated programs do the same again, wherever their history is cut off: see `recording`. And the recorder is held to
find what a broken history does.

For more programs: ``PYTHONPATH=tests python -m replays --help``; `make soak` runs 20,000.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from callgate.runtime.replay.history import History
from replays import recording
from replays.campaign import checked
from replays.programs import THEMES, Program
from replays.recording import Recorder, Trace, differences

pytestmark = pytest.mark.anyio
_ENDED = 0.6
"""Least share of the programs that end well; the share is 0.7."""

IN_ORDER = """
import asyncio, random, time
async def work(i):
    await asyncio.sleep(i % 2 / 1000)
    return i, await count('same')
for each in asyncio.as_completed([work(i) for i in range(4)]):
    print(await each, await read(1), time.time(), random.random())
"""
"""Its calls have the same arguments, and each another result."""


@pytest.mark.parametrize(
    "numbers", [range(16), *(pytest.param(range(n, n + 60), marks=pytest.mark.slow) for n in range(16, 316, 60))]
)
async def test_generated_programs_do_the_same_again_behind_every_cut(numbers: range, recorder: Recorder) -> None:
    found = await checked(recorder, 2, THEMES, numbers)
    faults = [(each.program.source, each.faults) for each in found if each.faults]
    assert not faults, f"{faults[0]}; python -m replays --seed 2 makes it smaller"
    assert sum(each.ended == "ended well" for each in found) >= _ENDED * len(found)
    assert sum(each.events for each in found) >= 3 * len(found)


async def _replayed(recorder: Recorder, change: str = "") -> tuple[Trace, Trace]:
    """A recorded program, and its replay with a changed history."""
    recorded = await recorder.run(Program(IN_ORDER), History(b"seed" * 8, 1_700_000_000.0), "record", new=True)
    events = list(recorded.history.events)
    answers = [place for place, event in enumerate(events) if event.tool == "count"]
    first, last = answers[0], answers[-1]
    if change == "order":
        one, other = events[first], events[last]
        events[first], events[last] = replace(other, time=one.time), replace(one, time=other.time)
    elif change == "answer":
        events[first] = replace(events[first], outcome="99")
    elif change == "time":
        events[last:] = [replace(event, time=event.time + 1) for event in events[last:]]
    elif change == "left out":
        del events[first]
    elif change == "arguments":
        events[first] = replace(events[first], arguments='{"name":"other"}')
    seed = b"else" * 8 if change == "seed" else recorded.history.seed
    return recorded, await recorder.run(Program(IN_ORDER), History(seed, 1_700_000_000.0, tuple(events)), "replay")


@pytest.mark.parametrize("change", ["order", "answer", "time", "seed", "left out", "arguments"])
async def test_a_history_that_is_not_the_recorded_one_is_found(change: str, recorder: Recorder) -> None:
    recorded, again = await _replayed(recorder, change)
    assert recorded.result.ok
    assert differences(recorded, again)


async def test_the_recorded_history_itself_makes_no_difference(recorder: Recorder) -> None:
    assert differences(*await _replayed(recorder)) == []


async def test_a_call_with_other_arguments_ends_the_replay_before_anything_is_called(recorder: Recorder) -> None:
    _, again = await _replayed(recorder, "arguments")
    assert again.result.error is not None
    assert again.result.error.kind == "ReplayDiverged"
    assert not again.live


async def test_a_run_that_does_not_end_is_a_fault_of_its_program(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "RUN_SECONDS", 0.5)
    checked = await recorder.check(Program("await count('a')\nwhile True: pass"), 1)
    assert checked.ended == "hangs"
    assert checked.faults == [
        "record 1: hangs: it did not end in 0.5 s, with 1 events, 1 calls, 0 answers that it has not asked for, "
        "0 calls that wait for the conductor; the program does not wait for an event"
    ]
