"""Where tools come from while a runtime is open: the seam that MCP servers plug into. Knows nothing of them."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from callgate.tools import Registry

__all__ = ["Source"]


class Source(Protocol):
    """Something that puts tools into a registry, keeps them current, and takes them out again."""

    def serving(self, registry: Registry) -> AbstractAsyncContextManager[object]:
        """Put the tools in and keep them current while the context is entered; take them out when it is left.

        Entering returns once the first tools are there, and within a few seconds in any case: tools that take longer
        come later. The context is entered and left in one task, and does not care which exception ends it.

        Raises (on entering):
            ConfigurationError: nothing of it can work as the operator wrote it.
        """
        ...
