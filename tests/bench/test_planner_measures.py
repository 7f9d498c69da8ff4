"""The planner's measures at their smallest: rows with figures and verdicts, and the parts that they are made of."""

from __future__ import annotations

import statistics
from pathlib import Path

import anyio
import pytest

from callgate.bench.peers.process import Bubblewrap, MontyPeer
from callgate.bench.rows import Row
from callgate.bench.singles.context import CALLS, TINY, Bench
from callgate.bench.singles.gold import GoldCall, Request
from callgate.bench.singles.measures import MEASURES
from callgate.bench.singles.measures.planner import target
from callgate.bench.singles.measures.planner_caches import with_other_values
from callgate.bench.singles.played import Weather, in_sequence, lognormal, nestful_plans, plan_of, share
from callgate.errors import ToolError

NAMES = [name for name in MEASURES if name.startswith("planner-")]
REQUEST = Request(
    "r", "What is 5 plus 12 in Paris, and 7 in paris?", [],
    [GoldCall("add", {"a": 5, "b": [12], "where": "Paris"}), GoldCall("see", {"n": 7, "deep": {"b": 12, "no": True}})],
)  # fmt: skip


def rows(name: str, calls: Path = CALLS) -> list[Row]:
    return anyio.run(MEASURES[name], Bench(TINY, MontyPeer(), Bubblewrap(), calls))


def test_all_figures_of_the_reference_are_measured() -> None:
    assert NAMES == [
        "planner-selection", "planner-model", "planner-learning", "planner-speed", "planner-retries",
        "planner-caches", "planner-timeouts",
    ]  # fmt: skip


@pytest.mark.skipif(not CALLS.is_dir(), reason="BFCL's requests are not there")
@pytest.mark.parametrize("name", [name for name in NAMES if name != "planner-model"])
def test_a_measure_gives_rows_with_a_figure_and_its_target(name: str) -> None:
    found = rows(name)
    assert {row.key for row in found} == {name}
    assert all(row.measured for row in found)
    judged = [row for row in found if row.target]
    assert judged
    assert {row.verdict for row in judged} <= {"met", "missed"}
    assert {row.verdict for row in found if not row.target} <= {"for information"}


@pytest.mark.parametrize("name", [name for name in NAMES if name != "planner-model"])
def test_without_the_data_the_row_says_so(name: str, tmp_path: Path) -> None:
    assert all(row.measured.startswith("not measured: no data in ") for row in rows(name, tmp_path / "calls"))


def test_a_model_is_measured_where_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CALLGATE_BENCH_PLANNER", raising=False)
    assert [row.measured for row in rows("planner-model")] == ["not measured: name a model in CALLGATE_BENCH_PLANNER"]


def test_a_target_that_is_missed_is_told_as_missed() -> None:
    assert target("k", "m", "89 %", 0.89, 0.9, "≥ 90 %").verdict == "missed"
    assert target("k", "m", "90 %", 0.9, 0.9, "≥ 90 %").verdict == "met"


def test_other_values_stand_in_the_words_and_in_the_calls() -> None:
    other = with_other_values(REQUEST, 3)
    assert other is not None
    assert other.query == "What is 8 plus 15 in Gondor, and 10 in paris?"
    assert [call.arguments for call in other.calls] == [
        {"a": 8, "b": [15], "where": "Gondor"}, {"n": 10, "deep": {"b": 15, "no": True}},
    ]  # fmt: skip
    shifted = with_other_values(Request("r", "add 1 and 3", [], [GoldCall("add", {"a": 1, "b": 3})]), 2)
    assert shifted is not None
    assert (shifted.query, shifted.calls[0].arguments) == ("add 3 and 5", {"a": 3, "b": 5})
    assert with_other_values(Request("r", "nothing to change", [], REQUEST.calls), 1) is None


def test_latencies_are_log_normal_and_the_same_in_every_run() -> None:
    drawn = [lognormal(0.5, 1.0, n) for n in range(4000)]
    assert drawn == [lognormal(0.5, 1.0, n) for n in range(4000)]
    assert 0.46 < statistics.median(drawn) < 0.54
    assert 0.75 < statistics.fmean(drawn) < 0.9  # 0.5 * exp(1 / 2) is 0.82
    assert 0.47 < statistics.fmean(share("x", n) for n in range(4000)) < 0.53


def test_weather_fails_in_passing_or_for_good() -> None:
    async def failures(weather: Weather) -> list[str]:
        found = []
        for attempt in range(300):
            try:
                await weather.blow("call", attempt)
            except ToolError as error:
                found.append(f"{error.message} {error.retryable}")
        return found

    passing = anyio.run(failures, Weather(passing=0.3))
    assert 60 < len(passing) < 120
    assert set(passing) == {"the service is busy True"}
    assert anyio.run(failures, Weather(lasting=1.0)) == ["the service refuses this False"] * 300
    assert anyio.run(failures, Weather()) == []


def test_a_plan_in_sequence_has_the_same_steps_one_after_the_other() -> None:
    plan = plan_of(REQUEST)
    assert plan.stages == (("c0", "c1"),)
    modes = [step.execution_mode for step in in_sequence(plan).steps]
    assert modes == ["parallel", "sequential"]


@pytest.mark.skipif(not CALLS.parent.is_dir(), reason="NESTFUL's plans are not there")
def test_nested_plans_have_stages_by_what_they_refer_to() -> None:
    plans, outputs = nestful_plans(CALLS.parent / "plans")
    assert len(plans) == 147
    assert plans[0].stages == (("var1", "var2", "var4"), ("var3", "var5"))
    assert outputs["SkyScrapperFlightSearch"]
    assert nestful_plans(CALLS.parent / "calls") == ([], {})
