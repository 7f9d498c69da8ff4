"""What is checked without a text has the same answer as what is checked with one."""

from __future__ import annotations

import copy
from typing import Any

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgate.errors import InvalidArguments
from callgate.tools import Tool, tool
from callgate.tools.annotations import FunctionArguments

TYPES = [
    str, int, float, bool, None, list[str], list[int], list[float], int | float, float | int, str | int | None,
    list[list[int | str]], list[float | None], list[int] | str, list[str] | list[int], list[list[float]] | list[float],
]  # fmt: skip


class Model(pydantic.BaseModel):
    numbers: list[int]


NOT_CLOSED = [Any, list, dict[str, int], list[Any], list[dict[str, Any]], tuple[int, ...], Model]

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=6,
)


def taking(annotation: Any) -> Tool:
    def take(value: Any, other: int = 0) -> None:
        pass

    take.__annotations__["value"] = annotation
    return tool(take)


TOOLS = [taking(annotation) for annotation in TYPES]


@given(st.sampled_from(TOOLS), values, st.booleans())
def test_values_of_closed_types_are_copied_as_their_text_would_be_read(take: Tool, value: Any, large: bool) -> None:
    given_value = copy.deepcopy(value)
    ready = take.copied({"value": value}, large=large)
    try:
        read = take.validate({"value": value})
    except InvalidArguments:
        assert ready is None
        return
    assert ready is not None
    assert repr(ready) == repr(read)
    if isinstance(value, list):
        ready["value"].append(0)
        assert value == given_value


@pytest.mark.parametrize("annotation", NOT_CLOSED)
def test_other_types_take_a_text(annotation: Any) -> None:
    assert taking(annotation).copied({"value": []}, large=True) is None


@pytest.mark.parametrize("arguments", [{}, {"value": "x", "word": 1}, {"value": "x", "other": "1"}])
def test_what_is_wrong_is_said_by_validate(arguments: dict[str, Any]) -> None:
    assert taking(str).copied(arguments, large=False) is None
    with pytest.raises(InvalidArguments):
        taking(str).validate(arguments)


@pytest.mark.parametrize("annotation", [list[int], list[int] | None, tuple[int, ...], Model | list[int]])
def test_a_large_check_stops_at_the_first_fault_of_an_array(annotation: Any) -> None:
    contract = taking(annotation).input_contract
    assert isinstance(contract, FunctionArguments)
    with pytest.raises(pydantic.ValidationError) as raised:
        contract._until_a_fault.validate_json(f'{{"value": [{", ".join(["true"] * 1000)}]}}', strict=True)
    assert raised.value.error_count() <= 3
