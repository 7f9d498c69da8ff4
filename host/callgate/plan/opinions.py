"""Second opinions: a result that is not confident enough waits here until the fallback's is there. Compares numbers."""

from __future__ import annotations

from typing import NamedTuple

from callgate.tools.statistics import confidence_in

from .steps import CompiledStep

__all__ = ["SecondOpinions", "Verdict"]

Key = tuple[int, int | None]


class Verdict(NamedTuple):
    """Which of two results counts."""

    text: str
    warning: str
    fallback: str | None
    """The fallback's name, where its result counts."""


class SecondOpinions:
    """First results by step and item, for steps that have a `threshold`."""

    def __init__(self) -> None:
        self._first: dict[Key, tuple[str, float]] = {}

    def wanted(self, key: Key, step: CompiledStep, text: str) -> bool:
        """Whether the fallback should be asked; the result is kept until it has answered."""
        confidence = confidence_in(text)
        if step.threshold is None or confidence is None or confidence >= step.threshold:
            return False
        self._first[key] = (text, confidence)
        return True

    def forget(self, key: Key) -> None:
        """The fallback cannot be asked."""
        del self._first[key]

    def settle(self, key: Key, step: CompiledStep, text: str) -> Verdict:
        """The fallback's result is there."""
        assert step.fallback is not None
        name = step.fallback.name
        first, confidence = self._first.pop(key)
        second = confidence_in(text)
        if second is not None and second < confidence:
            less = f"{second:g} than {confidence:g}"
            return Verdict(first, f"the fallback {name!r} was less confident ({less}), and not taken", None)
        low = f"confidence {confidence:g} is below {step.threshold:g}"
        return Verdict(text, f"{low}: the result is that of the fallback {name!r}", name)

    def failed(self, key: Key, message: str) -> Verdict:
        """The fallback failed: the first result stands."""
        first, confidence = self._first.pop(key)
        return Verdict(first, f"confidence {confidence:g} is low, and the fallback failed: {message}", None)
