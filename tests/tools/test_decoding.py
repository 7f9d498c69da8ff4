"""Long JSON texts are read piece by piece, with the values and the refusals of short ones."""

from __future__ import annotations

import json
from typing import Any

import pytest

from callgate.tools import decoding as module
from callgate.tools.decoding import decoding
from callgate.tools.turns import at_once

_STEP = {"id": "s", "tool": "t", "arguments": {"rows": [[1, {"a": [2**70, 0.5]}]], "text": '\\"],{é'}}


def _long(*items: str) -> str:
    return f"[{','.join([json.dumps(_STEP)] * 1_000)},{','.join(items)}]"


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize(
    "last",
    [_STEP, [], {}, 7, "é" * 100_000, [[["x" * 100_000], _STEP]] * 3, [_STEP] * 2_000],
    ids=["a step", "an array", "an object", "a number", "a long text", "long items", "many items"],
)
def test_a_long_text_has_the_value_that_the_standard_library_reads(last: Any, indent: int | None) -> None:
    text = json.dumps({"steps": [_STEP] * 1_000 + [last, _STEP]}, indent=indent)
    assert at_once(decoding(text)) == json.loads(text)


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ('{"a":{"b":[1],"b":[2]}}', "'b' occurs twice"),
        ('{"a":[[NaN]]}', "NaN is not JSON"),
        ('{"a":[[1e999]]}', "too large"),
        ('{"a":[[1,]]}', "Expecting value"),
        ('{"a":[[1]]},', "Expecting value"),
        ('{"a":[[1]]}]', "Extra data"),
        ('{"a":[[1}}', "Expecting ',' delimiter"),
        ('{"a":[[' + "1" * 500 + "]]}", "500 digits"),
    ],
)
def test_a_fault_deep_in_an_item_of_a_long_text_is_named(item: str, words: str) -> None:
    for text in (_long(item), _long(item, "[]")):
        with pytest.raises(ValueError, match=words):
            at_once(decoding(text))


def test_items_of_a_long_text_may_not_be_nested_deeper_than_the_text_as_a_whole() -> None:
    assert at_once(decoding(_long("[" * 890 + "]" * 890, "[]")))
    with pytest.raises(RecursionError):
        at_once(decoding(_long("[" * 901 + "]" * 901, "[]")))


def test_flat_items_of_a_long_text_are_read_by_the_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    raw_decode, calls = module._long_decoder.raw_decode, 0

    def counted(text: str, idx: int) -> Any:
        nonlocal calls
        calls += 1
        return raw_decode(text, idx)

    monkeypatch.setattr(module._long_decoder, "raw_decode", counted)
    value = [[1, 2]] * 50_000
    assert at_once(decoding(json.dumps(value))) == value
    assert calls < 100
