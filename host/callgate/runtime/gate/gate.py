"""The gate of one runtime: holds the cache, threads and offers that its runs share, and opens a gate for each run."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Collection

from callgate.artifacts import Artifacts, Shelf
from callgate.errors import ConfigurationError
from callgate.limits import Limits
from callgate.runtime.offer import Builtins, Offer
from callgate.runtime.products import Products
from callgate.tools import CALLERS, Caller, Registry

from .approval import Approve
from .cache import Cache, Effects, ResultCache
from .events import Event
from .run_gate import RunGate
from .threads import Threads
from .watching import Watcher

__all__ = ["Gate"]


class Gate:
    """The gate of one runtime.

    Its result cache serves one tenant: do not share a gate between people who may not see each other's data.

    Args:
        registry: the tools. Runs see the tools that are there when they are opened.
        approve: asked before every call of a tool with `requires_approval`. Without one such calls are refused.
        builtins: returns the built-in tools of an offer; see `callgate.runtime.offer`.
        effects: counts calls of tools with effects, which end cached reads; the gates of one runtime share it.
        threads: of sync tools; the gates of one runtime share them.
        clock: seconds that never go back; for records and the cache.
        watchers: follow the runs: see `callgate.runtime.gate.watching`.
    """

    run_gate: Callable[..., RunGate] = RunGate
    """Makes the gate of a run."""

    def __init__(
        self,
        registry: Registry,
        *,
        approve: Approve | None = None,
        builtins: Builtins | None = None,
        effects: Effects | None = None,
        threads: Threads | None = None,
        clock: Callable[[], float] = time.perf_counter,
        watchers: tuple[Watcher, ...] = (),
    ) -> None:
        self.registry = registry
        self.approve = approve
        self.cache = ResultCache(clock=clock)
        self.effects = Effects() if effects is None else effects
        self.threads = Threads(ended_late=self.effects.note) if threads is None else threads
        self.clock = clock
        self.watchers = watchers
        self._builtins = builtins
        self._offers: Cache[tuple[Caller, frozenset[str] | None], Offer] = Cache(max_entries=64)

    def open(
        self,
        *,
        caller: Caller,
        limits: Limits,
        allowed: Collection[str] | None = None,
        on_event: Callable[[Event], None] | None = None,
        shelf: Shelf | None = None,
    ) -> RunGate:
        """Open the gate of one run.

        Args:
            caller: the kind of caller in this run.
            limits: `max_tool_calls`, `max_concurrent_calls` and `max_message_bytes` hold here.
            allowed: the tools this run may call, named in any way that `Registry.resolve` knows. None: every tool that
                allows this caller. Empty: none at all. A tool that does not allow this caller stays forbidden.
            on_event: called at the start and the end of every call; its exceptions are logged and do no harm.
            shelf: of the caller: has the artifacts that calls may name, and keeps those that tools return. None: one
                of the run's own.

        Raises:
            ConfigurationError: the caller is unknown, an argument has a wrong type, or `allowed` or a tool's `fallback`
                names a tool that does not exist.
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
        products = Products(Artifacts().shelf() if shelf is None else shelf, limits)
        return self.run_gate(self, limits, offer, on_event, products)
