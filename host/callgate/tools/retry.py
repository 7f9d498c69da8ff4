"""How often a failed call is tried again, and after which waits. Arithmetic only: no clock, no randomness, no calls."""

from __future__ import annotations

import math
from dataclasses import dataclass

from callgate.errors import ConfigurationError

__all__ = ["Retry"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Retry:
    """Exponential backoff: 1 s, 2 s, 4 s, ... Jitter spreads each wait, so that calls that failed together are not
    tried again together.

    Raises:
        ConfigurationError: a field is out of its range.
    """

    attempts: int = 3
    """Calls in all, with the first one; 1 means no retry."""
    backoff_seconds: float = 1.0
    """Wait after the first failure; 0 tries again at once."""
    factor: float = 2.0
    """Factor between one wait and the next; at least 1."""
    max_backoff_seconds: float = 30.0
    """The longest wait before jitter."""
    jitter: float = 0.25
    """Share of a wait, from 0 to 1, by which jitter lengthens or shortens it."""

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
        """Seconds to wait before the next attempt.

        Args:
            failures: attempts that have failed so far; 1 or more.
            random: a number from 0 to 1, drawn by the caller; 0.5 gives the wait without jitter.
        """
        try:
            wait = self.backoff_seconds * self.factor ** (failures - 1)
        except OverflowError:
            wait = self.max_backoff_seconds
        return min(wait, self.max_backoff_seconds) * (1.0 + self.jitter * (2.0 * random - 1.0))
