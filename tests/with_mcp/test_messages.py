"""Lines and values are bounded before they are parsed: exact where it matters, linear, and not to be deceived."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgate.mcp import messages
from callgate.mcp.messages import Lines, NotAMessage, read_message
from callgate.tools import decoding

TEXTS = st.text(alphabet='a\\",[]{}:\n\u00e9')
VALUES = st.recursive(
    st.none() | st.integers() | TEXTS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner), max_leaves=30
)


def is_too_large(text: bytes) -> bool:
    try:
        read_message(text)
    except NotAMessage as error:
        return "it has more than" in str(error)
    return False


def marks(value: object) -> int:
    """The commas and opening brackets of a value, counted by walking the value."""
    below = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    opened = isinstance(value, (dict, list))
    return opened + max(0, len(list(below)) - 1) + sum(map(marks, below))


@given(VALUES, st.integers(1, 8), st.integers(0, 30))
def test_marks_outside_strings_are_counted_whatever_the_blocks(value: object, block: int, most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoding, "_BLOCK_BYTES", block)
        patch.setattr(messages, "MAX_VALUES", most)
        assert is_too_large(json.dumps(value).encode()) is (marks(value) > most)


def test_a_text_full_of_commas_is_one_value() -> None:
    assert not is_too_large(json.dumps({"a": 'x,"[{' * 500_000}).encode())


@pytest.mark.parametrize(
    "piece", [b"[],", b'"a",', b'{"a":', b'"ab,cdef":3,', b"[", b'"\\\\",', b'"\\"[",', b"1,"], ids=repr
)
def test_too_many_values_are_found_in_little_time(piece: bytes) -> None:
    began = time.process_time()
    assert is_too_large(b"[" + piece * (16_000_000 // len(piece)))
    assert time.process_time() - began < 2  # quadratic would take minutes


@pytest.mark.parametrize("piece", [b'"', b"\\", b'"\\', b'\\"', b'"\\\\'], ids=repr)
def test_quotes_and_backslashes_take_no_longer(piece: bytes) -> None:
    text = piece * (4_000_000 // len(piece)) + b"," * (messages.MAX_VALUES + 1)
    began = time.process_time()
    is_too_large(text)
    assert time.process_time() - began < 2


def test_lines_come_out_as_they_went_in_whatever_the_chunks_and_too_long_ones_as_none() -> None:
    text = b"".join(b"%d-%s\n" % (n, b"x" * (n * 7 % 50)) for n in range(200)) + b"x" * 60
    expected = [line if len(line) <= 45 else None for line in text.split(b"\n")[:-1]]
    for size in (1, 2, 3, 7, 64, 1000, len(text)):
        lines = Lines(45)
        assert [each for at in range(0, len(text), size) for each in lines.feed(text[at : at + size])] == expected
        assert lines.is_too_long
