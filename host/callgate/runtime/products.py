"""The artifacts of one run, within its limits: what the program displays, what its tools return, and the files that it
leaves. Knows no guest's bytes and no sandbox."""

from __future__ import annotations

from callgate.artifacts import Artifact, Shelf
from callgate.limits import Limits
from callgate.sandbox.backend import Guest

__all__ = ["Products"]

_MOST_NOTES = 10
_SOURCE = "program"


class Products:
    """Takes the artifacts of one run.

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

    def add(self, artifact: Artifact) -> Artifact | None:
        """Keep it, and return it with its handle; None if that would pass a limit, which `notes` tells."""
        reason = self._no_room(artifact.size_bytes)
        if reason:
            self._left.append(f"{artifact.name} was not kept: {reason}")
            return None
        kept = self.shelf.add(artifact)
        self._bytes += kept.size_bytes
        self.artifacts.append(kept)
        return kept

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
        self._left += collected.left
        for name, data in collected.files:
            self.add(Artifact.named(name, data, _SOURCE))

    @property
    def notes(self) -> list[str]:
        """What was not kept, and why."""
        more = len(self._left) - _MOST_NOTES
        return [*self._left[:_MOST_NOTES], *([f"{more} more artifacts were not kept"] if more > 0 else [])]

    def _no_room(self, size: int) -> str:
        most, most_bytes = self._limits.max_artifacts, self._limits.max_artifact_bytes
        if len(self.artifacts) >= most:
            return f"a run may have {most} artifacts (max_artifacts)"
        if self._bytes + size > most_bytes:
            return (
                f"it has {size:,} bytes, and the artifacts of a run may have {most_bytes:,} in all (max_artifact_bytes)"
            )
        return ""
