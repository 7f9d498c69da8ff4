"""What the store keeps of results."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from callgate.durable.store import MAX_STORED_BYTES
from callgate.runtime.durable.recorded import result_text
from callgate.runtime.result import CodeResult


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        "é \u2028 \x7f", "half of a pair: \ud800", 1e16, 1.5e-7, -0.0, 2**70, math.inf, [None, True, {"a": [1.5]}],
        nested(300),
    ],
    ids=["text", "surrogate", "large", "small", "zero", "long", "infinite", "members", "nested"],
)  # fmt: skip
def test_each_value_is_the_same_when_it_is_read(value: Any) -> None:
    read = json.loads(result_text(CodeResult(ok=True, value=value)))
    assert repr(read["value"]) == repr(value)


def test_what_is_too_long_is_measured_in_bytes() -> None:
    text = result_text(CodeResult(ok=True, value="é" * (MAX_STORED_BYTES // 2)))
    kept = json.loads(text)
    assert len(text.encode()) <= MAX_STORED_BYTES
    assert kept["value"] is None
    assert kept["error"]["kind"] == "LimitReached"
