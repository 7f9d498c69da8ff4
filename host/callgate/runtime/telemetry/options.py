"""`Telemetry`: how a runtime reports to OpenTelemetry. Imports none of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

__all__ = ["Telemetry"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Telemetry:
    """Traces and metrics of everything that a runtime does, for OpenTelemetry.

    Needs ``opentelemetry-api``, and reports to the providers that the process has set up.

    Args:
        include_content: whether spans have arguments, results, programs and prompts, redacted.
        redact: receives each text of that content and returns what spans may have, after `Runtime(redaction=...)`.
        tracer_provider: instead of the process's own.
        meter_provider: instead of the process's own.
    """

    include_content: bool = False
    redact: Callable[[str], str] | None = None
    tracer_provider: TracerProvider | None = None
    meter_provider: MeterProvider | None = None
