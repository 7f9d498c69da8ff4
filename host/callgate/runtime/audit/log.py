"""`AuditLog`: the audit log of a runtime, as an operator makes it."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import anyio
import anyio.to_thread

from callgate.errors import ConfigurationError
from callgate.runtime.gate.watching import RunStart, RunWatch, Watcher
from callgate.runtime.redaction import Redaction

from .chain import Keys
from .file import AppendFile
from .keys import key_of
from .watcher import Auditor

__all__ = ["AuditLog"]

_LEAST_KEY_BYTES = 16


class AuditLog:
    """A file that gets a line for each decision about a call; see ``docs/audit.md``.

    Args:
        path: of the file; it is made if need be, readable by its owner only, and appended to. Several runtimes and
            processes may share it.
        key: binds the lines, and makes the digests of values; at least 16 bytes that nobody can guess. By default it is
            in ``<path>.key``, which is made with the log.
        include_content: whether arguments, results and errors stand in it, redacted, instead of keyed digests.

    Raises:
        ConfigurationError: the key is too short. On entering: the file or its key cannot be used.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, key: bytes | None = None, include_content: bool = False
    ) -> None:
        if key is not None and len(key) < _LEAST_KEY_BYTES:
            raise ConfigurationError(f"the key of an audit log has at least {_LEAST_KEY_BYTES} bytes, not {len(key)}")
        self.path = Path(os.path.abspath(path))
        self.include_content = include_content
        self._key = key
        self._entering = threading.Lock()  # runtimes of several threads may share the log
        self._entered = 0
        self._keys: Keys | None = None
        self._file: AppendFile | None = None

    def watcher(self, redaction: Redaction) -> Watcher:
        """Writes what one runtime does, while the log is open."""
        return _Watcher(self, redaction)

    async def __aenter__(self) -> AuditLog:
        with self._entering:
            if not self._entered:
                self._keys = Keys(self._key if self._key is not None else key_of(self.path))
                self._file = AppendFile(self.path, self._keys)
            self._entered += 1
        return self

    async def __aexit__(self, *error: object) -> None:
        """End this process's chain with the last runtime that uses the log."""
        file = None
        with self._entering:
            self._entered -= 1
            if not self._entered:
                file, self._file = self._file, None
        if file is not None:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(file.end)

    def _auditor(self, redaction: Redaction) -> Auditor:
        if self._file is None or self._keys is None:
            raise ConfigurationError("the audit log is not open: use the runtime as `async with Runtime(...)`")
        return Auditor(self._file, self._keys, redaction, self.include_content)


class _Watcher:
    essential = True

    def __init__(self, log: AuditLog, redaction: Redaction) -> None:
        self._log = log
        self._redaction = redaction

    def run(self, start: RunStart) -> RunWatch:
        """A run begins."""
        return self._log._auditor(self._redaction).run(start)
