"""Strict JSON: every refusal, with its words."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgate.errors import ProtocolError
from callgate.protocol.decode import MAX_VALUES, decode

REFUSED: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "the guest sent a message that is not JSON: Expecting value: line 1 column 1 (char 0)"),
    "words": (b"hello", "the guest sent a message that is not JSON: Expecting value: line 1 column 1 (char 0)"),
    "half an object": (
        b'{"a":',
        "the guest sent a message that is not JSON: Expecting value: line 1 column 6 (char 5)",
    ),
    "two values": (b"1 2", "the guest sent a message that is not JSON: Extra data: line 1 column 3 (char 2)"),
    "not a number": (b"[NaN]", "the guest sent a message that is not JSON: NaN is not JSON"),
    "infinity": (b"Infinity", "the guest sent a message that is not JSON: Infinity is not JSON"),
    "its negative": (b"-Infinity", "the guest sent a message that is not JSON: -Infinity is not JSON"),
    "an overflow": (b"1e400", "the guest sent a message that is not JSON: the number 1e400 is too large"),
    "a long overflow": (
        b"1" + b"0" * 400 + b".0",
        f"the guest sent a message that is not JSON: the number 1{'0' * 39} is too large",
    ),
    "a key twice": (
        b'{"a":1,"a":2}',
        "the guest sent a message that is not JSON: the key 'a' occurs twice in one object",
    ),
    "a key twice inside": (
        b'[{"x":{"b":1,"b":1}}]',
        "the guest sent a message that is not JSON: the key 'b' occurs twice in one object",
    ),
    "the same key, escaped": (
        b'{"a":1,"\\u0061":2}',
        "the guest sent a message that is not JSON: the key 'a' occurs twice in one object",
    ),
    "no UTF-8": (b'"\xff"', "the guest sent a message that is not UTF-8 (byte 1)"),
    "an encoded surrogate": (b'"\xed\xa0\x80"', "the guest sent a message that is not UTF-8 (byte 1)"),
    "an overlong form": (b'"\xc0\xaf"', "the guest sent a message that is not UTF-8 (byte 1)"),
    "a BOM": (
        b"\xef\xbb\xbf1",
        "the guest sent a message that is not JSON: Expecting value: line 1 column 1 (char 0)",
    ),
    "too deep": (b"[" * 100_000 + b"]" * 100_000, "the guest sent a message that is nested too deeply"),
    "too deep, open": (b'{"a":' * 100_000, "the guest sent a message that is nested too deeply"),
    "too many values": (
        b"[" + b"{}," * MAX_VALUES + b"1]",
        f"the guest sent a message of more than {MAX_VALUES} JSON values",
    ),
    "a control character": (
        b'"\x01"',
        "the guest sent a message that is not JSON: Invalid control character at: line 1 column 2 (char 1)",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_refuses(name: str) -> None:
    line, words = REFUSED[name]
    with pytest.raises(ProtocolError) as refusal:
        decode(line)
    assert str(refusal.value) == words


def test_an_integer_of_too_many_digits_is_refused() -> None:
    with pytest.raises(ProtocolError, match=r"^the guest sent a message that is not JSON: Exceeds the limit \(4300"):
        decode(b"1" * 5000)


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (b"1", 1),
        (b"118059162071741130342400000001", 118059162071741130342400000001),
        (b"1e308", 1e308),
        (b"-0.0", -0.0),
        (b'"\\ud800"', "\ud800"),
        (b'"\\ud83d\\ude00"', "😀"),
        (b' {"a" : [ ] }\r', {"a": []}),
        (b'{"":null,"a":{"a":true}}', {"": None, "a": {"a": True}}),
    ],
)
def test_it_reads(line: bytes, value: Any) -> None:
    assert decode(line) == value


def test_commas_and_braces_inside_text_are_no_values() -> None:
    text = ",{[" * MAX_VALUES
    assert decode(json.dumps(text).encode()) == text


def test_escaped_quotes_do_not_hide_values() -> None:
    line = b'["\\"", ' + b"{}," * MAX_VALUES + b'"\\\\"]'
    with pytest.raises(ProtocolError, match="JSON values"):
        decode(line)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON)
def test_what_json_writes_it_reads_exactly(value: Any) -> None:
    assert decode(json.dumps(value).encode()) == value
    assert repr(decode(json.dumps(value, ensure_ascii=True).encode())) == repr(value)


@given(st.binary())
def test_whatever_comes_it_raises_nothing_but_protocol_errors(line: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        decode(line)
