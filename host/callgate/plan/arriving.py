"""A plan that is still being written: its steps, one by one, as soon as each is complete. The one door to `ijson`.

All of this is provisional. A step is handed on only if it compiles with the steps before it; the complete plan is read
afresh, and that reading decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ijson

from callgate.limits import Limits

from .actions import Arrived
from .decode import too_deep
from .faults import Faults
from .model import read_step
from .steps import CompiledStep, Offering, StepCompiler
from .templates import MAX_DEPTH

__all__ = ["ArrivingPlan"]

_LARGE_CHUNK = 64 * 1024
_MOST_IN_VAIN = 200
_MOST_BAD = 20
"""Steps that could not be compiled, before nothing more is begun early."""
_PLACES = ("steps.item", "plan.steps.item")


class ArrivingPlan:
    """Turns arriving text into steps.

    Args:
        offering: the tools that the plan may call.
        limits: `max_tool_calls` bounds the steps.
    """

    def __init__(self, offering: Offering, limits: Limits) -> None:
        self._found = [ijson.sendable_list() for _ in _PLACES]
        self._readers: list[Any] = [
            ijson.items_coro(found, place, use_float=True) for found, place in zip(self._found, _PLACES, strict=True)
        ]
        self._nested = ijson.sendable_list()
        self._nesting: Any = ijson.basic_parse_coro(self._nested, use_float=True)
        self._depth = 0
        self._max_steps = limits.max_tool_calls
        # the plan may still say that a path must not lead nowhere
        self._compiler = StepCompiler(offering, "error", Faults(), limits)
        self._over = False
        self._bad = 0
        self._unknown: set[int] = set()
        """Steps that were not handed on, and steps that wait for one of those."""
        self._buffer: list[str] = []
        self._waiting = 0
        self._fed = 0
        self._in_vain = 0
        """Readings since the last complete step; each reads an unfinished long string from its start."""

    def receive(self, text: str) -> Iterator[Arrived]:
        """Return the steps that `text` completes. A step that may not begin early is `held`."""
        if self._over:
            return
        self._buffer.append(text)
        self._waiting += len(text)
        self._over = len(text) > _LARGE_CHUNK  # written at once: nothing to gain by an early start
        if self._over or not (
            ("}" in text and self._in_vain < _MOST_IN_VAIN) or self._waiting > max(_LARGE_CHUNK, self._fed)
        ):
            return
        written = "".join(self._buffer)
        self._buffer.clear()
        self._fed += self._waiting
        self._waiting = 0
        self._in_vain += 1
        try:
            data = written.encode()  # half a character fails: what it is a half of would be another text
            self._nesting.send(data)
            if self._is_too_deep():
                self._over = True
                return
            for reader in self._readers:
                reader.send(data)
        except (ijson.JSONError, StopIteration, ValueError, RecursionError, OverflowError):
            self._over = True  # the reading of the complete plan will report the fault
        for found in self._found:
            for raw in found:
                if len(self._compiler.names.order) >= self._max_steps:
                    self._over = True
                    return
                self._in_vain = 0
                yield self._arrived(raw)
            del found[:]

    def _is_too_deep(self) -> bool:
        """Whether what was read last is nested too deeply for the readers, whose time grows with the square."""
        for event, _ in self._nested:
            if event.startswith("start_"):
                self._depth += 1
                if self._depth > MAX_DEPTH:
                    return True
            elif event.startswith("end_"):
                self._depth -= 1
        self._nested.clear()
        return False

    def _arrived(self, raw: Any) -> Arrived:
        self._compiler.faults = Faults()
        index = len(self._compiler.names.order)
        name, step = read_step(raw, index, self._compiler.faults) if not too_deep(raw) else (f"steps[{index}]", None)
        new = self._compiler.know(name, None if self._compiler.faults.errors else step)
        compiled = self._compiler.compile(index) if new else None
        self._bad += compiled is None
        if self._bad > _MOST_BAD:
            self._over = True
        sound = compiled is not None and not any(
            earlier >= index or earlier in self._unknown for earlier in (*compiled.needs, *compiled.after)
        )
        if not sound:
            self._unknown.add(index)
        return Arrived(compiled if sound else None, held=not sound or not _may_begin(compiled))


def _may_begin(step: CompiledStep | None) -> bool:
    """Return whether calls of the step are harmless if the plan turns out to be faulty."""
    if step is None:
        return False
    tools = [step.tool, *([step.fallback] if step.fallback is not None else [])]
    return all(tool.may_begin_early and tool.fallback is None for tool in tools)
