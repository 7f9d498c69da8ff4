"""Files, pictures and other bytes that programs and tools produce: kept on the host, named by handles.

A program and a model see a handle; people get the bytes. The room is bounded: the oldest artifacts make room for the
newest.

One `Artifacts` serves one runtime, and so one tenant. Each conversation and each client has a `Shelf` of its own in it:
a handle cannot be guessed, and finds nothing on another shelf.
"""

from __future__ import annotations

import contextlib
import hashlib
import mimetypes
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any

__all__ = ["MAX_BYTES", "Artifact", "Artifacts", "Shelf", "clean_name", "media_type_of", "shelf_of_call"]

MAX_BYTES = 256 * 1024 * 1024
"""Bytes of all artifacts of one runtime together, their names included; beyond that the oldest go."""
MAX_ARTIFACTS = 10_000
"""Artifacts of one runtime; beyond that the oldest go."""
_NAME_CHARACTERS = 120
"""Characters of one part of a name; file systems take 255 bytes."""
_NAME_PARTS = 16
_TYPE_CHARACTERS = 255
"""A type and a subtype have at most 127 characters each: RFC 6838, 4.2."""
_UNSAFE = re.compile(r'[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff<>:"\\|?*]')
"""Not in names: control characters, such as would turn the direction of the text, and what Windows refuses."""
_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"),
    (b"%PDF-", "application/pdf"), (b"PK\x03\x04", "application/zip"), (b"\x1f\x8b", "application/gzip"),
    (b"BM", "image/bmp"),
    (b"PAR1", "application/vnd.apache.parquet"), (b"SQLite format 3\0", "application/vnd.sqlite3"),
)  # fmt: skip
_IN_ZIP = {
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
}
_TEXTS = {
    ".md": "text/markdown",
    ".csv": "text/csv",
    ".tsv": "text/tab-separated-values",
    ".jsonl": "application/jsonl",
}
_OCTETS = "application/octet-stream"
_HEAD_BYTES = 4096


@dataclass(frozen=True, kw_only=True, eq=False)
class Artifact:
    """Bytes with a name and a type.

    Attributes:
        name: of the file, with ``/`` between folders; safe to be saved.
        media_type: as the content shows it (RFC 6838), e.g. ``image/png``.
        handle: the key on its `Shelf`: ``"art_"`` and 32 random hexadecimal digits. Empty while it is on none.
        source: who produced it: ``program``, or the tool, as ``server.tool`` where a server has it.
        uri: of a server's resource.
    """

    name: str
    media_type: str
    data: bytes = field(repr=False)
    handle: str = ""
    source: str = ""
    uri: str | None = None

    @classmethod
    def from_bytes(cls, data: bytes, name: str = "", media_type: str = "") -> Artifact:
        """An artifact of these bytes.

        Args:
            data: is copied.
            name: of the file; by default one after its type.
            media_type: by default what the content shows.
        """
        data = bytes(data)
        kind = _one_line(media_type) or media_type_of(name, data)
        return cls(name=clean_name(name) or default_name(kind), media_type=kind, data=data)

    @classmethod
    def from_path(cls, path: str | Path, name: str = "", media_type: str = "") -> Artifact:
        """An artifact of the file's content now. Raises `OSError`."""
        return cls.from_bytes(Path(path).read_bytes(), name or Path(path).name, media_type)

    @classmethod
    def named(cls, name: str, data: bytes, source: str) -> Artifact:
        """An artifact under a name that a program or a server chose."""
        kind = media_type_of(name, data)
        return cls(name=clean_name(name) or default_name(kind), media_type=kind, data=data, source=source)

    @property
    def size_bytes(self) -> int:
        return len(self.data)

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the bytes, in hexadecimal digits."""
        return hashlib.sha256(self.data).hexdigest()

    @property
    def text(self) -> str:
        """The bytes as UTF-8; others are replaced."""
        return self.data.decode(errors="replace")

    @property
    def weight(self) -> int:
        """Bytes of memory, about: of the data, and 4 for each character of name and URI, as Python may store them."""
        return len(self.data) + 4 * (len(self.name) + len(self.uri or ""))

    def read(self) -> bytes:
        return self.data

    def save(self, folder: str | Path) -> Path:
        """Write it into a folder, which is made if need be, and return the path. Raises `OSError`.

        No file is overwritten: the name gets a number. No symbolic link is followed below `folder`.
        """
        return _written(Path(folder), clean_name(self.name) or default_name(self.media_type), self.data)

    def to_json(self) -> dict[str, Any]:
        """The handle, as a program and a model see it."""
        shown = {"artifact": self.handle, "name": self.name, "media_type": self.media_type, "bytes": len(self.data)}
        return shown if self.uri is None else {**shown, "uri": self.uri}


class Artifacts:
    """The artifacts of one runtime.

    Args:
        max_bytes: of all together.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self.max_bytes = max_bytes
        self.kept_bytes = 0
        self._kept: dict[str, tuple[Shelf, Artifact]] = {}

    def shelf(self) -> Shelf:
        """A new shelf, for one conversation or client."""
        return Shelf(self)

    def __len__(self) -> int:
        return len(self._kept)

    def _keep(self, shelf: Shelf, artifact: Artifact) -> None:
        if artifact.weight > self.max_bytes:
            return
        while self.kept_bytes + artifact.weight > self.max_bytes or len(self._kept) >= MAX_ARTIFACTS:
            owner, oldest = self._kept[next(iter(self._kept))]
            owner.remove(oldest.handle)
        self._kept[artifact.handle] = shelf, artifact
        self.kept_bytes += artifact.weight


class Shelf:
    """The artifacts of one conversation or client, oldest first."""

    def __init__(self, store: Artifacts) -> None:
        self._store = store
        self._mine: dict[str, Artifact] = {}

    def add(self, artifact: Artifact) -> Artifact:
        """Keep it here, and return it with its handle. Of what is larger than the store, the handle finds nothing."""
        kept = replace(artifact, handle=f"art_{secrets.token_hex(16)}")
        self._mine[kept.handle] = kept
        self._store._keep(self, kept)
        if kept.handle not in self._store._kept:
            del self._mine[kept.handle]
        return kept

    def get(self, handle: str | Mapping[str, Any]) -> Artifact | None:
        """The artifact of a handle, or of the object that holds a handle; None if it is not here, or not any more."""
        name = handle.get("artifact") if isinstance(handle, Mapping) else handle
        return self._mine.get(name) if isinstance(name, str) else None

    def remove(self, handle: str) -> None:
        """Forget one."""
        if (artifact := self._mine.pop(handle, None)) is not None and self._store._kept.pop(handle, None) is not None:
            self._store.kept_bytes -= artifact.weight

    def clear(self) -> None:
        """Forget all: the conversation is over, or the client has left."""
        for handle in tuple(self._mine):
            self.remove(handle)

    def __iter__(self) -> Iterator[Artifact]:
        return iter(tuple(self._mine.values()))

    def __len__(self) -> int:
        return len(self._mine)


shelf_of_call: ContextVar[Shelf | None] = ContextVar("callgate_shelf_of_call", default=None)
"""During a tool's call: the shelf of the program, plan or model that made it."""


def clean_name(name: str) -> str:
    """A name that no file system, page or terminal misreads; empty if nothing of it is left.

    Parts are joined by ``/``: never absolute, never upwards, each at most 120 characters without control characters.
    """
    parts = []
    for part in name.split("/"):
        part = _UNSAFE.sub("_", part).strip(" ")
        if len(part) > _NAME_CHARACTERS:
            stem, dot, extension = part.rpartition(".")
            tail = dot + extension if stem and len(extension) <= 10 else ""
            part = part[: _NAME_CHARACTERS - len(tail)] + tail
        while len(part.encode()) > 255:
            part = part[: len(part) // 2]
        if part.strip("."):
            parts.append(part.rstrip("."))
    return "/".join(parts[-_NAME_PARTS:])


def media_type_of(name: str, data: bytes) -> str:
    """The media type that content shows; the name decides only between types of text, and of zipped documents."""
    for magic, kind in _MAGIC:
        if data.startswith(magic):
            return _IN_ZIP.get(Path(name).suffix.lower(), kind) if kind == "application/zip" else kind
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    try:
        head = data[:_HEAD_BYTES].decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if error.start < min(len(data), _HEAD_BYTES) - 4:  # else only the end of the head cuts a character
            return _OCTETS
        head = data[: error.start].decode("utf-8-sig", "replace")
    if "\0" in head:
        return _OCTETS
    start = head.lstrip().lower()
    if start.startswith("<svg") or (start.startswith("<?xml") and "<svg" in start):
        return "image/svg+xml"
    if start.startswith(("<!doctype html", "<html")):
        return "text/html"
    suffix = Path(name).suffix.lower()
    guessed = _TEXTS.get(suffix) or mimetypes.guess_type(f"x{suffix}", strict=False)[0] or ""
    return (
        guessed if guessed.startswith("text/") or guessed in ("application/json", "application/jsonl") else "text/plain"
    )


def default_name(media_type: str) -> str:
    """A name for bytes that have none: ``artifact.png``."""
    return f"artifact{mimetypes.guess_extension(media_type) or '.bin'}"


def _written(folder: Path, name: str, data: bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    *above, last = name.split("/")
    stem, dot, extension = last.rpartition(".") if "." in last[1:] else (last, "", "")
    opened = [os.open(folder, os.O_RDONLY | os.O_DIRECTORY)]
    try:
        for part in above:
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, dir_fd=opened[-1])
            opened.append(os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=opened[-1]))
        for number in count(1):
            last = f"{stem}{f'-{number}' if number > 1 else ''}{dot}{extension}"
            with contextlib.suppress(FileExistsError):
                fd = os.open(last, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644, dir_fd=opened[-1])
                with os.fdopen(fd, "wb") as file:
                    file.write(data)
                break
    finally:
        for each in opened:
            os.close(each)
    return folder.joinpath(*above, last)


def _one_line(text: str) -> str:
    return " ".join(_UNSAFE.sub(" ", text).split())[:_TYPE_CHARACTERS]
