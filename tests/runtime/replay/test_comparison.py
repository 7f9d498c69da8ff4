"""The first difference between two runs, in words."""

from __future__ import annotations

from typing import Any

import pytest

from callgate import CodeResult, RunError
from callgate.errors import ReplayDiverged
from callgate.runtime.replay.comparison import MadeCall, Ran, first_difference
from callgate.runtime.result import PrintMark


def ran(*calls: MadeCall, **result: Any) -> Ran:
    return Ran(CodeResult(ok="error" not in result, **result), calls)


GET = MadeCall("get", {"n": 1}, 3)
MARKS = [PrintMark(0.0, 2, 0), PrintMark(0.0, 5, 4)]
DIFFERENT: dict[str, tuple[Ran, Ran, str]] = {
    "arguments": (
        ran(GET), ran(MadeCall("get", {"n": 2}, 3)),
        'call 1, line 3: the first run had get({"n": 1}), the second run has get({"n": 2})',
    ),
    "tool": (
        ran(GET, GET), ran(GET, MadeCall("put", {"n": 1}, 4)),
        'call 2, line 4: the first run had get({"n": 1}), the second run has put({"n": 1})',
    ),
    "a call less": (ran(GET), ran(), 'call 1, line 3: the first run had get({"n": 1}), the second run has no call'),
    "a call more": (
        ran(), ran(MadeCall("put", {})),
        "call 1: the first run had no call, the second run has put({})",
    ),
    "print": (
        ran(logs="one\ntwo\n", prints=MARKS), ran(logs="one\ntoo\n", prints=MARKS),
        "print 2, line 5: the first run had 'two', the second run has 'too'",
    ),
    "a print less": (
        ran(logs="one\ntwo\n", prints=MARKS), ran(logs="one\n", prints=MARKS[:1]),
        "print 2, line 2: the first run had 'two', the second run has no more prints",
    ),
    "value": (ran(value={"a": 1}), ran(value=None), 'the value: the first run had {"a": 1}, the second run has null'),
    "type of a value": (ran(value=1), ran(value=1.0), "the value: the first run had 1, the second run has 1.0"),
    "value that is not JSON": (
        ran(value_repr="{1}"), ran(value_repr="{2}"),
        "the value: the first run had '{1}', the second run has '{2}'",
    ),
    "error": (
        ran(value=1), ran(error=RunError("ValueError", "no", 7)),
        "the error, line 7: the first run had no error, the second run has ValueError: no (line 7)",
    ),
    "line of an error": (
        ran(error=RunError("ValueError", "no", 6)), ran(error=RunError("ValueError", "no", 7)),
        "the error, line 7: the first run had ValueError: no (line 6), the second run has ValueError: no (line 7)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", DIFFERENT)
def test_a_difference_is_told_with_its_place_and_both_sides(what: str) -> None:
    first, again, words = DIFFERENT[what]
    assert str(first_difference(first, again)) == words


def test_equal_runs_have_no_difference_though_keys_of_arguments_stand_in_another_order() -> None:
    one = ran(MadeCall("get", {"a": 1, "b": 2}, 3), logs="x\n", value=[1])
    other = ran(MadeCall("get", {"b": 2, "a": 1}), logs="x\n", value=[1])
    assert first_difference(one, other) is None


def test_what_the_guest_itself_saw_comes_first() -> None:
    found = first_difference(ran(GET), ran(), ReplayDiverged(4, "call 1", "call 2"))
    assert str(found) == "what the program does, line 4: the first run had call 1, the second run has call 2"


def test_a_long_value_is_cut() -> None:
    found = first_difference(ran(value="x" * 10_000), ran(value="x" * 10_001))
    assert found is not None
    assert len(str(found)) < 1_000
