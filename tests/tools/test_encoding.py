"""What is JSON, and the words for what is not."""

from __future__ import annotations

import datetime
import json
import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgate.tools.encoding import NotJson, canonical_json, compact_json

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(json_values)
def test_every_json_value_comes_back_as_it_was(value: Any) -> None:
    text = compact_json(value)
    assert json.loads(text) == value
    text.encode()


@given(st.dictionaries(st.text(), st.integers(), min_size=2))
def test_the_canonical_text_does_not_depend_on_the_order_of_keys(value: dict[str, int]) -> None:
    assert canonical_json(value) == canonical_json(dict(reversed(value.items())))


def test_large_integers_stay_exact() -> None:
    assert compact_json(2**200 + 1) == str(2**200 + 1)


def test_text_is_not_escaped_needlessly() -> None:
    assert compact_json({"ö": "日本"}) == '{"ö":"日本"}'


cycle: list[Any] = []
cycle.append({"again": cycle})
deep: list[Any] = []
for _ in range(100_000):
    deep = [deep]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": [1, math.nan]}, "value.a[1] is nan, which is not JSON; use null or a string"),
        ([math.inf], "value[0] is inf, which is not JSON; use null or a string"),
        (cycle, "value[0].again contains itself"),
        ({"a b": object()}, 'value["a b"] is a object, which is not JSON'),
        ({(1, 2): 3}, "value has a key that is a tuple; JSON keys are strings"),
        ({math.inf: 3}, "value has the key inf, which is not JSON"),
        ({"a": "\ud800"}, "value.a holds half of a surrogate pair, which is not Unicode text"),
        ({"\ud800": 1}, "value has a key with half of a surrogate pair, which is not Unicode text"),
        (b"x", "value is a bytes, which is not JSON; write .decode() for text, or base64.b64encode(...).decode()"),
        ([{1}], "value[0] is a set, which is not JSON; write sorted(...), since a set has no order"),
        ({"a": Decimal("NaN")}, "value.a is Decimal('NaN'), which is not JSON; use null or a string"),
        ({b"a": 1}, "value has a key that is a bytes; JSON keys are strings"),
        ({datetime.date(2024, 1, 2): 1, "2024-01-02": 2}, "value has two keys that are '2024-01-02' as JSON"),
        ([10**5000], "value[0] is an integer of 16610 bits, too long to be written as text"),
        (deep, "value is nested too deeply"),
    ],
)
def test_what_is_not_json_is_named_with_its_place(value: Any, message: str) -> None:
    with pytest.raises(NotJson) as caught:
        compact_json(value)
    assert str(caught.value) == message


def test_the_same_list_twice_is_no_cycle() -> None:
    shared = [1]
    assert compact_json([shared, shared]) == "[[1],[1]]"
    with pytest.raises(NotJson, match=r"value\[2\] is a set"):
        compact_json([shared, shared, {1}])


def test_the_canonical_text_refuses_the_same_values() -> None:
    with pytest.raises(NotJson, match="value is nan"):
        canonical_json(math.nan)
