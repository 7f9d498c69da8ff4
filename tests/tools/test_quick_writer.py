"""Both writers give the same text, and what only one of them can write goes to that one."""

from __future__ import annotations

import datetime
import json
import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from callgate.tools.encoding import NotJson, compact_json, encoding
from callgate.tools.quick_writer import quick_text
from callgate.tools.turns import at_once

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(1 << 70), 1 << 70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
    max_leaves=40,
)


@given(st.lists(values, min_size=1) | st.dictionaries(st.text(), values, min_size=1))
@example([1e15, 9e-5, 1e16, 0.0, -0.0, 5e-324, 123456789.123456789])
@example([2**63 - 1, -(2**63), 2**63, "\x00\x1f\x7f\u2028\U0001f600"])
@example([{"a": {"b": {"c": {"d": {"e": {"f": 1}}}}}}] * 3)
def test_a_large_value_has_the_text_of_a_small_one(value: Any) -> None:
    assert at_once(encoding(value)) == compact_json(value)
    in_order = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    assert at_once(encoding(value, sort_keys=True)) == in_order
    quick = quick_text(value, flat=False)
    assert quick is None or quick[0] == compact_json(value)[1:-1]


@pytest.mark.parametrize(
    "member",
    [math.nan, math.inf, 1e15, 1e-5, 2**63, {1: 2}, datetime.date(2026, 1, 2), [[[[[[1]]]]]], {"a": ["x" * (1 << 20)]}],
)
def test_what_the_writers_write_differently_is_left_to_the_standard_library(member: Any) -> None:
    assert quick_text([member], flat=False) is None
    assert quick_text([1, {"a": [member]}], flat=False) is None


def test_a_run_is_bounded() -> None:
    assert quick_text([0] * 20_001, flat=False) is None
    assert quick_text([[0] * 10_000] * 3, flat=False) is None


@pytest.mark.parametrize("value", [["a", "\ud800"], {"\ud800": 1}, [{"a": "\ud800"}], [1, math.nan], {"a": [math.inf]}])
def test_what_is_not_json_is_an_error_of_a_large_value_too(value: Any) -> None:
    with pytest.raises(NotJson) as small:
        compact_json(value)
    with pytest.raises(NotJson) as large:
        at_once(encoding(value))
    assert str(large.value) == str(small.value)


def test_looks_in_vain_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0

    def counted(members: Any, *, flat: bool) -> tuple[str, int] | None:
        nonlocal looks
        looks += 1
        return quick_text(members, flat=flat)

    monkeypatch.setattr("callgate.tools.encoding.quick_text", counted)
    deep: Any = 1
    for _ in range(200):
        deep = [deep]
    assert at_once(encoding([deep] * 100)) == compact_json([deep] * 100)
    assert looks < 200


def test_runs_of_both_writers_follow_each_other() -> None:
    value = [{"n": n, "x": [n / 3, 1e20 if n % 700 == 0 else "y" * (n % 50), {}, []]} for n in range(9_000)]
    value[4_000]["x"] = "z" * (1 << 20)
    value[5_000] = {"a": {"b": {"c": {"d": {"e": {"f": [1, 2]}}}}}}
    assert at_once(encoding(value)) == compact_json(value)
