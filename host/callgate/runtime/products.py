"""The artifacts of one run, within its limits: what the program displays, what its tools return, and the files that it
leaves. Knows no guest's bytes and no sandbox."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from callgate.artifacts import Artifact, Shelf
from callgate.errors import ToolError
from callgate.limits import Limits
from callgate.media import clean_name
from callgate.sandbox.backend import Guest

__all__ = ["Products"]

_MOST_NOTES = 10
_SOURCE = "program"
_TEXTS = ("text/html", "text/markdown", "image/svg+xml")
"""Types of text that content need not show."""


class Products:
    """Takes the artifacts of one run; the `Keeper` of its calls.

    Args:
        shelf: keeps them.
        limits: `max_artifacts` and `max_artifact_bytes`.

    Attributes:
        artifacts: those that were kept, in the order in which they came.
    """

    def __init__(self, shelf: Shelf, limits: Limits) -> None:
        self.shelf = shelf
        self.artifacts: list[Artifact] = []
        self._limits = limits
        self._bytes = 0
        self._left: list[str] = []
        self._more_left = 0
        """Others that were not kept, which `notes` counts."""

    def takes(self, name: str, size: int) -> bool:
        """Whether there is room for an artifact; `notes` tells it if there is none."""
        reason = self._no_room(size)
        if reason and len(self._left) < _MOST_NOTES:
            self._left.append(f"{clean_name(name) or 'an artifact'} was not kept: {reason}")
        elif reason:
            self._more_left += 1
        return not reason

    def add(self, artifact: Artifact) -> Artifact | None:
        """Keep it, and return it with its handle; None if that would pass a limit, which `notes` tells."""
        if not self.takes(artifact.name, artifact.size_bytes):
            return None
        return self._put(artifact)

    def get(self, handle: str | Mapping[str, Any]) -> Artifact | None:
        """The artifact of a handle on the shelf: see `Shelf.get`."""
        return self.shelf.get(handle)

    def keep(self, artifact: Artifact) -> Artifact:
        """Keep what a tool produced. Raises `ToolError` if that would pass a limit."""
        self.must_have_room([(artifact.name, artifact.size_bytes)])
        return self._put(artifact)

    def keep_all(self, promised: Mapping[str, Artifact]) -> None:
        """Keep all artifacts of a result under the handles that it has of them, or none. Raises `ToolError`."""
        self.must_have_room([(each.name, each.size_bytes) for each in promised.values()])
        for handle, artifact in promised.items():
            self._put(artifact, handle)

    def must_have_room(self, artifacts: Sequence[tuple[str, int]]) -> None:
        """Raise `ToolError` unless artifacts of these names and sizes can all be kept."""
        total = 0
        for number, (name, size) in enumerate(artifacts):
            if reason := self._no_room(size, number, total):
                raise ToolError(f"the tool returned {name!r}, which was not kept: {reason}; ask for less")
            total += size

    def _put(self, artifact: Artifact, handle: str = "") -> Artifact:
        kept = self.shelf.add(artifact, handle)
        self._bytes += kept.size_bytes
        self.artifacts.append(kept)
        return kept

    def add_shown(self, name: str, media_type: str, data: bytes) -> Artifact | None:
        """Keep what a program displays: see `add`. What is declared counts only for text, else the content does."""
        artifact = Artifact.named(name, data, _SOURCE)
        if artifact.media_type == "text/plain" and media_type in _TEXTS:
            artifact = replace(artifact, media_type=media_type)
        return self.add(artifact)

    async def collect(self, guest: Guest, *, over: bool = False) -> None:
        """Take the files that a program has left. The guest is idle.

        Args:
            guest: ran the program.
            over: it runs no other: a guest with files is killed first.
        """
        collecting = getattr(guest, "collect", None)
        if collecting is None:
            return
        if over:
            guest.kill()
        most = self._limits.max_artifacts - len(self.artifacts)
        collected = await collecting(most, self._limits.max_artifact_bytes - self._bytes)
        room = _MOST_NOTES - len(self._left)
        self._left += collected.left[:room]
        self._more_left += len(collected.left[room:])
        for name, data in collected.files:
            self.add(Artifact.named(name, data, _SOURCE))

    @property
    def notes(self) -> list[str]:
        """What was not kept, and why."""
        more = self._more_left
        return [*self._left, *([f"{more:,} more artifacts were not kept"] if more else [])]

    def _no_room(self, size: int, others: int = 0, other_bytes: int = 0) -> str:
        """Why an artifact of this size cannot be kept beside so many others that are not kept yet; empty if it can."""
        most, most_bytes = self._limits.max_artifacts, self._limits.max_artifact_bytes
        if len(self.artifacts) + others >= most:
            return f"a run may have {most} artifacts (max_artifacts)"
        if self._bytes + other_bytes + size > most_bytes:
            return (
                f"it has {size:,} bytes, and the artifacts of a run may have {most_bytes:,} in all (max_artifact_bytes)"
            )
        return ""
