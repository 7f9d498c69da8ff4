"""An attach stream and its frames: any splitting of the bytes gives the same frames, and garbage is refused."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgate.sandbox.docker.link import Demultiplexer
from callgate_guest.frames import MAX_PAYLOAD, Frame, FrameBuffer, FrameError, frame, frames
from sandbox.docker.taken import piece

KINDS = st.sampled_from([b"D", b"O", b"P", b"X", b"\x00", b"\xff"])
FRAMES = st.lists(st.tuples(KINDS, st.binary(max_size=200)), max_size=20)
CUTS = st.lists(st.integers(1, 60), max_size=100)
PIECES = st.lists(st.tuples(st.sampled_from([0, 1, 2]), st.binary(max_size=100)), max_size=20)


def cut(data: bytes, sizes: list[int]) -> Iterator[bytes]:
    at = 0
    for size in sizes:
        yield data[at : at + size]
        at += size
    yield data[at:]


@given(FRAMES, CUTS)
def test_frames_come_out_whole_however_the_bytes_are_split(sent: list[Frame], sizes: list[int]) -> None:
    data = b"".join(frame(*each) for each in sent)
    buffer = FrameBuffer()
    assert [each for part in cut(data, sizes) for each in buffer.feed(part)] == sent


@given(PIECES, CUTS)
def test_stdout_comes_out_whole_however_the_bytes_are_split(pieces: list[tuple[int, bytes]], sizes: list[int]) -> None:
    data = b"".join(piece(data, stream) for stream, data in pieces)
    streams = Demultiplexer()
    out = b"".join(streams.feed(part) for part in cut(data, sizes))
    assert out == b"".join(data for stream, data in pieces if stream != 2)
    errors = b"".join(data for stream, data in pieces if stream == 2)
    assert streams.errors == errors[-4096:].decode("utf-8", "replace").strip()


@given(FRAMES, CUTS, CUTS)
def test_frames_in_pieces_come_out_whole(sent: list[Frame], piece_sizes: list[int], sizes: list[int]) -> None:
    data = b"".join(frame(*each) for each in sent)
    attached = b"".join(piece(part) + piece(b"noise", 2) for part in cut(data, piece_sizes))
    streams, buffer = Demultiplexer(), FrameBuffer()
    assert [each for part in cut(attached, sizes) for each in buffer.feed(streams.feed(part))] == sent


@given(st.integers(0, 3 * MAX_PAYLOAD))
def test_data_of_any_length_goes_in_frames_that_are_short_enough(length: int) -> None:
    data = bytes(length)
    found = FrameBuffer().feed(frames(b"D", data))
    assert b"".join(payload for _, payload in found) == data
    assert all(len(payload) <= MAX_PAYLOAD for _, payload in found)


@given(st.binary(max_size=5000), CUTS)
def test_garbage_is_frames_or_a_frame_error_and_nothing_else(data: bytes, sizes: list[int]) -> None:
    streams, buffer = Demultiplexer(), FrameBuffer()
    try:
        for part in cut(data, sizes):
            buffer.feed(streams.feed(part))
    except FrameError:
        pass


@pytest.mark.parametrize("length", [MAX_PAYLOAD + 1, 1 << 31, (1 << 32) - 1])
def test_a_frame_that_is_too_long_is_refused_at_its_header(length: int) -> None:
    with pytest.raises(FrameError, match=f"a frame of {length} bytes; {MAX_PAYLOAD} is the most"):
        FrameBuffer().feed(struct.pack(">cI", b"D", length))


@pytest.mark.parametrize("length", [(1 << 24) + 1, (1 << 32) - 1])
def test_a_piece_that_is_too_long_is_refused_at_its_header(length: int) -> None:
    with pytest.raises(FrameError, match=f"a piece of stream 1 with {length} bytes"):
        Demultiplexer().feed(struct.pack(">B3xI", 1, length))


@pytest.mark.parametrize("stream", [3, 72, 255])
def test_a_stream_that_does_not_exist_is_refused(stream: int) -> None:
    with pytest.raises(FrameError, match=f"a piece of stream {stream}"):
        Demultiplexer().feed(piece(b"x", stream))


def test_of_a_flood_of_stderr_only_the_end_is_kept() -> None:
    streams = Demultiplexer()
    for number in range(2000):
        assert streams.feed(piece(b"%08d" % number * 100, 2)) == b""
    assert len(streams.errors) <= 4096
    assert streams.errors.endswith("00001999")
