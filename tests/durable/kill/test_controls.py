"""The harness finds each fault of a journal that was broken on purpose: see `broken`."""

from __future__ import annotations

import pytest

from durable.kill import power
from durable.kill.broken import BREAKS
from durable.kill.campaigns import campaign

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SHOWN_BY = {
    "order-dropped": "guest_as_completed,guest_queue",
    "order-shuffled": "guest_as_completed,guest_queue",
    "started-late": "plan_charges,fast_alike",
    "outcome-late": "guest_as_completed,guest_catches",
    "unsynced": "plan_charges,fast_charges",
}
"""Programs in which each fault can do harm."""
MOMENTS = 25


@pytest.mark.parametrize("breaks", BREAKS)
def test_a_journal_that_is_broken_on_purpose_is_found_out(breaks: str) -> None:
    if breaks == "unsynced" and not power.can_fail():
        pytest.skip("there is no C compiler: what was synced cannot be noted")
    code, said = campaign("--moments", str(MOMENTS), "--breaks", breaks, "--programs", SHOWN_BY[breaks])
    assert code == 0, f"nothing was found in {MOMENTS} kills:\n{said}"
    assert "Traceback" not in said


def test_power_failures_lose_and_repeat_nothing_either() -> None:
    if not power.can_fail():
        pytest.skip("there is no C compiler: what was synced cannot be noted")
    code, said = campaign("--moments", "15", "--power", "--programs", "plan_charges,fast_charges,fast_alike")
    assert code == 0, said
