"""What the fast path would have saved: bounds and estimates, from made-up journals and from real runs."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgate import Registry, Runtime, ToolError, tool
from callgate.runtime.fast_path.advice import (
    SeenCall,
    Witness,
    constants_of,
    leaves,
    named_calls,
    outlook,
    savings,
    seen_calls,
)
from callgate.tools.statistics import Statistics


def read(at: float, seconds: float, arguments: Any = None, result: Any = None) -> SeenCall:
    return SeenCall("read", True, at, seconds, arguments, json.dumps(result))


def write(at: float, seconds: float) -> SeenCall:
    return SeenCall("write", False, at, seconds)


def test_reads_one_after_the_other_would_have_run_at_once() -> None:
    saved = savings([read(0, 2), read(2, 3), read(6, 1)])
    assert (saved.calls, saved.took_seconds, saved.one_by_one_seconds) == (3, 6, 6)
    assert (saved.at_best_seconds, saved.most_saved_seconds) == (3, 3)


def test_what_ran_at_once_already_is_not_saved_again() -> None:
    saved = savings([read(0, 2), read(0, 2), read(0.5, 1)])
    assert (saved.took_seconds, saved.one_by_one_seconds, saved.most_saved_seconds) == (2, 5, 0)


def test_no_read_crosses_a_write_and_a_write_waits_for_all_before_it() -> None:
    saved = savings([read(0, 1), read(1, 1), write(2, 1), read(3, 1), read(4, 1), write(5, 1)])
    assert saved.at_best_seconds == 4


def test_writes_that_were_gathered_stay_side_by_side() -> None:
    assert savings([write(0, 1), write(0, 1), read(1, 1), read(2, 1)]).at_best_seconds == 2


def test_an_argument_that_an_earlier_result_holds_waits_for_it() -> None:
    calls = [read(0, 1, {"of": "team"}, [{"id": 7}, {"id": 8}]), read(1, 1, {"id": 7}), read(2, 1, {"id": 8})]
    saved = savings(calls, known={"team"})
    assert (saved.at_best_seconds, saved.by_arguments_seconds, saved.found_again) == (1, 2, 2)
    assert saved.likely_saved_seconds == 1


def test_a_value_that_the_program_has_itself_waits_for_nothing() -> None:
    calls = [read(0, 1, {}, "Oslo"), read(1, 1, {"city": "Oslo"})]
    assert savings(calls, known={"Oslo"}).by_arguments_seconds == 1
    assert savings(calls).by_arguments_seconds == 2


def test_a_value_in_several_results_is_there_with_the_first_of_them() -> None:
    calls = [read(0, 1, {}, 7), read(1, 1, {}, 7), read(2, 1, {"id": 7})]
    assert savings(calls).by_arguments_seconds == 2


def test_truth_values_null_and_the_empty_text_are_no_trace_of_anything() -> None:
    assert leaves({"a": [True, None, "", 0, 1.5, {"b": "x"}]}) == {0, 1.5, "x"}
    calls = [read(0, 1, {}, [True, None, ""]), read(1, 1, {"a": True, "b": None, "c": ""})]
    assert savings(calls).by_arguments_seconds == 1


def test_no_calls_take_no_time() -> None:
    assert savings([]).to_dict() == {
        "calls": 0,
        "took_seconds": 0.0,
        "one_by_one_seconds": 0,
        "at_best_seconds": 0.0,
        "by_arguments_seconds": 0.0,
        "found_again": 0,
        "most_saved_seconds": 0.0,
        "likely_saved_seconds": 0.0,
    }


_times = st.integers(0, 20).map(float)


@given(
    st.lists(
        st.builds(
            SeenCall,
            st.just("t"),
            st.booleans(),
            _times,
            _times,
            st.integers(0, 3),
            st.one_of(st.none(), st.integers(0, 3).map(str)),
        ),
        max_size=12,
    )
)
def test_the_bound_is_below_the_estimate_and_that_below_what_it_took(calls: list[SeenCall]) -> None:
    saved = savings(calls)
    longest = max((call.seconds for call in calls), default=0)
    assert longest - 1e-9 <= saved.at_best_seconds <= saved.by_arguments_seconds + 1e-9
    assert saved.by_arguments_seconds <= saved.took_seconds + 1e-3


def test_a_program_of_which_nothing_can_be_read_has_no_constants_and_names_no_tools() -> None:
    assert constants_of("x = (") == set()
    assert named_calls("x = (", Registry([find])) == []
    assert constants_of("f(1, 'a', b'b', None, True, 2j)") == {1, "a"}


# real runs


@tool(read_only=True)
async def find(team: str) -> list[int]:
    """Ids of a team.

    Args:
        team: its name.
    """
    await anyio.sleep(0.03)
    return [71, 72]


@tool(read_only=True, cache_seconds=60)
async def look(id: int) -> str:
    """Somebody's name.

    Args:
        id: whose.
    """
    await anyio.sleep(0.03)
    if id < 0:
        raise ToolError("nobody")
    return f"name of {id}"


@tool(requires_approval=True, read_only=True)
async def secret(name: str) -> str:
    """A secret.

    Args:
        name: whose.
    """
    return name


PROGRAM = """
ids = await find("west")
names = []
while len(names) < 2:
    names.append(await look(ids[len(names)]))
await look(ids[0])
try:
    await look(-1)
except ToolError:
    pass
await secret(names[1])
"""


@pytest.mark.anyio
async def test_a_witness_has_the_result_of_every_call_that_gave_one() -> None:
    registry = Registry([find, look, secret])
    witness = Witness(registry)
    async with Runtime(witness.registry, pool_size=0, approve=_yes) as runtime:
        result = await runtime.execute_code(PROGRAM, path="sandbox", on_event=witness.put)
    assert result.ok, result.error
    assert [witness.results.get(call.id) for call in result.calls] == [
        "[71,72]", '"name of 71"', '"name of 72"', '"name of 71"', None, '"name of 72"',
    ]  # fmt: skip
    seen = seen_calls(result.calls, registry, witness.results)
    assert [call.early for call in seen] == [True] * 5 + [False]
    saved = savings(seen, constants_of(PROGRAM))
    assert saved.found_again == 3
    assert 0.03 <= saved.at_best_seconds < saved.by_arguments_seconds <= saved.took_seconds


async def _yes(_: Any) -> bool:
    return True


# without a run


def test_calls_are_found_by_all_their_names_and_loops_are_told_apart() -> None:
    source = """
from tools import find as get
a = await get("x")
b = await tools.look(1)
c = [await tool_call("look", id=n) for n in a]
async def f():
    return await secret("x")
look = 3
"""
    named = named_calls(source, Registry([find, look, secret]))
    assert [(call.tool, call.early, call.line, call.repeated) for call in named] == [
        ("find", True, 3, False),
        ("look", True, 4, False),
        ("look", True, 5, True),
        ("secret", False, 7, True),
    ]


def test_an_outlook_counts_every_place_once_and_names_what_it_does_not_know() -> None:
    statistics = Statistics()
    statistics.note("find", 2.0, "succeeded")
    statistics.note("look", 1.0, "succeeded")
    named = named_calls(
        "await find('x')\nfor n in y:\n    await look(n)\nawait secret('x')\nawait look(3)",
        Registry([find, look, secret]),
    )
    seen = outlook(named, statistics)
    assert seen.named == {"find": 1, "look": 2, "secret": 1}
    assert seen.one_after_the_other_seconds == pytest.approx(4)
    assert seen.at_best_seconds == pytest.approx(3)
    assert (seen.unknown, seen.repeated) == (("secret",), (3,))
    assert json.dumps(seen.to_dict())
