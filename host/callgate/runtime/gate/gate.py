"""The gate of one runtime. It keeps what its runs share, and opens a gate for each of them."""

from __future__ import annotations

import inspect
import random
import time
from collections.abc import Callable, Collection

from callgate.errors import ConfigurationError
from callgate.limits import Limits
from callgate.runtime.offer import Builtins, Offer
from callgate.tools import CALLERS, Caller, Registry

from .approval import Approve
from .cache import Cache, Effects, ResultCache
from .events import Event
from .run_gate import RunGate
from .threads import Threads

__all__ = ["Gate"]


class Gate:
    """The gate of one runtime.

    Its result cache serves one tenant: do not share a gate between people who may not see each other's data.

    Args:
        registry: the tools; tools added later are seen by runs opened later.
        approve: asked before every call of a tool with `requires_approval`. Without one such calls are refused.
        builtins: gives the built-in tools of an offer, which its runs may call as well; see `callgate.runtime.offer`.
        effects: counts calls of tools with effects, which end results that were read; gates of one runtime share it.
        clock: seconds, never going back; for records and the cache.
        draw: a random number from 0 to 1; for the jitter of retries.
    """

    def __init__(
        self,
        registry: Registry,
        *,
        approve: Approve | None = None,
        builtins: Builtins | None = None,
        effects: Effects | None = None,
        clock: Callable[[], float] = time.perf_counter,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self.registry = registry
        self.approve = approve
        self.cache = ResultCache(clock=clock)
        self.effects = Effects() if effects is None else effects
        self.threads = Threads(ended_late=self.effects.note)
        self.clock = clock
        self.draw = draw
        self._builtins = builtins
        self._offers: Cache[tuple[Caller, frozenset[str] | None], Offer] = Cache(max_entries=64)

    def open(
        self,
        *,
        caller: Caller,
        limits: Limits,
        allowed: Collection[str] | None = None,
        on_event: Callable[[Event], None] | None = None,
        default_timeout_seconds: float | None = None,
    ) -> RunGate:
        """The gate of one run.

        Args:
            caller: who calls in this run.
            limits: `max_tool_calls`, `max_concurrent_calls` and `max_message_bytes` hold here.
            allowed: the tools this run may call, named in any way that `Registry.resolve` knows. None: every tool that
                allows this caller. Empty: none at all. A tool that does not allow this caller stays forbidden.
            on_event: told at the start and the end of every call, at once; what it raises is logged and harms nothing.
            default_timeout_seconds: for tools without a timeout of their own; None lets the run's wall limit rule.
                For a plan's run it is where an adaptive timeout starts.

        Raises:
            ConfigurationError: there is no such caller, an argument is of another type, or `allowed` or a tool's
                `fallback` names a tool that does not exist.
        """
        if not isinstance(limits, Limits):
            raise ConfigurationError("limits must be Limits, for instance Limits(wall_seconds=10)")
        if on_event is not None and inspect.iscoroutinefunction(on_event):
            raise ConfigurationError("on_event is called at once and not awaited: give it a plain function, not async")
        if caller not in CALLERS:
            raise ConfigurationError(f"there is no caller {caller!r}; the callers are: {', '.join(CALLERS)}")
        if isinstance(allowed, str) or any(not isinstance(name, str) for name in allowed or ()):
            raise ConfigurationError("tools are named by text: tools=['get_weather']")
        names = None if allowed is None else frozenset(allowed)
        offer = self._offers.get((caller, names))
        if offer is None or offer.vocabulary is not self.registry.vocabulary():
            offer = Offer.made(self.registry, caller, names, self._builtins)
            self._offers.keep((caller, names), offer)
        return RunGate(self, limits, offer, on_event, default_timeout_seconds)
