"""A/B tests of selectors: the same query has the same arm, effects that are there are found, and others are not."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from callgate.agent.learning import experiment as module
from callgate.agent.learning.experiment import Experiment
from callgate.agent.learning.memory import SelectionMemory
from callgate.agent.learning.selections_file import SelectionsFile
from callgate.agent.planning.selection import Selection, SelectionOutcome, ToolChoice
from callgate.agent.planning.tool_plan import DecomposedQuery, SubQuery
from callgate.errors import ConfigurationError
from callgate.tools.registry import ToolInfo

pytest.importorskip("scipy", reason="scipy is not installed")
pytestmark = pytest.mark.anyio


class Fixed:
    """Always chooses one tool."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def select(self, query: DecomposedQuery, tools: Sequence[ToolInfo]) -> Selection:
        return Selection(chain=(ToolChoice(sub_query=0, tool=self.name),), strategy=self.name)


def experiment(name: str = "rules", **options: Any) -> Experiment:
    return Experiment(name, Fixed("old"), Fixed("new"), **{"memory": SelectionMemory(), **options})


def noted(made: Experiment, query: str, success: bool, seconds: float = 1.0, strategy: str = "") -> None:
    made._memory.note(
        SelectionOutcome(
            query=query, tools=("t",), strategy=strategy or f"{made.name}:{made.arm(query)}", success=success,
            seconds=seconds,
        )
    )  # fmt: skip


def filled(made: Experiment, seed: int, rates: dict[str, float], seconds: dict[str, float] | None = None) -> None:
    """Outcomes until the experiment is finished."""
    draw, counts = random.Random(seed), {"control": 0, "treatment": 0}
    for n in range(10_000):
        if min(counts.values()) == made._samples:
            return
        arm = made.arm(query := f"question {seed} {n}")
        counts[arm] += 1
        took = draw.lognormvariate(0.0, 0.5) * (seconds or {}).get(arm, 1.0)
        noted(made, query, draw.random() < rates[arm], took)


async def test_a_query_has_the_same_arm_always_and_another_experiment_divides_differently() -> None:
    queries = [f"question {n}" for n in range(400)]
    arms = [experiment().arm(query) for query in queries]
    assert [experiment().arm(query) for query in queries] == arms
    assert 160 < arms.count("treatment") < 240
    others = [experiment("other").arm(query) for query in queries]
    assert 140 < sum(one == other for one, other in zip(arms, others, strict=True)) < 260
    tenth = [experiment(split=0.1).arm(query) for query in queries]
    assert 20 < tenth.count("treatment") < 65


async def test_the_arm_chooses_and_the_strategy_says_which_it_was() -> None:
    made = experiment()
    for n in range(20):
        text = f"question {n}"
        selection = await made.select(DecomposedQuery(query=text, sub_queries=(SubQuery(text=text),)), [])
        assert selection.strategy == f"rules:{made.arm(text)}"
        assert selection.chain[0].tool == {"control": "old", "treatment": "new"}[made.arm(text)]


@pytest.mark.parametrize(
    ("metric", "control", "treatment", "quicker", "winner"),
    [
        ("success", 0.6, 0.85, 1.0, "treatment"),
        ("success", 0.85, 0.6, 1.0, "control"),
        ("seconds", 0.9, 0.9, 0.6, "treatment"),
        ("seconds", 0.9, 0.9, 1.8, "control"),
        ("seconds", 0.0, 0.0, 1.0, None),
    ],
)
async def test_an_effect_that_is_there_is_found(
    metric: str, control: float, treatment: float, quicker: float, winner: str | None
) -> None:
    made = experiment(samples=120, metric=metric)
    filled(made, 1, {"control": control, "treatment": treatment}, {"treatment": quicker})
    report = made.report()
    assert (report.finished, report.winner) == (True, winner)
    assert min(report.control.trials, report.treatment.trials) == 120
    for arm in (report.control, report.treatment):
        assert arm.rate_interval[0] <= arm.rate <= arm.rate_interval[1]
    assert report.p_value is not None
    assert (report.p_value < 0.05) is (winner is not None)
    said = f"{winner} is better" if winner else "no difference was shown"
    assert report.words.startswith(f"rules: {said} in {metric}, p = ")


@pytest.mark.slow
async def test_where_nothing_differs_a_winner_is_told_no_more_often_than_alpha_says() -> None:
    """A/A: 200 experiments without any effect. Of 200 with 5 % each, more than 17 come once in 50 times."""
    winners = {"success": 0, "seconds": 0}
    for seed in range(200):
        for metric in ("success", "seconds"):
            made = experiment(samples=30, metric=metric)
            filled(made, seed, {"control": 0.7, "treatment": 0.7})
            winners[metric] += made.report().winner is not None
    assert winners["success"] <= 17
    assert 2 <= winners["seconds"] <= 17


async def test_before_the_end_there_is_no_test_and_what_comes_after_it_changes_nothing() -> None:
    made = experiment(samples=30)
    for n in range(20):
        noted(made, f"q{n}", made.arm(f"q{n}") == "treatment")
    report = made.report()
    assert (report.finished, report.p_value, report.winner) == (False, None, None)
    assert report.words.endswith("; nothing is tested before 30 trials in each arm")
    filled(made, 3, {"control": 0.5, "treatment": 0.5})
    before = made.report()
    assert before.finished
    for n in range(300):
        noted(made, f"later {n}", made.arm(f"later {n}") == "treatment")
    assert made.report() == before


async def test_a_query_counts_once_and_plans_of_the_other_arm_do_not() -> None:
    made = experiment(samples=50)
    for _ in range(5):
        noted(made, "again", True)
    other = "treatment" if made.arm("crossed") == "control" else "control"
    noted(made, "crossed", True, strategy=f"rules:{other}")
    noted(made, "foreign", True, strategy="somebody's")
    report = made.report()
    assert report.control.trials + report.treatment.trials == 1


async def test_trials_are_kept_with_the_selections_and_two_processes_add_to_each_other(tmp_path: Path) -> None:
    path = tmp_path / "statistics.sqlite"
    one, other, again = experiment(), experiment(), experiment()
    async with SelectionsFile(path, one._memory), SelectionsFile(path, other._memory):
        for n in range(10):
            noted(one, f"q{n}", True)
            noted(other, f"q{n + 5}", True, 2.0)
    async with SelectionsFile(path, again._memory):
        report = again.report()
    assert report.control.trials + report.treatment.trials == 15
    assert report.control.successes + report.treatment.successes == 15


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": 1.0}, "split must be above 0 and below 1, not 1.0"),
        ({"alpha": 0.0}, "alpha must be above 0"),
        ({"samples": 1}, "samples must be 2 or more, and fit into 10,000 outcomes, not 1"),
        ({"samples": 2_000, "split": 0.1}, "not 2000"),
        ({"metric": "sucess"}, "metric must be 'success' or 'seconds', not 'sucess'"),
    ],
)
async def test_options_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        experiment(**options)


async def test_without_scipy_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=r"scipy, which is not installed: pip install .*\[experiments\]'"):
        experiment()
