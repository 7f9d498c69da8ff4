"""How much memory the arguments of calls take."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from callgate.runtime.gate.arguments import weighing, weight
from callgate.tools.turns import at_once

_keys = st.sampled_from(["a", "b", "ö"]) | st.text()
_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(_keys, inner) | st.tuples(inner),
    max_leaves=40,
)


@given(_values)
def test_many_values_weigh_as_much_as_few(value: Any) -> None:
    assert at_once(weighing(value, 1 << 60)) == weight(value, 1 << 60)


def test_weighing_stops_when_it_is_enough() -> None:
    found = at_once(weighing([{"name": "x" * 100}] * 100_000, 1_000_000))
    assert 1_000_000 < found < 1_500_000
