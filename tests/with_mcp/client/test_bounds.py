"""Values are counted before they are parsed: exact where it matters, linear, and not to be deceived."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgate.mcp import bounds
from callgate.mcp.bounds import MAX_DEPTH, EventLines, is_too_deep, marks_in
from callgate.tools import decoding

TEXTS = st.text(alphabet='a\\",[]{}:\n\u00e9')
VALUES = st.recursive(
    st.none() | st.integers() | TEXTS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner), max_leaves=30
)


def marks(value: object) -> int:
    """Of a value, by walking it."""
    below = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    opened = isinstance(value, (dict, list))
    return opened + max(0, len(list(below)) - 1) + sum(map(marks, below))


@given(VALUES, st.integers(1, 8))
def test_marks_outside_strings_are_counted_whatever_the_blocks(value: object, block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoding, "_BLOCK_BYTES", block)
        text = json.dumps(value).encode()
        assert sum(map(decoding._marks, decoding.outside_strings(text))) == marks(value)
        assert marks_in(text) >= marks(value)  # few: those in strings are counted with them


def test_a_text_full_of_commas_is_one_value() -> None:
    assert marks_in(json.dumps({"a": 'x,"[{' * 500_000}).encode()) == 1


@pytest.mark.parametrize(
    "piece", [b"[],", b'"a",', b'{"a":', b'"ab,cdef":3,', b"[", b'"\\\\",', b'"\\"[",', b"1,"], ids=repr
)
def test_too_many_values_are_found_in_little_time(piece: bytes) -> None:
    text = b"[" + piece * (16_000_000 // len(piece))
    began = time.process_time()
    assert marks_in(text) > bounds.MAX_VALUES
    assert time.process_time() - began < 2  # quadratic would take minutes


@pytest.mark.parametrize("piece", [b'"', b"\\", b'"\\', b'\\"', b'"\\\\'], ids=repr)
def test_quotes_and_backslashes_take_no_longer(piece: bytes) -> None:
    text = piece * (4_000_000 // len(piece)) + b"," * (bounds.MAX_VALUES + 1)
    began = time.process_time()
    marks_in(text)
    assert time.process_time() - began < 2


def test_depth_is_told() -> None:
    assert not is_too_deep(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH)
    assert is_too_deep(b'{"a":' * (MAX_DEPTH + 1))
    assert not is_too_deep(json.dumps(["[" * 1000]).encode())
    assert not is_too_deep(b"[[]]," * 1000)


STREAM = "".join(f'event: message\r\nid: {n}\r\ndata: {{"n": [{n}, "é"]}}\r\n\r\n' for n in range(20)).encode()


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, len(STREAM)])
@pytest.mark.parametrize("end", [b"\r\n", b"\n", b"\r"])
def test_events_come_out_in_whole_lines_whatever_the_chunks(size: int, end: bytes) -> None:
    stream = STREAM.replace(b"\r\n", end)
    lines = EventLines()
    passed = [lines.whole(stream[at : at + size]) for at in range(0, len(stream), size)]
    assert b"".join(passed) == STREAM.replace(b"\r\n", b"\n")
    assert all(each.endswith(b"\n") for each in passed if each)
    assert not lines.held
    assert not lines.too_many


@pytest.mark.parametrize(
    ("stream", "too_many"),
    [
        (b"data: [1,2,3,4,5,6,7]\n\n" * 9, False),
        (b"data: [1,2,3,4,5,6,7,8,9,10,11]\n\n", True),
        (b"data: [1,2,3,4,5\r\ndata: ,6,7,8,9,10,11]\r\n\r\n", True),
        (b"data: [1,2,3,4,5\rdata: ,6,7,8,9,10,11]\r\r", True),
        (b'data: ["1,2,3,4,5,6,7,8,9,10,11,12"]\n\n', False),
        (b'id: "\ndata: [1,2,3,4,5,6,7,8,9,10,11]\n\n', True),
        (b'data: "\\\ndata: [1,2,3,4,5,6,7,8,9,10,11]\n\n', True),
    ],
)
@pytest.mark.parametrize("size", [1, 5, 1000])
def test_values_are_counted_for_each_event(
    stream: bytes, too_many: bool, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "MAX_VALUES", 10)
    lines = EventLines()
    for at in range(0, len(stream), size):
        lines.whole(stream[at : at + size])
    assert lines.too_many is too_many
