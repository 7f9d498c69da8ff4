"""`Telemetry`: how a runtime reports to OpenTelemetry. Imports none of it before a runtime uses it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from callgate.errors import ConfigurationError

from .names import LATEST, TABLES, Conventions

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from callgate.runtime.redaction import Redaction

    from .spans import Spans

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
        conventions: version of OpenTelemetry's conventions whose names spans and metrics have: ``"1.41"`` or
            ``"1.36"``, since those for generative AI still change.
    """

    include_content: bool = False
    redact: Callable[[str], str] | None = None
    tracer_provider: TracerProvider | None = None
    meter_provider: MeterProvider | None = None
    conventions: Conventions = LATEST

    def __post_init__(self) -> None:
        if self.conventions not in TABLES:
            raise ConfigurationError(f"there are no conventions {self.conventions!r}; there are: {', '.join(TABLES)}")
        if self.redact is not None and not callable(self.redact):
            raise ConfigurationError(f"redact is a function that receives and returns a text, not {self.redact!r}")

    def watcher(self, redaction: Redaction) -> Spans:
        """Follow the runs of one runtime.

        Raises:
            ConfigurationError: ``opentelemetry-api`` is not installed.
        """
        try:
            from .spans import Spans
        except ImportError as error:
            if (error.name or "").partition(".")[0] != "opentelemetry":
                raise
            from callgate.extras import how_to_install

            message = f"telemetry needs opentelemetry-api, which is not installed: {how_to_install('telemetry')}"
            raise ConfigurationError(message) from None
        return Spans(self, redaction)
