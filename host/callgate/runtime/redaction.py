"""Redaction: what stays out of spans, audit logs, transcripts, pages, and what people see of events.

A value is redacted because its schema says that it is a secret, because of its key, or because the operator's function
says so. In its place stands `REDACTED`, so that nobody takes it for the value. Programs, tools and models get values.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final

from callgate.tools import Tool

__all__ = ["REDACTED", "Redaction"]

REDACTED: Final = "[redacted]"
"""Stands in the place of a value that was redacted."""


class Redaction:
    """What to redact, beside what schemas say.

    Args:
        keys: names of arguments, fields and headers whose values are redacted, in any case.
        redact: receives each text and returns what may be shown.
    """

    def __init__(self, keys: Collection[str] = (), redact: Callable[[str], str] | None = None) -> None:
        self.keys = frozenset(key.casefold() for key in keys)
        self.redact = redact

    def arguments(self, tool: Tool | None, arguments: Any) -> Any:
        """The arguments of a call, a redacted copy; of a tool that this run does not have, None."""
        return arguments

    def result(self, tool: Tool | None, text: str) -> str:
        """A result as JSON text, redacted.

        Args:
            tool: whose result it is.
            text: JSON.
        """
        return text

    def text(self, text: str) -> str:
        """A text that is no JSON, redacted: an error, a print, a model's words."""
        return text

    def value(self, value: Any) -> Any:
        """A JSON value without a tool, redacted."""
        return value

    def run(self) -> Redaction:
        """The redaction of one run."""
        return self
