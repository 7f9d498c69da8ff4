"""The harness finds each fault of a journal that was broken on purpose: see `broken`."""

from __future__ import annotations

from pathlib import Path

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
def test_a_journal_that_is_broken_on_purpose_is_found_out(breaks: str, undisturbed_runs: Path) -> None:
    if breaks == "unsynced" and not power.can_fail():
        pytest.skip("there is no C compiler: what was synced cannot be noted")
    code, said = campaign(
        "--moments", str(MOMENTS), "--breaks", breaks, "--programs", SHOWN_BY[breaks], shared=undisturbed_runs
    )
    assert code == 0, f"nothing was found in {MOMENTS} kills:\n{said}"
    assert "Traceback" not in said
