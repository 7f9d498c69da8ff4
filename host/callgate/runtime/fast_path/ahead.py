"""Which calls may begin before the program gets there: asks the plan's engine, which knows what waits for what.

The engine is told of every call that has ended, whoever asked for it. It makes none: what it asks for is an offer.
"""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

from callgate.limits import Limits
from callgate.plan.actions import Begin, Call, Event, Exceeded, Failed, GoOn, Paused, Returned
from callgate.plan.compile import CompiledPlan
from callgate.plan.engine import Engine
from callgate.program.graph.flow import Site

from .calls import OneCall, Place

__all__ = ["Ahead", "Offered"]

_EXPRESSION_STEPS = 100_000
"""What it takes to tell what may begin; what is not told in that is begun by the walk."""


class Offered(NamedTuple):
    """A call that could begin now."""

    site: Site
    number: int
    arguments: dict[str, Any]
    """Perhaps shared with results: to be copied."""


class Ahead:
    """One plan under way.

    Args:
        plan: the calls of the program.
        sites: of each of its steps.
        horizons: see `GraphProgram.horizons`.
        limits: of the run.
    """

    def __init__(self, plan: CompiledPlan, sites: tuple[Site, ...], horizons: tuple[int, ...], limits: Limits) -> None:
        self.exceeded = False
        """The results take more memory than the run may."""
        self.paused = False
        """There is more: `go_on` when others have had their turn."""
        self._sites = sites
        self._horizons = horizons
        self._engine = Engine(
            plan.steps,
            max_bytes=limits.max_message_bytes,
            max_memory_bytes=limits.memory_bytes,
            window=limits.max_concurrent_calls,
            max_open=limits.max_concurrent_calls,
            expression_steps=_EXPRESSION_STEPS,
        )
        self._asked: dict[Place, Call] = {}
        self._ended: dict[Place, OneCall] = {}
        """Calls that ended before the engine asked for them."""

    def calls_up_to(self, site: int) -> int | None:
        """How many calls the program makes, at most, until it has passed that site and the loop around it; None where
        that is not known yet."""
        total = 0
        for index in range(self._horizons[site] + 1):
            count = self._engine.steps[index].known_items
            if count is None:
                outcome = self._engine.outcomes[index]
                if outcome.items is None and outcome.status != "skipped":
                    return None
                count = outcome.items or 0
            total += count
        return total

    def begin(self) -> list[Offered]:
        """What could begin at once."""
        return self._tell(Begin())

    def go_on(self) -> list[Offered]:
        """What else could, after a pause."""
        self.paused = False
        return self._tell(GoOn())

    def ended(self, call: OneCall) -> list[Offered]:
        """What could begin now that this call has ended."""
        asked = self._asked.pop(call.place, None)
        if asked is None:
            self._ended[call.place] = call
            return []
        return self._tell(_outcome(asked, call))

    def _tell(self, event: Event) -> list[Offered]:
        offered: list[Offered] = []
        events = deque([event])
        while events:
            for action in self._engine.handle(events.popleft()):
                if isinstance(action, Call):
                    site, number = self._sites[action.step], action.item or 0
                    known = self._ended.pop((site.number, number), None)
                    if known is not None:
                        events.append(_outcome(action, known))
                        continue
                    self._asked[site.number, number] = action
                    if site.early and isinstance(action.arguments, dict):
                        offered.append(Offered(site, number, action.arguments))
                elif isinstance(action, Paused):
                    self.paused = True
                elif isinstance(action, Exceeded):
                    self.exceeded = True
        return offered


def _outcome(asked: Call, call: OneCall) -> Event:
    if call.text is not None:
        return Returned(asked.step, asked.item, asked.again, call.text)
    message = "" if call.error is None else call.error.message
    return Failed(asked.step, asked.item, asked.again, message, type(call.error).__name__)
