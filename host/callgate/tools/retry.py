"""How often and how patiently a failed call is tried again. Arithmetic only: no clock, no randomness, no calls."""

from __future__ import annotations

import math
from dataclasses import dataclass

from callgate.errors import ConfigurationError

__all__ = ["Retry"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Retry:
    """Exponential backoff: 1 s, 2 s, 4 s, ... each spread by the jitter, so that those who failed together part ways.

    Raises:
        ConfigurationError: a field is out of its range.
    """

    attempts: int = 3
    """Calls in all, the first included; 1 means no retry."""
    backoff_seconds: float = 1.0
    """Wait after the first failure; 0 tries again at once."""
    factor: float = 2.0
    """Each further wait is this many times the one before; at least 1."""
    max_backoff_seconds: float = 30.0
    """No wait is longer, before jitter."""
    jitter: float = 0.25
    """Share of the wait, from 0 to 1, by which it is spread both ways."""

    def __post_init__(self) -> None:
        if type(self.attempts) is not int or self.attempts < 1:
            raise ConfigurationError(f"retry attempts must be a whole number of at least 1, not {self.attempts!r}")
        for name, lowest, highest in (
            ("backoff_seconds", 0.0, math.inf),
            ("factor", 1.0, math.inf),
            ("max_backoff_seconds", 0.0, math.inf),
            ("jitter", 0.0, 1.0),
        ):
            value = getattr(self, name)
            number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
            if not number or not lowest <= value <= highest:
                span = f"from {lowest:g} to {highest:g}" if highest < math.inf else f"at least {lowest:g}"
                raise ConfigurationError(f"retry {name} must be a finite number, {span}, not {value!r}")

    def delay_seconds(self, failures: int, random: float) -> float:
        """Seconds to wait after so many failures (1 or more).

        Args:
            failures: how many attempts have failed so far.
            random: a number from 0 to 1, drawn by the caller; 0.5 gives the wait without jitter.
        """
        try:
            wait = self.backoff_seconds * self.factor ** (failures - 1)
        except OverflowError:
            wait = self.max_backoff_seconds
        return min(wait, self.max_backoff_seconds) * (1.0 + self.jitter * (2.0 * random - 1.0))
