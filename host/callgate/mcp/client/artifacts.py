"""Images, audio and files that tools return, kept on the host: a program and a model get a handle, people the bytes.

The room is bounded: the oldest artifacts make room for the newest. A handle cannot be guessed.

One store serves one runtime, and so one tenant.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .status import one_line

__all__ = ["MAX_BYTES", "Artifact", "Artifacts"]

MAX_BYTES = 256 * 1024 * 1024
"""Bytes of all artifacts of one runtime together, their URIs included; beyond that the oldest go."""
MAX_ARTIFACTS = 10_000
"""Artifacts of one runtime; beyond that the oldest go."""
MAX_MIME_TYPE_CHARACTERS = 255
"""A type and a subtype have at most 127 characters each: RFC 6838, 4.2."""


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """An image, audio or file that a tool returned."""

    handle: str
    """Its key in `Artifacts`: ``"art_"`` and 12 random hexadecimal digits."""
    data: bytes = field(repr=False)
    mime_type: str
    """As the server wrote it, in one line, cut after 255 characters."""
    server: str
    """The name of the server that sent it."""
    tool: str
    """The server's own name of the tool; empty if a resource was read."""
    uri: str | None = None
    """Of a resource."""

    @property
    def text(self) -> str:
        """The bytes as UTF-8."""
        return self.data.decode(errors="replace")

    @property
    def size(self) -> int:
        """Bytes of memory: those of the data, and 4 for each character of the URI, as Python may store it."""
        return len(self.data) + 4 * len(self.uri or "")

    def to_json(self) -> dict[str, Any]:
        """The handle that a program and a model see."""
        shown = {"artifact": self.handle, "mime_type": self.mime_type, "bytes": len(self.data)}
        return shown if self.uri is None else {**shown, "uri": self.uri}


class Artifacts:
    """The artifacts of one runtime.

    Args:
        max_bytes: of all together.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self.max_bytes = max_bytes
        self.kept_bytes = 0
        self._by_handle: dict[str, Artifact] = {}

    def add(self, data: bytes, mime_type: str, *, server: str, tool: str = "", uri: str | None = None) -> Artifact:
        """Keep these bytes. Data larger than `max_bytes` is not kept: its handle finds nothing."""
        handle = f"art_{secrets.token_hex(6)}"
        kind = one_line(mime_type, MAX_MIME_TYPE_CHARACTERS)
        artifact = Artifact(handle=handle, data=data, mime_type=kind, server=server, tool=tool, uri=uri)
        if artifact.size > self.max_bytes:
            return artifact
        while self.kept_bytes + artifact.size > self.max_bytes or len(self._by_handle) >= MAX_ARTIFACTS:
            self.kept_bytes -= self._by_handle.pop(next(iter(self._by_handle))).size
        self._by_handle[handle] = artifact
        self.kept_bytes += artifact.size
        return artifact

    def get(self, handle: str | Mapping[str, Any]) -> Artifact | None:
        """The artifact of a handle, or of the object that holds a handle; None if it is not kept any more."""
        name = handle.get("artifact") if isinstance(handle, Mapping) else handle
        return self._by_handle.get(name) if isinstance(name, str) else None

    def __iter__(self) -> Iterator[Artifact]:
        return iter(tuple(self._by_handle.values()))

    def __len__(self) -> int:
        return len(self._by_handle)
