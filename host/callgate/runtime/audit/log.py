"""`AuditLog`: writes the audit log of a runtime."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from callgate.runtime.gate.records import CallRecord
from callgate.runtime.gate.watching import CallWatch, RunStart, RunWatch, Watcher
from callgate.runtime.redaction import Redaction

if TYPE_CHECKING:
    from callgate.tools import Tool

__all__ = ["AuditLog"]


class AuditLog:
    """A file that gets a line for each decision about a call.

    Args:
        path: of the file; it is made if need be, readable by its owner only, and appended to.
        key: makes the chain and the digests; by default the key in ``<path>.key``, which is made if need be.
        include_content: whether arguments and results stand in it, redacted, instead of keyed digests.
    """

    def __init__(self, path: str | Path, *, key: bytes | None = None, include_content: bool = False) -> None:
        self.path = Path(path)
        self.include_content = include_content

    def watcher(self, redaction: Redaction) -> Watcher:
        """Writes what one runtime does."""
        return _Writer()

    async def __aenter__(self) -> AuditLog:
        return self

    async def __aexit__(self, *error: object) -> None:
        """Close the file."""


class _Writer:
    def run(self, start: RunStart) -> RunWatch:
        return _Run()


class _Run:
    def call(self, record: CallRecord) -> CallWatch:
        return _Call()

    def ended(self, result: Any, error: BaseException | None) -> None:
        """Write the end of the run."""


class _Call:
    def approved(self, granted: bool, by: str, changed: bool) -> None:
        """Write the answer."""

    def calling(self, tool: Tool, arguments: dict[str, Any]) -> None:
        """Write the intent."""

    def ended(self, tool: Tool | None, text: str | None) -> None:
        """Write the outcome."""
