"""Runs of programs in a guest survive SIGKILL: 25 moments, the same by seed. See `durable.kill`."""

from __future__ import annotations

from pathlib import Path

import pytest

from durable.kill.campaigns import campaign
from durable.kill.programs import PROGRAMS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_programs_lose_and_repeat_nothing_when_they_are_killed(undisturbed_runs: Path) -> None:
    names = ",".join([name for name, program in PROGRAMS.items() if program.path in ("both paths", "guest")][::2])
    code, said = campaign("--moments", "25", "--seed", "1", "--programs", names, shared=undisturbed_runs)
    assert code == 0, said
