"""A process that hangs, or ends, is told with the number that it was at; everything else is done."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

import pytest

from replays.workers import Done, Hung, Tell, results

HANGS, ENDS = 3, 7


def doubles(numbers: Sequence[int], tell: Tell, done: Done[int]) -> None:
    for number in numbers:
        tell(number, "doubling")
        if number == HANGS:
            signal.pause()
        if number == ENDS:
            os._exit(4)
        done(number, 2 * number)


@pytest.mark.slow
def test_everything_is_done_but_for_what_hangs(capfd: pytest.CaptureFixture[str]) -> None:
    found = list(results(doubles, [range(6), range(6, 12), range(12, 14)], 2, quiet_seconds=5))
    done = sorted(each for each in found if isinstance(each, int))
    assert done == [2 * number for number in range(14) if number not in (HANGS, ENDS)]
    hung = {number: each.why for each in found if isinstance(each, Hung) for number in each.at}
    assert hung == {HANGS: "its process did nothing for 5 s", ENDS: "its process ended with 4"}
    assert "in doubles" in capfd.readouterr().err  # its stack


def test_a_caller_that_stops_leaves_no_process() -> None:
    found = results(doubles, [range(4)] * 2, 2, quiet_seconds=60)
    assert next(found) == 0
    found.close()  # type: ignore[attr-defined]
