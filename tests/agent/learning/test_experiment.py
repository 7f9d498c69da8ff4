"""A/B tests of selectors: the same query has the same arm, effects that are there are found, and others are not."""

from __future__ import annotations

import contextlib
import random
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from callgate.agent.learning import tests_of_difference
from callgate.agent.learning.experiment import Experiment
from callgate.agent.learning.memory import SelectionMemory
from callgate.agent.planning.outcome import SelectionOutcome
from callgate.agent.planning.tool_plan import DecomposedQuery, Selection, SubQuery, ToolChoice
from callgate.errors import ConfigurationError, ModelUnavailable
from callgate.tools.registry import ToolInfo

pytest.importorskip("scipy", reason="scipy is not installed")
pytestmark = pytest.mark.anyio


class Fixed:
    """Always chooses one tool."""

    def __init__(self, name: str, tool: str = "", error: Exception | None = None, seconds: float = 0.0) -> None:
        self.name = name
        self.tool = tool or name
        self.error = error
        self.seconds = seconds

    async def select(self, query: DecomposedQuery, tools: Sequence[ToolInfo]) -> Selection:
        await anyio.sleep(self.seconds)
        if self.error is not None:
            raise self.error
        return Selection(chain=(ToolChoice(sub_query=0, tool=self.tool),), strategy=self.name)


def asked(text: str) -> DecomposedQuery:
    return DecomposedQuery(query=text, sub_queries=(SubQuery(text=text),))


def experiment(**options: Any) -> Experiment:
    return Experiment("rules", Fixed("old"), Fixed("new"), **options)


def noted(made: Experiment, query: str, success: bool, seconds: float = 1.0) -> None:
    strategy = f"{made.name}:{made.arm(query)}"
    made.note(SelectionOutcome(query=query, tools=("t",), strategy=strategy, success=success, seconds=seconds))


def filled(made: Experiment, seed: int, rates: dict[str, float], seconds: dict[str, float] | None = None) -> None:
    """Outcomes until the experiment is finished."""
    draw, n = random.Random(seed), 0
    while not made._trials.ignored["surplus"]:
        n += 1
        arm = made.arm(query := f"question {seed} {n}")
        took = draw.lognormvariate(0.0, 0.5) * (seconds or {}).get(arm, 1.0)
        noted(made, query, draw.random() < rates[arm], took)


async def test_a_query_has_the_same_arm_always_and_another_experiment_divides_differently() -> None:
    queries = [f"question {n}" for n in range(400)]
    arms = [experiment().arm(query) for query in queries]
    assert [experiment().arm(query) for query in queries] == arms
    assert 160 < arms.count("treatment") < 240
    others = [Experiment("other", Fixed("old"), Fixed("new")).arm(query) for query in queries]
    assert 140 < sum(one == other for one, other in zip(arms, others, strict=True)) < 260
    tenth = [experiment(split=0.1).arm(query) for query in queries]
    assert 20 < tenth.count("treatment") < 65


async def test_the_arm_chooses_and_the_strategy_says_which_it_was() -> None:
    made = experiment()
    for n in range(20):
        selection = await made.select(asked(f"question {n}"), [])
        arm = made.arm(f"question {n}")
        assert selection.strategy == f"rules:{arm}"
        assert selection.chain[0].tool == {"control": "old", "treatment": "new"}[arm]


async def test_an_effect_that_is_there_is_found() -> None:
    made = experiment(samples=120)
    filled(made, 1, {"control": 0.6, "treatment": 0.85})
    report = made.report()
    assert (report.finished, report.winner) == (True, "treatment")
    assert report.test is not None
    assert (report.test.name, report.test.p_value < 0.05) == ("Fisher's exact", True)
    assert report.difference is not None
    assert report.difference_interval[0] < report.difference < report.difference_interval[1]
    assert min(report.control.trials, report.treatment.trials) == 120
    assert report.words.startswith("rules: new (treatment) is better in success (Fisher's exact, p = ")


async def test_a_loss_is_found_as_well() -> None:
    made = experiment(samples=120)
    filled(made, 1, {"control": 0.85, "treatment": 0.6})
    assert made.report().winner == "control"


async def test_seconds_decide_where_they_are_asked_to() -> None:
    made = experiment(samples=100, metric="seconds")
    filled(made, 2, {"control": 0.9, "treatment": 0.9}, {"treatment": 0.6})
    report = made.report()
    assert (report.winner, report.warnings) == ("treatment", ())
    assert report.test is not None
    assert report.test.name == "Mann-Whitney"
    assert report.other_test is not None
    assert report.other_test.p_value > 0.05
    assert report.control.median_seconds is not None
    assert report.treatment.median_seconds is not None
    assert report.treatment.median_seconds < report.control.median_seconds


async def test_an_arm_that_is_quick_because_it_fails_at_what_takes_long_is_not_praised_without_a_warning() -> None:
    made = experiment(samples=100, metric="seconds")
    filled(made, 2, {"control": 0.9, "treatment": 0.5}, {"treatment": 0.6})
    report = made.report()
    assert report.winner == "treatment"
    assert [each[:48] for each in report.warnings] == ["the treatment is quicker and succeeds less often"]


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


@pytest.mark.slow
async def test_looking_often_makes_no_more_winners() -> None:
    winners = looked_and_stopped = 0
    for seed in range(60):
        made, draw = experiment(samples=40), random.Random(seed)
        n = 0
        while not made.report().finished:
            n += 1
            noted(made, f"question {seed} {n}", draw.random() < 0.7)
            report = made.report()
            assert report.test is None or report.finished
            one, other = report.control, report.treatment
            if n % 5 == 0 and one.trials and other.trials:
                tempting = tests_of_difference.fisher((one.successes, one.trials), (other.successes, other.trials))
                looked_and_stopped += tempting < 0.05
        winners += made.report().winner is not None
    assert winners <= 8
    assert looked_and_stopped > winners


async def test_before_the_end_there_is_no_test_and_it_is_said_why() -> None:
    made = experiment(samples=50)
    for n in range(20):
        noted(made, f"q{n}", made.arm(f"q{n}") == "treatment")
    report = made.report()
    assert (report.finished, report.test, report.winner) == (False, None, None)
    counts = f"{report.control.trials} and {report.treatment.trials} of 50 trials in each arm"
    assert report.words == (
        f"rules: {counts}; there is no test before that, and who looks earlier may see what is not there"
    )


async def test_what_comes_after_the_end_changes_nothing() -> None:
    made = experiment(samples=30)
    filled(made, 3, {"control": 0.5, "treatment": 0.5})
    before = made.report()
    for n in range(300):
        noted(made, f"later {n}", made.arm(f"later {n}") == "treatment")
    assert made.report() == before


async def test_a_query_counts_once_and_plans_of_the_other_arm_do_not() -> None:
    made = experiment(samples=50)
    for _ in range(5):
        noted(made, "again", True)
    other = "treatment" if made.arm("crossed") == "control" else "control"
    made.note(SelectionOutcome(query="crossed", tools=(), strategy=f"rules:{other}", success=True))
    made.note(SelectionOutcome(query="foreign", tools=(), strategy="somebody's", success=True))
    report = made.report()
    assert report.control.trials + report.treatment.trials == 1
    assert report.warnings == (
        "1 outcomes were of plans that the other arm had made; they do not count",
        "4 outcomes were of queries that were asked before; they do not count",
    )


async def test_outcomes_that_get_lost_in_one_arm_are_told() -> None:
    made = experiment(samples=500)
    for n in range(600):
        if made.arm(f"q{n}") == "control" or n % 3:
            noted(made, f"q{n}", True)
    (warning,) = made.report().warnings
    assert warning.endswith("outcomes of one arm get lost, and the arms cannot be compared")


async def test_the_samples_are_as_many_as_the_difference_needs() -> None:
    report = experiment(expected_rate=0.6, least_difference=0.2).report()
    assert report.design.samples == 91
    assert report.power == pytest.approx(0.8, abs=0.01)


async def test_outcomes_go_on_to_the_memory_and_advice_comes_from_it() -> None:
    memory = SelectionMemory()
    made = experiment(memory=memory)
    noted(made, "weather", True)
    assert len(memory) == 1
    assert [each.tool for each in made.advice("weather", ["t"]).tools] == ["t"]
    assert experiment().advice("weather", ["t"]).tools == ()


# shadow mode


async def test_in_shadow_mode_both_choose_and_the_controls_choice_is_used() -> None:
    made = experiment(paired=True, samples=3)
    for n in range(4):
        selection = await made.select(asked(f"q{n}"), [])
        assert (selection.chain[0].tool, selection.strategy) == ("old", "rules:control")
        made.note(SelectionOutcome(query=f"q{n}", tools=("old",), strategy="rules:control", success=True))
    report = made.report()
    assert (report.agreement, report.finished, report.power) == (0.0, False, None)
    assert report.warnings == ("nobody says how the treatment's choices would have done: give a judge, or replay both",)


async def test_a_judge_says_who_chooses_better() -> None:
    made = Experiment(
        "shadow", Fixed("old"), Fixed("new"), paired=True, samples=40,
        judge=lambda query, selection: selection.chain[0].tool == ("new" if query.query.endswith(("1", "2")) else "x"),
    )  # fmt: skip
    for n in range(45):
        await made.select(asked(f"q{n}"), [])
    report = made.report()
    assert (report.winner, report.control.rate) == ("treatment", 0.0)
    assert report.test is not None
    assert (report.test.name, report.test.samples) == ("McNemar's exact", 40)


@pytest.mark.parametrize("shadow", [Fixed("new", error=ModelUnavailable("gone")), Fixed("new", seconds=3600.0)])
async def test_a_shadow_that_fails_or_hangs_harms_nobody(shadow: Fixed) -> None:
    made = Experiment("shadow", Fixed("old"), shadow, paired=True, judge=lambda *_: True, shadow_seconds=0.01)
    with anyio.fail_after(20):
        assert (await made.select(asked("q"), [])).chain[0].tool == "old"
    report = made.report()
    assert (report.control.successes, report.treatment.successes) == (1, 0)
    assert report.warnings == ("the treatment gave no choice for 1 of 1 queries",)


async def test_a_control_that_fails_raises_as_if_there_were_no_shadow() -> None:
    made = Experiment("shadow", Fixed("old", error=ModelUnavailable("gone")), Fixed("new", seconds=60.0), paired=True)
    with anyio.fail_after(20), pytest.raises(ModelUnavailable, match="gone"):
        await made.select(asked("q"), [])


async def test_pairs_of_a_replay_are_tested_as_pairs() -> None:
    draw = random.Random(4)
    made = experiment(paired=True, samples=60, metric="seconds")
    for n in range(60):
        took = draw.lognormvariate(0.0, 1.0)  # queries differ far more than the arms do
        made.note_pair(f"q{n}", control=(True, took), treatment=(True, took * draw.uniform(0.8, 1.05)))
    report = made.report()
    assert report.winner == "treatment"
    assert report.test is not None
    assert report.test.name == "Wilcoxon signed-rank"
    unpaired, _ = tests_of_difference.mann_whitney(
        *([each.seconds or 0.0 for each in made._trials.of(arm).values()] for arm in ("control", "treatment"))
    )
    assert unpaired > 0.05


async def test_paired_replays_without_an_effect_have_no_winner_more_often_than_alpha_says() -> None:
    winners = 0
    for seed in range(150):
        draw, made = random.Random(seed), experiment(paired=True, samples=40)
        for n in range(40):
            made.note_pair(
                f"q{n}", control=(draw.random() < 0.6, 1.0), treatment=(draw.random() < 0.6, 1.0)
            )  # fmt: skip
        winners += made.report().winner is not None
    assert winners <= 14


# kept


async def test_trials_are_kept_and_two_processes_add_to_each_other(tmp_path: Path) -> None:
    path = tmp_path / "statistics.sqlite"
    async with experiment(file=path, samples=50) as one, experiment(file=path, samples=50) as other:
        for n in range(10):
            noted(one, f"q{n}", True)
            noted(other, f"q{n + 5}", True, 2.0)
    async with Experiment("other", Fixed("old"), Fixed("new"), file=path) as foreign:
        noted(foreign, "q1", False)
    async with experiment(file=path, samples=50) as again:
        report = again.report()
    assert report.control.trials + report.treatment.trials == 15
    assert report.control.successes + report.treatment.successes == 15
    with contextlib.closing(sqlite3.connect(path)) as connection:
        kept = str(connection.execute("SELECT * FROM trials").fetchall())
    assert "q1" not in kept


# what cannot be


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": 1.0}, "split must be above 0 and below 1, and is 1.0"),
        ({"alpha": 0.0}, "alpha must be above 0"),
        ({"least_difference": 0.3}, "expected_rate \\+ least_difference must be another rate"),
        ({"least_difference": 0.0}, "expected_rate \\+ least_difference must be another rate"),
        ({"least_difference": 0.001}, "samples must be from 2 to 10,000, and would be"),
        ({"samples": 1}, "samples must be from 2 to 10,000, and would be 1"),
        ({"metric": "beauty"}, "there is no metric 'beauty'; there are: success, seconds"),
        ({"judge": lambda *_: True}, "a judge needs paired=True"),
    ],
)
async def test_options_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        experiment(**options)


async def test_names_and_pairs_that_cannot_be_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="1 to 128 printable characters"):
        Experiment("", Fixed("old"), Fixed("new"))
    with pytest.raises(ConfigurationError, match="pairs are noted where paired=True"):
        experiment().note_pair("q", control=(True, None), treatment=(True, None))


async def test_without_scipy_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tests_of_difference, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=r"scipy, which is not installed: pip install .*\[experiments\]'"):
        experiment()
