"""Arguments that came as text: where their JSON breaks, and whether the token limit cut them."""

from __future__ import annotations

import json

import pytest

from callgate import tool
from callgate.errors import InvalidArguments
from callgate.runtime.model.decoding import decoded


@tool(read_only=True)
async def get_weather(city: str) -> str:
    """Current weather of a city."""
    return city


WHOLE = json.dumps({"code": "print('\u00e9\n\\\\')", "n": -12.5e-3, "b": [True, None, {"x": False}]}, indent=1)


@pytest.mark.parametrize("name", ["execute_code", "get_weather"])
def test_arguments_that_end_in_the_middle_were_cut_by_the_token_limit(name: str) -> None:
    for end in range(1, len(WHOLE)):
        with pytest.raises(InvalidArguments) as error:
            decoded(name, WHOLE[:end], 1_000)
        assert "are not valid JSON" in error.value.message
        assert error.value.message.endswith(
            "the text ends in the middle: it was probably cut by the token limit. Make the call again, with less in it"
        ), WHOLE[:end]
    assert decoded(name, WHOLE, 1_000) == json.loads(WHOLE)


@pytest.mark.parametrize(
    "text", ["Oslo", '{"a": 1 "b": 2}', '{"a": 1}}', "{'a': 1}", '{"code": "print("x")"}', "[1,]", "NaN"]
)
def test_what_is_wrong_in_the_middle_was_not_cut(text: str) -> None:
    with pytest.raises(InvalidArguments) as error:
        decoded("get_weather", text, 1_000)
    assert "token limit" not in error.value.message
