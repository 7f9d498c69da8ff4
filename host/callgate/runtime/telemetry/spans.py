"""Spans of runs and calls. The one file that imports OpenTelemetry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from callgate.runtime.gate.records import CallRecord
from callgate.runtime.gate.watching import CallWatch, RunStart, RunWatch

from .options import Telemetry

if TYPE_CHECKING:
    from callgate.runtime.runtime import Runtime
    from callgate.tools import Tool

__all__ = ["Spans"]


class Spans:
    """Follows the runs of a runtime with spans."""

    def __init__(self, telemetry: Telemetry, runtime: Runtime) -> None:
        self.telemetry = telemetry

    def run(self, start: RunStart) -> RunWatch:
        return RunSpan()


class RunSpan:
    """The span of a run."""

    def call(self, record: CallRecord) -> CallWatch:
        return CallSpan()

    def ended(self, result: Any, error: BaseException | None) -> None:
        """End the span."""


class CallSpan:
    """The span of a call."""

    def approved(self, granted: bool, by: str, changed: bool) -> None:
        """Note the answer."""

    def calling(self, tool: Tool, arguments: dict[str, Any]) -> None:
        """Note the beginning."""

    def ended(self, tool: Tool | None, text: str | None) -> None:
        """End the span."""
