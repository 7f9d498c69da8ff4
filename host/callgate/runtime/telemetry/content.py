"""What spans have of texts and of content: short, redacted, and valid UTF-8, whatever a program or a model wrote."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from callgate.plan.sizes import json_size
from callgate.runtime.plans.result import PlanResult
from callgate.runtime.redaction import REDACTED, Redaction
from callgate.runtime.result import CodeResult
from callgate.runtime.run_redaction import RunRedaction
from callgate.tools import Registry, Tool
from callgate.tools.faults import printable

from .options import Telemetry

__all__ = ["MOST_CHARACTERS", "Content", "clean", "label"]

logger = logging.getLogger("callgate")

MOST_CHARACTERS: Final = 8192
"""Of arguments, a result, a program or a message in a span; the rest is cut."""
_MOST_READ: Final = 256 * 1024
"""Characters of a text that are redacted for a span. Larger arguments, and larger results of runs, are left out."""
_MOST_OF_RESULT: Final = 4096
"""Characters of a run's result: what its model would read."""
_MOST_LABEL: Final = 256
_JSON: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str)


def clean(text: str, most: int = MOST_CHARACTERS) -> str:
    """The text in valid UTF-8, cut."""
    if len(text) > most:
        text = f"{text[: most - 1]}…"
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def label(text: str) -> str:
    """A short text on one line: a name, an id, a kind of error."""
    return clean(printable(text[:_MOST_LABEL]), _MOST_LABEL)


class Content:
    """The content of the spans of one run, or of an agent's task with all of its runs.

    Args:
        redaction: of the run. It learns secrets from calls, and finds them in texts that come later.
        redact: of the telemetry, applied after it.
    """

    def __init__(self, redaction: RunRedaction, redact: Callable[[str], str] | None) -> None:
        self._redaction = redaction
        self._redact = redact

    @classmethod
    def of(cls, telemetry: Telemetry, redaction: Redaction, registry: Registry) -> Content | None:
        """The content of a run's spans; None if they have none."""
        return cls(redaction.run(registry), telemetry.redact) if telemetry.include_content else None

    def arguments(self, tool: Tool | None, arguments: Any) -> str:
        """The arguments of a call, as JSON text."""
        if json_size(arguments, _MOST_READ) > _MOST_READ:
            return "(not shown: the arguments are large)"
        return self._quietly(lambda: _JSON.encode(self._redaction.arguments(tool, arguments)))

    def result(self, tool: Tool | None, text: str) -> str:
        """A result, given as JSON text."""
        return self._quietly(lambda: self._redaction.result(tool, text))

    def plan(self, plan: Any) -> str:
        """A plan: a JSON value, or the text of one."""
        if not isinstance(plan, str):
            return self.arguments(None, plan)
        return self._quietly(lambda: self._redaction.plan(plan)) if len(plan) <= _MOST_READ else self.text(plan)

    def run(self, result: CodeResult | PlanResult) -> str:
        """What a model would read of a run's result."""
        if isinstance(result, CodeResult):
            large = json_size(result.value, _MOST_READ) > _MOST_READ
        else:
            large = sum(len(step.result_json or "") for step in result.steps) > _MOST_READ
        return "(not shown: the result is large)" if large else self.text(result.for_model(_MOST_OF_RESULT))

    def source(self, code: str) -> str:
        """A program."""
        return self._quietly(lambda: self._redaction.source(code, _MOST_READ))

    def text(self, text: str) -> str:
        """A text that is not JSON: an error, a model's words."""
        return self._quietly(lambda: self._redaction.text(text, _MOST_READ))

    # of a model's messages

    def arguments_of(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """The arguments of a model's call, as a JSON value; as text if they are cut."""
        shown = self.arguments(self._redaction.tool(name), arguments)
        try:
            return json.loads(shown)
        except (ValueError, RecursionError):
            return shown

    def result_of(self, name: str, text: str) -> str:
        """The result of a model's call: JSON text, or an error's words."""
        try:
            json.loads(text)
        except (ValueError, RecursionError):
            return self.text(text)
        return self.result(self._redaction.tool(name), text)

    def _quietly(self, redacted: Callable[[], str]) -> str:
        """The text, redacted once more and cut; where a function fails, nothing of it."""
        try:
            text = redacted()
            return clean(text if self._redact is None else self._redact(text))
        except Exception:
            logger.exception("redacting the content of a span failed; the span has none of it")
            return REDACTED
