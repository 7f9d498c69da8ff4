"""Results of read-only tools, kept for the steps of later plans: which of them need no call.

The gate keeps results of tools that say for how long (`cache_seconds`); here are those of the others. One tenant: plans
of one orchestrator see what its other plans asked for.

1. A step is served from here where all that it waits for is, and only if its tool may be called by plans, is read-only
   and asks nobody's approval. So a hit never gets around the gate, nor before a step that may change something.
2. Two calls are the same where tool and arguments are, references resolved.
3. A call of a tool that is not read-only makes everything stale, whoever made it: a plan, a program, a model. Also what
   is read while it runs; also where that call was cancelled, or given up. What others change is seen when a result's
   time is over.
4. Of a plan in which a tool asked for its `execution_context` nothing is kept: it may be another user's, with another
   result.
5. Bounded by entries and by bytes; what was not used longest goes first. Failures, and results of a fallback, are not
   kept.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from callgate.agent.planning.tool_plan import ToolStep
from callgate.runtime import PlanResult
from callgate.tools import Registry, Tool
from callgate.tools.encoding import NotJson, canonical_json
from callgate.tools.statistics import confidence_in

from .known import KnownResults, Unresolvable

__all__ = ["KeptResults", "Rest", "rest_of"]

MAX_BYTES = 64 * 1024 * 1024
"""Of keys and results together, as text."""


class KeptResults:
    """Results by call.

    Args:
        seconds: for which one is good.
        entries: so many are kept.
        max_bytes: so many bytes of keys and results are kept; a larger result is not kept at all.
        clock: seconds, never going back.
    """

    def __init__(
        self,
        *,
        seconds: float,
        entries: int,
        max_bytes: int = MAX_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.asked = 0
        """How often a result was looked for: steps that might have been served from here."""
        self.hits = 0
        """How often one was used."""
        self.cleared = 0
        """How often everything became stale."""
        self._seconds = seconds
        self._most = entries
        self._max_bytes = max_bytes
        self._clock = clock
        self._kept: OrderedDict[str, tuple[Tool, float, str]] = OrderedDict()
        self._bytes = 0
        self._writes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, tool: Tool, arguments: Mapping[str, Any]) -> str | None:
        """The result of that call, as JSON; None where there is none that is good."""
        self.asked += 1
        key = _key(tool, arguments)
        entry = None if key is None else self._kept.get(key)
        if key is None or entry is None:
            return None
        of, until, text = entry
        if until <= self._clock() or of is not tool:  # another tool has the name now
            self._drop(key)
            return None
        self.hits += 1
        self._kept.move_to_end(key)
        return text

    def put(self, tool: Tool, arguments: Mapping[str, Any], text: str) -> None:
        """Keep a result."""
        key = _key(tool, arguments)
        if key is None:
            return
        if key in self._kept:
            self._drop(key)
        size = _bytes(key, text)
        if size > self._max_bytes:
            return
        self._kept[key] = (tool, self._clock() + self._seconds, text)
        self._bytes += size
        while self._bytes > self._max_bytes or len(self._kept) > self._most:
            self._drop(next(iter(self._kept)))

    def clear(self) -> None:
        """Forget all of them."""
        self.cleared += 1
        self._kept.clear()
        self._bytes = 0

    def heed(self, writes: int) -> None:
        """Forget all of them where something may have changed since the last time.

        Args:
            writes: how many calls of tools that are not read-only have ended.
        """
        if writes != self._writes:
            self._writes = writes
            self.clear()

    def take(self, result: PlanResult, steps: Sequence[ToolStep], tools: Mapping[str, Tool], *, since: int) -> None:
        """Keep what a plan brought; forget everything where it called a tool that is not read-only.

        Args:
            result: what it brought.
            steps: as they were planned.
            tools: by name, as they were when the plan began: another may have the name by now.
            since: `cleared`, as it was when the plan began. If it is another now, nothing is kept; -1 keeps nothing.
        """
        called = {call.tool for call in result.calls if call.attempts}
        if any(name not in tools or not tools[name].read_only for name in called):
            self.clear()
        if self.cleared != since:
            return
        planned = {step.id: step for step in steps}
        for ended in result.steps:
            text, step = ended.result_json, planned.get(ended.id)
            if text is None or step is None or ended.fallback or ended.tool not in tools:
                continue
            tool = tools[ended.tool]
            if _keepable(tool) and isinstance(ended.arguments, dict):
                self.put(tool, ended.arguments, text)

    def _drop(self, key: str) -> None:
        self._bytes -= _bytes(key, self._kept.pop(key)[2])


def _key(tool: Tool, arguments: Mapping[str, Any]) -> str | None:
    try:
        return f"{tool.name}\n{canonical_json(dict(arguments))}"
    except NotJson:
        return None


def _bytes(key: str, text: str) -> int:
    return len(key) + (len(text) if text.isascii() else len(text.encode()))


def _keepable(tool: Tool) -> bool:
    return tool.read_only and not tool.requires_approval and tool.cache_seconds is None


@dataclass(frozen=True, slots=True)
class Rest:
    """What is left of a plan.

    Attributes:
        steps: those to be run, with what is known put in.
        texts: results of the others, as JSON.
    """

    steps: tuple[ToolStep, ...]
    texts: Mapping[str, str]


def rest_of(
    steps: Sequence[ToolStep],
    *,
    kept: KeptResults | None,
    known: Mapping[str, str],
    registry: Registry,
    allowed: Collection[str] | None,
    max_bytes: int,
) -> Rest:
    """What has to be run of a plan's steps.

    Args:
        steps: all of them, in their order.
        kept: what was kept; None: nothing.
        known: results of other steps that these may refer to, as JSON.
        registry: the tools.
        allowed: names of the tools that the plan may call; None for all.
        max_bytes: of one call's arguments.
    """
    ids = [step.id for step in steps]
    others = {id: text for id, text in known.items() if id not in ids}
    whole = Rest(tuple(steps), {})
    if len(set(ids)) < len(ids) or (kept is None and not others):
        return whole
    try:
        if any("steps[" in str(step.parameters) for step in steps):  # by position: none may be left out
            kept = None
    except RecursionError:  # the plan engine refuses it, and says why
        return whole
    results = KnownResults(ids, others, max_bytes=max_bytes)
    texts: dict[str, str] = {}
    for index, step in enumerate(steps if kept is not None else ()):
        text = _found(steps, index, kept, results, {*texts, *others}, registry, allowed)
        if text is not None:
            texts[step.id] = text
            results.know(step.id, text)
    while True:
        results = KnownResults(ids, {**others, **texts}, max_bytes=max_bytes)
        resolved = {step.id: results.resolve(step.parameters) for step in steps if step.id not in texts}
        again = {id for each in resolved.values() for id in each.mixed if id in texts}
        if not again:
            break
        texts = {id: text for id, text in texts.items() if id not in again}
        if kept is not None:
            kept.hits -= len(again)
    there = {*texts, *others}
    left: list[ToolStep] = []
    for index, step in enumerate(steps):
        if step.id in texts:
            continue
        before = _before(steps, index, texts) if texts else None
        after = tuple(each for each in step.after if each not in there)
        left.append(
            replace(
                step,
                parameters=resolved[step.id].written,
                dependencies=tuple(each for each in step.dependencies if each not in there),
                after=after if before is None else tuple(dict.fromkeys([*after, before])),
                execution_mode="parallel" if texts else step.execution_mode,
            )
        )
    return Rest(tuple(left), texts)


def _found(
    steps: Sequence[ToolStep],
    index: int,
    kept: KeptResults | None,
    results: KnownResults,
    there: set[str],
    registry: Registry,
    allowed: Collection[str] | None,
) -> str | None:
    step = steps[index]
    tool = registry.get(step.tool) if step.tool in registry else None
    if kept is None or tool is None or not _keepable(tool) or "plan" not in tool.allowed_callers:
        return None
    if allowed is not None and step.tool not in allowed:
        return None
    waits = {*step.dependencies, *step.after}
    if step.execution_mode == "sequential" and index:
        waits.add(steps[index - 1].id)
    if not waits <= there:
        return None
    try:
        text = kept.get(tool, results.plain(step.parameters))
    except Unresolvable:
        return None
    if text is None or step.fallback is None or step.fallback.condition == "on_error":
        return text
    confidence = confidence_in(text)
    return None if confidence is not None and confidence < step.fallback.threshold else text


def _before(steps: Sequence[ToolStep], index: int, texts: Mapping[str, str]) -> str | None:
    """For a sequential step: the step that is left, too, and that it waits for; None where there is none."""
    while index and steps[index].execution_mode == "sequential":
        index -= 1
        if steps[index].id not in texts:
            return steps[index].id
    return None
