"""How often work that anybody may cause is done again. A value with two methods: no clock, no I/O."""

from __future__ import annotations

__all__ = ["Pace"]

_FREE = 4
"""So many times in a row it is done at once."""
_LEAST_SECONDS = 0.2
_MOST_SECONDS = 5.0


class Pace:
    """At once as long as it is rare; at ever larger distances while it goes on, 0.2 s to 5 s; at once again after that
    long a quiet.
    """

    def __init__(self) -> None:
        self._row = 0
        self._last = 0.0
        self._distance = 0.0

    def wait(self, now: float) -> float:
        """Seconds until it may be done; 0 for at once."""
        return max(self._last + self._distance - now, 0.0) if self._row else 0.0

    def done(self, now: float) -> None:
        """It is done now."""
        quiet = now - self._last - self._distance
        self._row = 1 if quiet >= max(self._distance, 5 * _LEAST_SECONDS) else self._row + 1
        self._last = now
        beyond = self._row - _FREE
        self._distance = 0.0 if beyond < 0 else min(_LEAST_SECONDS * 2.0 ** min(beyond, 10), _MOST_SECONDS)
