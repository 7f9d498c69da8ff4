"""Server-sent events, as far as the APIs of models use them: bytes in, the data of each event out. Does no I/O."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["Events"]


class Events:
    """Reads the bytes of a stream.

    Of the format (https://html.spec.whatwg.org/multipage/server-sent-events.html) only `data` counts: names of events
    are repeated in it, and nobody reconnects. Memory is bounded by whoever bounds the bytes.
    """

    def __init__(self) -> None:
        self._rest = bytearray()
        self._data: list[bytes] = []

    def take(self, piece: bytes) -> Iterator[bytes]:
        """The data of each event that ends in this piece.

        Args:
            piece: of the stream, cut anywhere.
        """
        searched = len(self._rest)
        self._rest += piece
        begin = 0
        while (end := self._rest.find(b"\n", max(begin, searched))) >= 0:
            line = bytes(self._rest[begin:end]).removesuffix(b"\r")
            begin = end + 1
            if line:
                self._line(line)
            elif self._data:
                data, self._data = b"\n".join(self._data), []
                yield data
        del self._rest[:begin]

    def _line(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
