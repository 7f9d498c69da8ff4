"""Where a program or a plan comes from: a file, ``-c``, or stdin. Knows how it is asked for; does not look inside."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from .words import Stop

__all__ = ["Source"]


@dataclass(frozen=True, slots=True)
class Source:
    """The text of a program or a plan, and the name to show for it."""

    name: str
    code: str
    from_stdin: bool = False

    @classmethod
    def read(cls, file: str | None, code: str | None) -> Source:
        """The program that the arguments name. Raises `Stop` when there is none, or two, or it cannot be read."""
        if code is not None:
            if file is not None:
                raise Stop(f"there are two programs: -c and {file}", "leave one of them out")
            return cls("<command>", code)
        if file is None:
            raise Stop(
                "there is no program", "name a file, or give the program with -c CODE, or '-' to read it from stdin"
            )
        return cls.of(file, "program")

    @classmethod
    def of(cls, file: str, kind: str) -> Source:
        """What stands in `file`, or on stdin where that is ``-``. Raises `Stop` when it cannot be read."""
        try:
            data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        except OSError as error:
            tip = f"name the file that holds the {kind}"
            if file.lstrip()[:1] in ("{", "["):
                tip += f"; JSON itself is read from stdin: echo '...' | callgate {kind} -"
            raise Stop(f"{file[:200]} cannot be read: {error.strerror}", tip) from None
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise Stop(
                f"{file} is not UTF-8: byte {error.start} is {data[error.start]:#04x}", "save it as UTF-8"
            ) from None
        return cls("<stdin>" if file == "-" else file, text, from_stdin=file == "-")
