"""Reads artifacts in parts, for models and programs: text by offsets in bytes, never half a character. Pure.

The built-in tool `read_artifact` and the meta-tool of that name read in the same way. A model gets text; a program gets
a JSON object, with the bytes of what is not text in base64.
"""

from __future__ import annotations

import base64
from typing import Any, Final

from callgate.artifacts import Artifact
from callgate.media import is_text

from .pictures import picture_size
from .result import MODEL_CHARACTERS

__all__ = ["MODEL_BYTES", "PROGRAM_BYTES", "part_of", "read_by_model"]

MODEL_BYTES: Final = MODEL_CHARACTERS // 2
"""Bytes that a model gets unless it asks for fewer."""
PROGRAM_BYTES: Final = 1024 * 1024
"""Bytes that a program gets unless it asks for fewer: as JSON text they may be six times as many, for each call."""


def part_of(artifact: Artifact, offset: int, limit: int) -> dict[str, Any]:
    """A part of an artifact, as a program gets it.

    Args:
        artifact: text or not.
        offset: of the first byte.
        limit: bytes at most; a character of text is given whole all the same.

    Returns:
        The object with the handle, and ``offset``, ``text`` or ``base64``, and ``next_offset``, which is None at the
        end.
    """
    data, size = artifact.data, artifact.size_bytes
    start, end = min(offset, size), min(offset + limit, size)
    shown: dict[str, Any] = {**artifact.to_json(), "offset": start}
    if is_text(artifact.name, artifact.data):
        start, end = _boundary(data, start), _boundary(data, end)
        shown |= {"offset": start, "text": data[start:end].decode(errors="replace")}
    else:
        shown["base64"] = base64.b64encode(data[start:end]).decode()
    return {**shown, "next_offset": end if end < size else None}


def read_by_model(artifact: Artifact, offset: int, limit: int) -> str:
    """A part of an artifact, as a model gets it; one line about what is not text. The answer shows a picture itself."""
    part = part_of(artifact, offset, min(limit, MODEL_BYTES))
    about = f"{artifact.name} ({artifact.media_type}, {artifact.size_bytes:,} bytes)"
    if "text" not in part:
        kind = "not text" if picture_size(artifact.data) is None else "a picture"
        return f"{about} is {kind}. Pass its handle to a tool that takes files, or read its bytes in a program."
    after = part["next_offset"]
    end = artifact.size_bytes if after is None else after
    more = "the end" if after is None else f"read on with offset={after}"
    return f"{about}, bytes {part['offset']} to {end}; {more}:\n{part['text']}"


def _boundary(data: bytes, place: int) -> int:
    """The beginning of the next character of UTF-8, at most three bytes on."""
    for later in range(place, min(place + 3, len(data))):
        if data[later] & 0xC0 != 0x80:
            return later
    return min(place + 3, len(data))
