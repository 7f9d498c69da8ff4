"""What spans have of texts and of content: short, redacted, and valid UTF-8, whatever a program or a model wrote."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from callgate.plan.sizes import json_size
from callgate.runtime.redaction import REDACTED, Redaction
from callgate.tools import Tool
from callgate.tools.faults import printable

__all__ = ["MOST_CHARACTERS", "Content", "clean", "label"]

logger = logging.getLogger("callgate")

MOST_CHARACTERS: Final = 8192
"""Of arguments, a result, a program or a message in a span; the rest is cut."""
_MOST_READ: Final = 256 * 1024
"""Characters of a value that is redacted for a span; of a larger one, a span has the size alone."""
_MOST_LABEL: Final = 256


def clean(text: str, most: int = MOST_CHARACTERS) -> str:
    """The text in valid UTF-8, cut."""
    if len(text) > most:
        text = f"{text[: most - 1]}…"
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def label(text: str) -> str:
    """A short text on one line: a name, an id, a kind of error."""
    return clean(printable(text[:_MOST_LABEL]), _MOST_LABEL)


class Content:
    """The content of spans; nothing unless it is included.

    Args:
        included: whether spans have content.
        redaction: of the runtime.
        redact: of the telemetry, applied after it.
    """

    def __init__(self, included: bool, redaction: Redaction, redact: Callable[[str], str] | None) -> None:
        self.included = included
        self._redaction = redaction
        self._redact = redact

    def arguments(self, tool: Tool | None, arguments: Any) -> str | None:
        """The arguments of a call, as JSON text."""
        if not self.included:
            return None
        if json_size(arguments, _MOST_READ) > _MOST_READ:
            return "(not shown: the arguments are large)"
        return self._quietly(lambda: _json(self._redaction.arguments(tool, arguments)))

    def result(self, tool: Tool | None, text: str | None) -> str | None:
        """A result, given as JSON text."""
        if not self.included or text is None:
            return None
        if tool is None or len(text) > _MOST_READ:
            return f"(not shown: the result has {len(text)} characters)"
        return self._quietly(partial(self._redaction.result, tool, text))

    def text(self, text: str | None) -> str | None:
        """A text that is no JSON: a program, an error, a model's words."""
        if not self.included or text is None:
            return None
        return self._quietly(partial(self._redaction.text, text[:_MOST_READ]))

    def _quietly(self, redacted: Callable[[], str]) -> str:
        """The text, redacted once more and cut; where a function fails, nothing of it."""
        try:
            text = redacted()
            return clean(text if self._redact is None else self._redact(text))
        except Exception:
            logger.exception("redacting the content of a span failed; the span has none of it")
            return REDACTED


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
