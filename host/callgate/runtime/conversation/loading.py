"""Asking an operator's loader for tools, within bounds. What goes wrong becomes a line for the model, or is logged."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import anyio

from callgate.errors import ConfigurationError, ToolError
from callgate.tools import Tool

from .loaded import LoadedTools

__all__ = ["Loader", "Loading"]

logger = logging.getLogger("callgate")

Loader = Callable[[str], Awaitable[Iterable[Tool | Callable[..., Any]]]]
"""Given the words of a search, gives tools, or functions to make tools of."""


class Loading:
    """Has tools loaded into a conversation.

    Args:
        loader: who gives them.
        seconds: so long it may take.
        into: where they go.
    """

    def __init__(self, loader: Loader, seconds: float, into: LoadedTools) -> None:
        self._loader = loader
        self._seconds = seconds
        self._into = into

    async def load(self, query: str) -> tuple[str, tuple[str, ...]]:
        """Load what there is for a search.

        Returns:
            A line for the model where that failed, else nothing; and the names of the tools, as they are known now.
        """
        if not query.strip():
            return "", ()
        try:
            with anyio.fail_after(self._seconds):
                tools = _listed(await self._loader(query))
            return "", tuple(dict.fromkeys(self._into.add(tools)))
        except TimeoutError:
            logger.warning("loading tools for %r took more than %g s", query[:80], self._seconds)
            return f"Note: loading more tools took longer than {self._seconds:g} s; there may be others.", ()
        except ToolError as error:
            return f"Note: more tools could not be loaded: {error.message}", ()
        except Exception:
            logger.exception("the loader failed for %r", query[:80])
            return "Note: more tools could not be loaded; there may be others.", ()


def _listed(tools: Any) -> list[Tool | Callable[..., Any]]:
    if tools is None:
        return []
    if isinstance(tools, (str, bytes)) or not isinstance(tools, Iterable):
        raise ConfigurationError(f"the loader has to give a list of tools, not {type(tools).__name__}")
    return list(tools)
