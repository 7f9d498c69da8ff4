"""Runs survive power failures: 15 moments, the same by seed. See `durable.kill.power`."""

from __future__ import annotations

from pathlib import Path

import pytest

from durable.kill import power
from durable.kill.campaigns import campaign

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_power_failures_lose_and_repeat_nothing_either(undisturbed_runs: Path) -> None:
    if not power.can_fail():
        pytest.skip("there is no C compiler: what was synced cannot be noted")
    code, said = campaign(
        "--moments", "15", "--power", "--programs", "plan_charges,fast_charges,fast_alike", shared=undisturbed_runs
    )
    assert code == 0, said
