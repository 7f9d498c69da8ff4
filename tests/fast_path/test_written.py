"""Generated programs that come in random pieces, and so begin while they are written, come to the same as in the
sandbox: see `paths.differences` for what is compared. 2,000 programs, the same in every run, graphs and others.

For more: ``PYTHONPATH=tests python -m fast_path --path written --help``.
"""

from __future__ import annotations

import random

import pytest

from fast_path.paths import Paths
from fast_path.programs import THEMES, write

EACH = 182
"""Programs of each theme."""
MOST_FOR_NOTHING = 0.1
"""Of all calls, those that began early and that the program did not make; 0.013 over all themes."""
LEAST_EARLY = 0.2
"""Of all calls, those that began early: else this would show nothing; 0.46 over all themes."""


@pytest.mark.slow
def test_a_program_in_pieces_comes_to_the_same_and_few_calls_are_for_nothing(paths: Paths) -> None:
    calls = early = for_nothing = 0
    for theme in THEMES:
        for number in range(EACH):
            program = write(random.Random(f"{theme} {number}").randrange, theme)
            outcome, _, found = paths.compare(program, "written")
            assert not found, "\n".join([program.source, f"inputs: {program.inputs}", *found])
            began = [*outcome.result.calls, *outcome.result.speculative]
            calls += len(began)
            early += sum(call.early for call in began)
            for_nothing += len(outcome.result.speculative)
    assert for_nothing <= MOST_FOR_NOTHING * calls, (for_nothing, calls)
    assert early >= LEAST_EARLY * calls, (early, calls)
