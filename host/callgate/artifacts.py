"""Files, pictures and other bytes that programs and tools produce: kept on the host, named by handles.

A program and a model see a handle; people get the bytes. The room is bounded: the oldest artifacts make room for the
newest.

One `Artifacts` serves one runtime, and so one tenant. Each conversation and each client has a `Shelf` of its own in it:
a handle cannot be guessed, and finds nothing on another shelf.

The gate sets `keeper_of_call` for each call, and `handle_form` while it writes a result that holds artifacts. Both are
context variables, so that a server's answer and a type of pydantic's find them.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import secrets
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import unquote, urlsplit

from .media import believed_type, clean_name, default_name, media_type_of, written

__all__ = [
    "HANDLE", "HANDLE_SCHEMA", "MAX_BYTES", "NOT_HERE", "Artifact", "Artifacts", "Keeper", "Shelf", "handle_form",
    "is_handle_schema", "keeper_of_call", "new_handle",
]  # fmt: skip

MAX_BYTES = 256 * 1024 * 1024
"""Bytes of all artifacts of one runtime together, their names included; beyond that the oldest go."""
MAX_ARTIFACTS = 10_000
"""Artifacts of one runtime; beyond that the oldest go."""
_T = TypeVar("_T")
HANDLE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "A file: pass it, or its `artifact`, to a tool that takes a file.",
    "properties": {
        "artifact": {"type": "string"},
        "name": {"type": "string"},
        "media_type": {"type": "string"},
        "bytes": {"type": "integer"},
    },
    "required": ["artifact", "name", "media_type", "bytes"],
}
"""JSON Schema of an object with a handle, as a tool returns it."""


def is_handle_schema(schema: Mapping[str, Any]) -> bool:
    """Whether this is `HANDLE_SCHEMA`, perhaps with another description."""
    return bool(schema.get("properties") == HANDLE_SCHEMA["properties"])


NOT_HERE = "the handle of a file that is here: this one never was, or is forgotten, or belongs to another conversation"
"""What was expected of a handle that finds nothing; the same words for every reason."""


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
            media_type: by default what the content shows. A claim that the content refutes does not count.
        """
        data = bytes(data)
        kind = believed_type(media_type, name, data)
        return cls(name=clean_name(name) or default_name(kind), media_type=kind, data=data)

    @classmethod
    def from_path(cls, path: str | Path, name: str = "", media_type: str = "") -> Artifact:
        """An artifact of the file's content now. Raises `OSError`."""
        return cls.from_bytes(Path(path).read_bytes(), name or Path(path).name, media_type)

    @classmethod
    def named(cls, name: str, data: bytes, source: str) -> Artifact:
        """An artifact under a name that a program chose."""
        kind = media_type_of(name, data)
        return cls(name=clean_name(name) or default_name(kind), media_type=kind, data=data, source=source)

    @classmethod
    def sent(cls, data: bytes, media_type: str, source: str, uri: str | None = None) -> Artifact:
        """An artifact that a server sent, which may lie about its type."""
        with contextlib.suppress(ValueError):
            name = unquote(urlsplit(uri or "").path[-1024:].rpartition("/")[2])
            return replace(cls.from_bytes(data, name, media_type), source=source, uri=uri)
        return replace(cls.from_bytes(data, "", media_type), source=source, uri=uri)

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

        No file is overwritten: the name gets a number. No symbolic link is followed below `folder`. No hidden file or
        folder is made, since programs such as git and editors do what is in theirs: dots at the beginning go.
        """
        name = "/".join(part.lstrip(".") for part in clean_name(self.name).split("/"))
        return written(Path(folder), name or default_name(self.media_type), self.data)

    def to_json(self) -> dict[str, Any]:
        """The handle, as a program and a model see it."""
        shown = {"artifact": self.handle, "name": self.name, "media_type": self.media_type, "bytes": len(self.data)}
        return shown if self.uri is None else {**shown, "uri": self.uri}

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """As an argument: a handle, or the object that has one. As a result: the object that has its handle."""
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(
            _found, serialization=core_schema.plain_serializer_function_ser_schema(_written_as_handle)
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> dict[str, Any]:
        if handler.mode == "serialization":
            return {**HANDLE_SCHEMA}
        return {"type": ["string", "object"]}


class Keeper(Protocol):
    """Has the artifacts of a call's caller, and keeps those that the call produces."""

    def get(self, handle: str | Mapping[str, Any]) -> Artifact | None:
        """See `Shelf.get`."""

    def keep(self, artifact: Artifact) -> Artifact:
        """Keep it, and return it with its handle. Raises `ToolError` where a limit forbids it."""


keeper_of_call: ContextVar[Keeper | None] = ContextVar("callgate_keeper_of_call", default=None)
"""During a call: has the artifacts of the program, plan or model that made it. The gate sets the call itself: see
`callgate.runtime.gate.records.CallUnderWay`."""
handle_form: ContextVar[Callable[[Any], Any] | None] = ContextVar("callgate_handle_form", default=None)
"""While a value is written that holds artifacts: the JSON form of one, None for a value that is none."""


def _found(given: Any) -> Any:
    """The artifact of an argument; outside of any call, where nothing is known, the argument itself."""
    if isinstance(given, Artifact):
        return given
    handle = given.get("artifact") if isinstance(given, dict) else given
    if not isinstance(handle, str):
        raise ValueError('the handle of a file ("art_..."), or the object that has it as its "artifact"')
    keeper = keeper_of_call.get()
    if keeper is None:
        return given
    artifact = keeper.get(handle)
    if artifact is None:
        raise ValueError(NOT_HERE)
    return artifact


def _written_as_handle(artifact: Any) -> Any:
    form = handle_form.get()
    shown = None if form is None else form(artifact)
    if shown is None:
        raise ValueError("it is written where its bytes are kept")
    return shown


class Artifacts:
    """The artifacts of one runtime, on all its shelves: for the operator. Programs, models and clients have shelves.

    Args:
        max_bytes: of all together.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self.max_bytes = max_bytes
        self.kept_bytes = 0
        self._kept: dict[str, tuple[weakref.ref[Shelf], Artifact]] = {}

    def shelf(self) -> Shelf:
        """A new shelf, for one conversation or client. Its artifacts go with it."""
        return Shelf(self)

    def get(self, handle: str | Mapping[str, Any]) -> Artifact | None:
        """The artifact of a handle, or of the object that holds a handle, on any shelf; None if it is not kept."""
        found = self._kept.get(_handle_in(handle))
        return None if found is None else found[1]

    def clear(self) -> None:
        """Forget all."""
        for handle in _now(self._kept):
            self._forget(handle)

    def __iter__(self) -> Iterator[Artifact]:
        return iter([artifact for _, artifact in _now(self._kept.values())])

    def __len__(self) -> int:
        return len(self._kept)

    def _keep(self, shelf: Shelf, artifact: Artifact) -> bool:
        if artifact.weight > self.max_bytes:
            return False
        while self.kept_bytes + artifact.weight > self.max_bytes or len(self._kept) >= MAX_ARTIFACTS:
            self._forget(next(iter(self._kept), ""))  # a shelf may go meanwhile, and all that was on it
        self._kept[artifact.handle] = weakref.ref(shelf), artifact
        self.kept_bytes += artifact.weight
        return True

    def _forget(self, handle: str) -> None:
        found = self._kept.pop(handle, None)
        if found is not None:
            self.kept_bytes -= found[1].weight
            if (shelf := found[0]()) is not None:
                shelf._mine.pop(handle, None)


class Shelf:
    """The artifacts of one conversation or client, oldest first."""

    def __init__(self, store: Artifacts) -> None:
        self._store = store
        self._mine: dict[str, Artifact] = {}

    def __del__(self) -> None:
        self.clear()

    def add(self, artifact: Artifact, handle: str = "") -> Artifact:
        """Keep it here, and return it with its handle. Of what is larger than the store, the handle finds nothing.

        Args:
            artifact: the same bytes may be here already; then they are here twice.
            handle: from `new_handle`, if the artifact was promised one.
        """
        kept = replace(artifact, handle=handle or new_handle())
        if self._store._keep(self, kept):
            self._mine[kept.handle] = kept
        return kept

    def holds(self, artifact: Artifact) -> bool:
        """Whether this very artifact is here."""
        return self._mine.get(artifact.handle) is artifact

    def get(self, handle: str | Mapping[str, Any]) -> Artifact | None:
        """The artifact of a handle, or of the object that holds a handle; None if it is not here, or not any more."""
        return self._mine.get(_handle_in(handle))

    def remove(self, handle: str) -> None:
        """Forget one."""
        if handle in self._mine:
            self._store._forget(handle)

    def clear(self) -> None:
        """Forget all: the conversation is over, or the client has left."""
        for handle in _now(self._mine):
            self.remove(handle)

    def __iter__(self) -> Iterator[Artifact]:
        return iter(_now(self._mine.values()))

    def __len__(self) -> int:
        return len(self._mine)


HANDLE = re.compile("art_[0-9a-f]{32}")
"""Every handle. Two texts that differ in handles alone say the same."""


def new_handle() -> str:
    """A handle that nobody can guess: 128 random bits."""
    return f"art_{secrets.token_hex(16)}"


def _now(items: Iterable[_T]) -> list[_T]:
    """The items of a dict that another thread may change. A tuple would begin to iterate before it is allocated, which
    may collect garbage, and so let other threads run."""
    return list(items)


def _handle_in(given: Any) -> str:
    handle = given.get("artifact") if isinstance(given, Mapping) else given
    return handle if isinstance(handle, str) else ""
