"""What a plan would take, by what the gate measured; across restarts where a file is given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from callgate import ConfigurationError, Limits, Runtime, tool
from runtime.test_plans import step

pytestmark = pytest.mark.anyio


@tool(read_only=True, cost=0.5)
async def nap(key: Any = None) -> str:
    """Take a hundredth of a second."""
    await anyio.sleep(0.01)
    return "rested"


PLAN = {"steps": [step("a", "nap"), step("b", "nap"), step("c", "nap", arguments={"key": ["$ref:a", "$ref:b"]})]}


async def test_what_was_measured_tells_what_a_plan_takes_and_a_file_keeps_it(tmp_path: Path) -> None:
    file = tmp_path / "tools.db"
    async with Runtime([nap], sandbox=None, statistics=file) as runtime:
        before = runtime.estimate(PLAN)
        assert before.unknown == ("nap",)
        assert (await runtime.execute_tool_plan(PLAN)).ok
        stats = runtime.registry.statistics.of("nap")
        assert stats is not None
        assert (stats.calls, stats.failures) == (3, 0)
        assert 0.009 < stats.average_seconds < 10
    async with Runtime([nap], sandbox=None, statistics=file) as runtime:
        told = runtime.estimate(PLAN)
        one_at_a_time = Limits(max_concurrent_calls=1)
        narrow = Runtime(runtime.registry, sandbox=None, limits=one_at_a_time).estimate(PLAN)
    assert told.unknown == ()
    assert told.calls == 3
    assert told.cost == 1.5
    assert told.duration_seconds == pytest.approx(2 * stats.average_seconds)
    assert told.sequential_seconds == narrow.duration_seconds == pytest.approx(3 * stats.average_seconds)
    assert len(told.critical_path) == 2


async def test_calls_in_a_map_are_counted_where_they_are_known() -> None:
    runtime = Runtime([nap], sandbox=None)
    known = runtime.estimate({"steps": [step("m", "nap", for_each=[1, 2, 3])]})
    unknown = runtime.estimate({"steps": [step("a", "nap"), step("m", "nap", for_each="$ref:a")]})
    assert (known.calls, known.open_ended) == (3, ())
    assert (unknown.calls, unknown.open_ended) == (2, ("m",))


async def test_a_plan_with_faults_is_not_estimated() -> None:
    with pytest.raises(ConfigurationError, match=r"a plan with faults cannot be estimated: step 'a' .* no tool 'nup'"):
        Runtime([nap], sandbox=None).estimate({"steps": [step("a", "nup")]})


async def test_a_file_that_cannot_be_used_is_an_error_on_entering(tmp_path: Path) -> None:
    (tmp_path / "other.db").write_text("no database, whatever its name")
    with pytest.raises(ConfigurationError, match=r"other\.db cannot be used"):
        async with Runtime([nap], sandbox=None, statistics=tmp_path / "other.db"):
            pass
