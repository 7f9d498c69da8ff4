"""Output of a program, sent line by line while the program runs. Knows text and the wire; keeps nothing."""

from __future__ import annotations

import codecs
import io
import threading
from collections.abc import Callable
from typing import Any

_CHUNK = 8192  # characters of an unfinished line that are sent without waiting for its end

_PIECE = 1 << 16  # characters of one notification


class Output(io.TextIOBase):
    """``sys.stdout`` and ``sys.stderr`` of a program: line-buffered like a terminal, safe to use from threads."""

    encoding = "utf-8"
    errors = "replace"

    def __init__(self, send: Callable[[str, int], None], number: int, line: Callable[[], int]) -> None:
        super().__init__()
        self._send = send
        self._number = number
        self._line_now = line
        self._held: list[str] = []
        self._size = 0
        self._lock = threading.RLock()
        self.buffer = _Bytes(self)

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        with self._lock:
            if not self._size:
                self._line = self._line_now()  # of the first of the held text
            self._held.append(text)
            self._size += len(text)
            if "\n" in text or self._size > _CHUNK:
                self.flush()
        return len(text)

    @property
    def in_line(self) -> bool:
        """Whether text is held that does not end its line."""
        held = self._held[-1:]
        return bool(held) and not held[0].endswith("\n")

    def flush(self) -> None:
        if not self._held:
            return
        with self._lock:
            text = "".join(self._held)
            self._held.clear()
            self._size = 0
            for start in range(0, len(text), _PIECE):
                self._send(text[start : start + _PIECE], self._line)

    def reconfigure(self, **_: Any) -> None:
        """Changes nothing: the output stays line-buffered UTF-8."""
        self.flush()

    def fileno(self) -> int:
        return self._number

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        self.flush()  # a program cannot close the wire


class _Bytes(io.RawIOBase):
    """``sys.stdout.buffer``: bytes become text; bytes that do not decode are replaced."""

    def __init__(self, output: Output) -> None:
        super().__init__()
        self._output = output
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def write(self, data: Any) -> int:
        raw = bytes(data)
        self._output.write(self._decoder.decode(raw))
        return len(raw)

    def writable(self) -> bool:
        return True

    def flush(self) -> None:
        self._output.flush()
