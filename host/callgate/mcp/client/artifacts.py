"""Images, audio and files that tools return, kept on the host: a program and a model get a handle, people the bytes.

The room is bounded: when the newest needs some, the oldest go. A handle cannot be guessed.

One store serves one runtime, and so one tenant.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .status import one_line

__all__ = ["MAX_KEPT_BYTES", "Artifact", "Artifacts"]

MAX_KEPT_BYTES = 256 * 1024 * 1024
"""Bytes of all artifacts of one runtime together, their URIs included; beyond that the oldest are given up."""
MAX_KEPT = 10_000
"""Artifacts of one runtime; beyond that likewise."""
MAX_MIME_TYPE_CHARACTERS = 255
"""A type and a subtype have at most 127 characters each: RFC 6838, 4.2."""


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """What a tool returned beside text."""

    handle: str
    """Under which it is found: ``"art_"`` and 12 hexadecimal digits of chance."""
    data: bytes = field(repr=False)
    mime_type: str
    """As the server wrote it, in one line, cut after 255 characters."""
    server: str
    """The name of the server it came from."""
    tool: str
    """The server's own name of the tool; empty where a resource was read."""
    uri: str | None = None
    """Of a resource."""

    @property
    def text(self) -> str:
        """The bytes as UTF-8."""
        return self.data.decode(errors="replace")

    @property
    def size(self) -> int:
        """Bytes that it takes of the room: its own, and 4 for each character of its URI, as Python may keep them."""
        return len(self.data) + 4 * len(self.uri or "")

    def to_json(self) -> dict[str, Any]:
        """What a program and a model see in its place."""
        seen = {"artifact": self.handle, "mime_type": self.mime_type, "bytes": len(self.data)}
        return seen if self.uri is None else {**seen, "uri": self.uri}


class Artifacts:
    """The artifacts of one runtime.

    Args:
        max_bytes: of all together.
    """

    def __init__(self, max_bytes: int = MAX_KEPT_BYTES) -> None:
        self.max_bytes = max_bytes
        self.kept_bytes = 0
        self._kept: dict[str, Artifact] = {}

    def add(self, data: bytes, mime_type: str, *, server: str, tool: str = "", uri: str | None = None) -> Artifact:
        """Keep these bytes. Larger than all the room there is, they are not kept: the handle leads nowhere."""
        handle = f"art_{secrets.token_hex(6)}"
        kind = one_line(mime_type, MAX_MIME_TYPE_CHARACTERS)
        artifact = Artifact(handle=handle, data=data, mime_type=kind, server=server, tool=tool, uri=uri)
        if artifact.size > self.max_bytes:
            return artifact
        while self.kept_bytes + artifact.size > self.max_bytes or len(self._kept) >= MAX_KEPT:
            self.kept_bytes -= self._kept.pop(next(iter(self._kept))).size
        self._kept[handle] = artifact
        self.kept_bytes += artifact.size
        return artifact

    def get(self, handle: str | Mapping[str, Any]) -> Artifact | None:
        """The artifact of that handle, or of the object that holds one; None where it is not kept, or not any more."""
        name = handle.get("artifact") if isinstance(handle, Mapping) else handle
        return self._kept.get(name) if isinstance(name, str) else None

    def __iter__(self) -> Iterator[Artifact]:
        return iter(tuple(self._kept.values()))

    def __len__(self) -> int:
        return len(self._kept)
