"""What a hostile task tries on the patterns of routing: to keep them busy."""

from __future__ import annotations

import time

import pytest

from callgate.agent.routing.words import MOST_CHARACTERS, acts_in, items_in, signs_in

TASKS = [
    "1,", "1.", "1, ", "1 a, ", "$1", "1a", "A ", "A A, ", "A of the ", "A's, ", ", and ", "get and find ", "find and ",
    "if ", "get ", "which a ", "all a ", "the calculated ", "of the first of ", "'a ", '"a ', "[", "go and ", "until ",
]  # fmt: skip


@pytest.mark.parametrize("piece", TASKS)
def test_no_task_keeps_the_patterns_busy(piece: str) -> None:
    task = (piece * MOST_CHARACTERS)[: 2 * MOST_CHARACTERS]
    started = time.process_time()
    signs_in(task)
    acts_in(task)
    items_in(task)
    assert time.process_time() - started < 3
