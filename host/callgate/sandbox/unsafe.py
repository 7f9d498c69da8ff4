"""No sandbox at all: a bare child process, for debugging. Only by its name, and with a warning."""

from __future__ import annotations

import sys
import warnings
from typing import Self

from callgate.errors import SandboxUnavailable

from .process import ProcessBackend

__all__ = ["UnsafeBackend", "UnsandboxedWarning"]


class UnsandboxedWarning(UserWarning):
    """A program runs with all rights of this user."""


class UnsafeBackend(ProcessBackend):
    """Child processes that nothing confines. Their memory and processor time are limited, nothing else is."""

    name = "unsafe"
    no_files = "sandbox='unsafe' has no files: use sandbox='jail' or 'docker'"
    description = "NOTHING confines the program: it may do whatever this user may do"

    async def __aenter__(self) -> Self:
        if sys.platform == "win32":
            raise SandboxUnavailable("sandbox='unsafe' needs a Unix: run callgate in WSL 2, where the jail works, too")
        if not self._replays:  # the backend that this is made from has warned
            warnings.warn(
                "sandbox='unsafe': programs run with all of this user's rights", UnsandboxedWarning, stacklevel=3
            )
        return await super().__aenter__()
