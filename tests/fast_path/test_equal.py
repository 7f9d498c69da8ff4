"""Generated programs come to the same on the fast path as in the sandbox: see `programs` for what is generated, and
`paths.differences` for what is compared.

200 different programs of each theme, the same in every run. For more: ``PYTHONPATH=tests python -m fast_path --help``.
"""

from __future__ import annotations

import collections

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from fast_path.paths import Paths
from fast_path.programs import THEMES, Program, programs

EACH = 200
"""So many different programs of each theme."""
TRIES = 5
"""Hypothesis draws many a program more than once; those are not run again."""
ACCEPTED = {"outside": 0.2}
"""The least share of programs that are graphs; of the other themes it is half. A generator of programs that are none
would show nothing."""


@pytest.mark.slow
@pytest.mark.parametrize("theme", THEMES)
def test_a_generated_program_comes_to_the_same_on_both_paths(theme: str, paths: Paths) -> None:
    equal: dict[str, str] = {}
    failures: list[Program] = []

    @settings(
        max_examples=TRIES * EACH,
        derandomize=True,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(programs(theme))
    def hold(program: Program) -> None:
        if program.source in equal or (len(equal) >= EACH and not failures):
            return
        graph = paths.is_graph(program)
        if not graph and len(equal) % 4:  # on both paths it is the sandbox's
            equal[program.source] = "no graph"
            return
        fast, _, found = paths.compare(program)
        if found:
            failures.append(program)
        assert not found, "\n".join([program.source, f"inputs: {program.inputs}", *found])
        assert graph or fast.result.path == "sandbox"
        equal[program.source] = fast.result.path if graph else "no graph"

    hold()
    counts = collections.Counter(equal.values())
    assert len(equal) >= EACH, counts
    assert counts["no graph"] <= (1 - ACCEPTED.get(theme, 0.5)) * len(equal), counts
    assert counts["plan"] >= 0.8 * (len(equal) - counts["no graph"]), counts
