"""Images, audio and files that tools return, kept on the host: a program and a model get a handle, people the bytes.

1. Bounded: when the newest needs room, the oldest goes of the server that has the most, the newest counted. So a
   server that floods takes away what it sent itself, and of the others only what is more than its own share.
2. What a server says of the bytes is bounded with them: a mime type is cut, a URI is counted.
3. A handle cannot be guessed: a server that writes handles into its answers names nothing of another.

One store serves one runtime, and so one tenant.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
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


@dataclass(slots=True)
class _Share:
    """What is kept of one server."""

    handles: OrderedDict[str, None] = field(default_factory=OrderedDict)
    size: int = 0


class Artifacts:
    """The artifacts of one runtime.

    Args:
        max_bytes: of all together.
    """

    def __init__(self, max_bytes: int = MAX_KEPT_BYTES) -> None:
        self.max_bytes = max_bytes
        self.kept_bytes = 0
        self._kept: OrderedDict[str, Artifact] = OrderedDict()
        self._of: dict[str, _Share] = {}

    def add(self, data: bytes, mime_type: str, *, server: str, tool: str = "", uri: str | None = None) -> Artifact:
        """Keep these bytes. Larger than all the room there is, or than the others' shares leave, they are not kept: the
        handle leads nowhere."""
        handle = f"art_{secrets.token_hex(6)}"
        kind = one_line(mime_type, MAX_MIME_TYPE_CHARACTERS)
        artifact = Artifact(handle=handle, data=data, mime_type=kind, server=server, tool=tool, uri=uri)
        if artifact.size > self.max_bytes:
            return artifact
        own = self._of.setdefault(server, _Share())
        while self.kept_bytes + artifact.size > self.max_bytes or len(self._kept) >= MAX_KEPT:
            fullest = max((each for each in self._of.values() if each is not own), key=self._part, default=own)
            if fullest is own or self._part(own, artifact) > self._part(fullest):
                fullest = own
            if not fullest.handles:
                return artifact
            self._forget_oldest(fullest)
        self._kept[handle] = artifact
        self.kept_bytes += artifact.size
        own.handles[handle] = None
        own.size += artifact.size
        return artifact

    def _forget_oldest(self, share: _Share) -> None:
        handle, _ = share.handles.popitem(last=False)
        size = self._kept.pop(handle).size
        share.size -= size
        self.kept_bytes -= size

    def _part(self, share: _Share, more: Artifact | None = None) -> float:
        """How much of the room it has: of the bytes or of the places, whichever is more."""
        size, count = (0, 0) if more is None else (more.size, 1)
        return max((share.size + size) / (self.max_bytes or 1), (len(share.handles) + count) / MAX_KEPT)

    def get(self, handle: str | Mapping[str, Any]) -> Artifact | None:
        """The artifact of that handle, or of the object that holds one; None where it is not kept, or not any more."""
        name = handle.get("artifact") if isinstance(handle, Mapping) else handle
        return self._kept.get(name) if isinstance(name, str) else None

    def __iter__(self) -> Iterator[Artifact]:
        return iter(tuple(self._kept.values()))

    def __len__(self) -> int:
        return len(self._kept)
