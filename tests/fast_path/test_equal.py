"""Generated programs come to the same on the fast path as in the sandbox: see `programs` for what is generated, and
`paths.differences` for what is compared.

More than 1,000 different programs that take the fast path, the same in every run, and some of those that do not. For
more of both: ``PYTHONPATH=tests python -m fast_path --help``.
"""

from __future__ import annotations

import collections

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from fast_path.paths import Paths
from fast_path.programs import THEMES, Program, programs

EACH = 95
"""At least so many different programs of each theme take the fast path to their end."""
AT_A_TIME = 150
"""So many are drawn before it is asked whether these are enough; hypothesis draws many a program more than once."""
TO_THE_END = 0.7
"""Least share of the graphs that take the fast path to their end. The shares lie between 0.79 and 0.98: hypothesis
draws other programs from the same seed where other test modules are imported, since it takes constants from them."""
OTHERS = 8
"""Of the programs that are no graph, and so the sandbox's on both paths, one of so many is run."""
ACCEPTED = {"outside": 0.3}
"""The least share of programs that are graphs; of the other themes it is half. A generator of programs that are none
would show nothing."""


@pytest.mark.slow
@pytest.mark.parametrize("theme", THEMES)
def test_a_generated_program_comes_to_the_same_on_both_paths(theme: str, paths: Paths) -> None:
    equal: dict[str, str] = {}

    @settings(
        max_examples=AT_A_TIME,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(programs(theme))
    def hold(program: Program) -> None:
        if program.source in equal:
            return
        graph = paths.is_graph(program)
        if not graph and len(equal) % OTHERS:
            equal[program.source] = "no graph"
            return
        fast, _, found = paths.compare(program)
        assert not found, "\n".join([program.source, f"inputs: {program.inputs}", *found])
        assert graph or fast.result.path == "sandbox"
        equal[program.source] = fast.result.path if graph else "no graph"

    counts: collections.Counter[str] = collections.Counter()
    for block in range(4 * EACH):
        seed(f"{theme} {block}")(hold)()
        counts = collections.Counter(equal.values())
        if counts["plan"] >= EACH:
            break
    graphs = counts["plan"] + counts["sandbox"]
    assert counts["plan"] >= EACH, counts
    assert graphs >= ACCEPTED.get(theme, 0.5) * len(equal), counts
    assert counts["plan"] >= TO_THE_END * graphs, counts
