"""Bytes to lines: however the bytes are cut, the lines are the same."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from callgate_guest.wire import LineBuffer


def fed(buffer: LineBuffer, data: bytes, cuts: list[int]) -> list[bytes]:
    lines: list[bytes] = []
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    for start, end in itertools.pairwise(edges):
        lines += buffer.feed(data[start:end])
    return lines


STREAM = st.lists(st.binary(max_size=12)).map(b"\n".join)


@given(STREAM, st.lists(st.integers(0, 1000)))
def test_any_split_gives_the_same_lines(data: bytes, cuts: list[int]) -> None:
    assert fed(LineBuffer(1000), data, cuts) == data.split(b"\n")[:-1]


@given(STREAM, st.lists(st.integers(0, 1000)), st.integers(1, 10))
def test_any_split_gives_the_same_lines_before_one_that_is_too_long(data: bytes, cuts: list[int], most: int) -> None:
    expected, too_long = [], False
    *whole, rest = data.split(b"\n")
    for line in whole:
        if len(line) > most:
            too_long = True
            break
        expected.append(line)
    buffer = LineBuffer(most)
    assert fed(buffer, data, cuts) == expected
    assert buffer.too_long == (too_long or len(rest) > most)


def test_after_a_line_that_is_too_long_nothing_comes() -> None:
    buffer = LineBuffer(3)
    assert buffer.feed(b"ab\nabcd\nx\n") == [b"ab"]
    assert buffer.feed(b"\ny\n") == []


def test_it_does_not_collect_more_than_the_limit_and_one_piece() -> None:
    buffer = LineBuffer(10)
    for _ in range(1000):
        buffer.feed(b"12345678")
    assert buffer.too_long
    assert len(buffer._unfinished) <= 18
