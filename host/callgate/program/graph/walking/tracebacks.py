"""What a guest would tell of an error that ends the program: the program's own lines, as Python shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

__all__ = ["TEXT_LIMIT", "cut", "traceback_of"]

TEXT_LIMIT: Final = 65536
"""Characters of a message, a traceback or a repr: what a guest keeps of them."""
_FULL_NAMES: Final = {"JSONDecodeError": "json.decoder.JSONDecodeError"}


def traceback_of(source: str, frames: Sequence[tuple[int, str]], kind: str, message: str) -> str:
    """The text of a traceback.

    Args:
        source: the program.
        frames: line and function of each frame, the outermost first.
        kind: the error's class name.
        message: what it says.
    """
    lines = source.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    told = ["Traceback (most recent call last):"]
    for number, name in frames:
        told.append(f'  File "<program>", line {number}, in {name}')
        if number <= len(lines) and lines[number - 1].strip():
            told.append(f"    {lines[number - 1].strip()}")
    full = _FULL_NAMES.get(kind, kind)
    told.append(f"{full}: {message}" if message else full)
    return cut("\n".join(told) + "\n")


def cut(text: str) -> str:
    """The text as a guest would send it: of a long one, both ends."""
    if len(text) <= TEXT_LIMIT:
        return text
    half = TEXT_LIMIT // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters cut ...\n{text[-half:]}"
