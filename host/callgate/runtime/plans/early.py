"""Calls made while a plan is still being written, and given to the plan when it runs.

Only tools that change nothing are called early. The finished plan decides: its own engine asks for each call, and gets
an early one's outcome where tool and arguments are the same. What it does not ask for has been made in vain, and is
in the records like any other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel

from callgate.errors import LimitReached, ToolError
from callgate.limits import Limits
from callgate.plan.actions import Action, Arrived, Call, Failed, Returned, Stop
from callgate.plan.engine import Engine
from callgate.runtime.gate import RunGate
from callgate.runtime.workers import Workers
from callgate.tools.encoding import compact_json

__all__ = ["EarlyCall", "EarlyCalls"]


@dataclass(slots=True)
class EarlyCall:
    """One call made early."""

    call: Call
    record: int = -1
    """Its place in the gate's records; -1 before it began."""
    outcome: Returned | Failed | None = None
    """None until it is done, and where it came to nothing."""
    done: anyio.Event = field(default_factory=anyio.Event)


class EarlyCalls:
    """Runs what can be run of a plan that is still arriving.

    Args:
        tasks: lives as long as the calls may; cancelling it gives them up.
        gate: what the calls pass.
        limits: as for the plan.
    """

    def __init__(self, tasks: anyio.abc.TaskGroup, gate: RunGate, limits: Limits) -> None:
        self._gate = gate
        self._engine = Engine(
            (),
            max_bytes=limits.max_message_bytes,
            max_memory_bytes=limits.memory_bytes,
            window=limits.max_concurrent_calls,
        )
        self._workers: Workers[Any, EarlyCall] = Workers(tasks, self._serve, limits.max_concurrent_calls)
        self._made: dict[tuple[int, int | None, bool], EarlyCall] = {}
        self._over = False

    def arrive(self, step: Arrived) -> None:
        """Take a step in, and begin it if its inputs are there."""
        if not self._over:
            self._perform(self._engine.handle(step))

    def end(self) -> None:
        """The plan is complete: begin nothing more here. What was begun goes on."""
        self._over = True
        self._engine.handle(Stop("the plan is complete"))

    def take(self, call: Call) -> EarlyCall | None:
        """The early call that is this one, if it was begun."""
        made = self._made.pop(call[:3], None)
        if made is None or made.record < 0 or made.call.tool != call.tool:
            return None
        return made if compact_json(made.call.arguments) == compact_json(call.arguments) else None

    def _perform(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Call):
                early = self._made[action[:3]] = EarlyCall(action)
                self._workers.submit(action[:3], early)

    async def _serve(self, early: EarlyCall) -> None:
        await anyio.lowlevel.checkpoint()  # the plan's text goes on coming
        if self._over:
            return
        call = early.call
        early.record = len(self._gate.records)
        try:
            text = await self._gate.call(
                call.tool,
                call.arguments,
                timeout_seconds=call.timeout_seconds,
                retry=call.retry,
                fallback=call.fallback,
            )
            early.outcome = Returned(*call[:3], text)
        except ToolError as error:
            early.outcome = Failed(*call[:3], error.message, type(error).__name__)
        except LimitReached:  # the plan will find out for itself
            self._over = True
            early.record = -1
            return
        finally:
            early.done.set()
        if not self._over:
            self._perform(self._engine.handle(early.outcome))
