"""Steps of a plan that is still being written: which are handed on, and which wait for the rest."""

from __future__ import annotations

import json
from typing import Any

import pytest

from callgate.limits import Limits
from callgate.plan.arriving import ArrivingPlan
from callgate.runtime.plans.run import PlanRun
from plan.plans import PLANS, step


def handed_on(*steps: dict[str, Any]) -> list[tuple[str | None, bool]]:
    """The id of each step that arrives, None where it is not handed on; and whether it is held back."""
    arriving = ArrivingPlan(PlanRun(PLANS, Limits()).offering, Limits())
    found = arriving.receive(json.dumps({"steps": steps}))
    return [(None if each.step is None else each.step.id, each.held) for each in found]


def test_steps_are_handed_on_as_they_are_complete_and_those_with_side_effects_are_held() -> None:
    assert handed_on(step("a"), step("b", "give"), step("c", after=["a", "b"])) == [
        ("a", False), ("b", True), ("c", False),
    ]  # fmt: skip


@pytest.mark.parametrize("waits", [{"after": ["x"]}, {"execution_mode": "sequential"}, {"depends_on": ["x"]}], ids=str)
def test_what_waits_for_a_step_that_is_not_complete_is_not_handed_on(waits: dict[str, Any]) -> None:
    later = step("x", arguments={"x": "$ref:end"})
    assert handed_on(later, step("y", **waits), step("z", after=["y"]), step("end")) == [
        (None, True), (None, True), (None, True), ("end", False),
    ]  # fmt: skip


@pytest.mark.parametrize(("levels", "expected"), [(50, ["a"]), (200, [])])
def test_nothing_behind_what_is_nested_too_deeply_is_handed_on(levels: int, expected: list[str]) -> None:
    arriving = ArrivingPlan(PlanRun(PLANS, Limits()).offering, Limits())
    text = '{"goal": ' + "[" * levels + "]" * levels + ', "steps": [' + json.dumps(step("a")) + ", "
    assert [each.step.id for each in arriving.receive(text) if each.step is not None] == expected
