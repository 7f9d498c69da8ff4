"""Names and media types of files, as their content shows them, and how a file is written. Knows no artifact."""

from __future__ import annotations

import contextlib
import errno
import mimetypes
import os
import re
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

__all__ = ["believed_type", "clean_name", "default_name", "is_text", "media_type_of", "written"]

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
_DECIDED = frozenset(kind for _, kind in _MAGIC) | {"image/webp", "image/svg+xml", "text/html"}
"""Types that content alone decides: a claim changes nothing."""
_ZIPPED = "application/zip"


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


def believed_type(claim: str, name: str, data: bytes) -> str:
    """The media type that somebody claims, unless the content shows another; what the content shows without a claim."""
    claim, shown = _one_line(claim).lower(), media_type_of(name, data)
    if not claim or (shown in _DECIDED and not (shown == _ZIPPED and claim.startswith("application/"))):
        return shown
    lies = claim in _DECIDED or (claim.startswith("text/") and shown == _OCTETS)
    return shown if lies else claim


def is_text(name: str, data: bytes) -> bool:
    """Whether the content is text, whatever its type says."""
    shown = media_type_of(name, data)
    return shown.startswith("text/") or shown in ("application/json", "application/jsonl", "image/svg+xml")


def default_name(media_type: str) -> str:
    """A name for bytes that have none: ``artifact.png``."""
    return f"artifact{mimetypes.guess_extension(media_type) or '.bin'}"


def written(folder: Path, name: str, data: bytes) -> Path:
    """Write a file below a folder and return its path. Overwrites nothing: the name gets a number. Follows no symbolic
    link below the folder; on Windows, none that was there before. Raises `OSError`."""
    folder.mkdir(parents=True, exist_ok=True)
    *above, last = name.split("/")
    if sys.platform == "win32":
        each = _written_by_path(folder, above, last, data)
    else:
        opened = [os.open(folder, os.O_RDONLY | os.O_DIRECTORY)]
        try:
            for part in above:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, dir_fd=opened[-1])
                opened.append(os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=opened[-1]))
            for each in _numbered(last):
                with contextlib.suppress(FileExistsError):
                    fd = os.open(each, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644, dir_fd=opened[-1])
                    with os.fdopen(fd, "wb") as file:
                        file.write(data)
                    break
        finally:
            for descriptor in opened:
                os.close(descriptor)
    return folder.joinpath(*above, each)


def _written_by_path(folder: Path, above: list[str], last: str, data: bytes) -> str:
    """As `written`, by whole paths: Windows opens nothing below an open folder. Returns the last part of the name."""
    below = os.path.realpath(folder)
    for part in above:
        below = os.path.join(below, part)
        with contextlib.suppress(FileExistsError):
            os.mkdir(below)
        if os.path.normcase(os.path.realpath(below)) != os.path.normcase(below):  # a symbolic link, or a junction
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), below)
    for each in _numbered(last):
        path = os.path.join(below, each)
        if os.path.lexists(path):  # opening might follow a link to nothing
            continue
        with contextlib.suppress(FileExistsError), open(path, "xb") as file:
            file.write(data)
            break
    return each


def _numbered(name: str) -> Iterator[str]:
    """``plot.png``, ``plot-2.png``, ``plot-3.png`` and so on."""
    stem, dot, extension = name.rpartition(".") if "." in name[1:] else (name, "", "")
    yield name
    for number in count(2):
        yield f"{stem}-{number}{dot}{extension}"


def _one_line(text: str) -> str:
    return " ".join(_UNSAFE.sub(" ", text).split())[:_TYPE_CHARACTERS]
