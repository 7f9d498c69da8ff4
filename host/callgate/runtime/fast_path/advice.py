"""What the fast path would save a program in tool wall time: worked out from the calls of a run, or from averages.

Tool wall time is the time in which at least one call is going on. The program's own work is no part of it, nor is the
wait for a place among `max_concurrent_calls`.

1. **At best.** The calls of one run are laid out anew, each as long as it really took. A call that may be made early
   begins when the last call before it that may not is over; a call that may not begins when everything before it is
   over. *Before* means: it had ended when the call began, so calls that ran side by side stay free of each other. This
   is a lower bound: nothing here says which result an argument was made of.
2. **As far as arguments show.** The same, but a call also waits for the earliest result in which one of its arguments,
   or a text or number within one, occurs as it is; unless the program or its inputs hold that value themselves. A value
   that was computed from results is not recognised, and one that is equal by chance is: an estimate, between the lower
   bound and what really was, and no bound itself.
3. **Without a run** only averages are known, and which calls the program names, not how often it makes them. Each is
   counted once, and the answer says so.

Makes no call and reads no clock. A `Witness` notes what tools gave; it is put between tools and gate by whoever wants
advice on a run.
"""

from __future__ import annotations

import ast
import heapq
import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import asdict, dataclass, replace
from typing import Any

from callgate.program.callees import callees
from callgate.program.findings import Finding
from callgate.program.survey import survey
from callgate.program.syntax import parse_program
from callgate.runtime.calls import CallRecord
from callgate.runtime.catalogue import Catalogue
from callgate.runtime.events import CallEnded, Event
from callgate.runtime.offer import Offer
from callgate.tools import Registry
from callgate.tools.encoding import canonical_json
from callgate.tools.statistics import Statistics

__all__ = [
    "NamedCall", "Outlook", "Savings", "SeenCall", "Witness", "constants_of", "leaves", "named_calls",
    "outlook", "savings", "seen_calls",
]  # fmt: skip

MAX_NOTED_BYTES = 64 * 1024 * 1024
"""Characters of results that a witness keeps; beyond that, arguments are not recognised in them."""
_SIMULTANEOUS_SECONDS = 1e-6
"""A call that begins so shortly before another ends is not after it."""


# a run


@dataclass(frozen=True, slots=True)
class SeenCall:
    """One call of a run that has ended."""

    tool: str
    early: bool
    """It may be called before the program gets there."""
    started_seconds: float
    seconds: float
    """To its answer, without the wait for a place."""
    arguments: Any = None
    result: str | None = None
    """As JSON text; None where it failed, or is not known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Savings:
    """What one run took, and what its calls would have taken on the fast path."""

    calls: int
    took_seconds: float
    """Tool wall time of the run."""
    one_by_one_seconds: float
    """All calls put together."""
    at_best_seconds: float
    """Lower bound of what the fast path would have taken."""
    by_arguments_seconds: float
    """The same when calls wait for the results in which their arguments were found again."""
    found_again: int
    """Calls that had such an argument."""

    @property
    def most_saved_seconds(self) -> float:
        """An upper bound."""
        return max(self.took_seconds - self.at_best_seconds, 0.0)

    @property
    def likely_saved_seconds(self) -> float:
        """An estimate, no bound."""
        return max(self.took_seconds - self.by_arguments_seconds, 0.0)

    def to_dict(self) -> dict[str, Any]:
        """As a JSON object."""
        saved = {"most_saved_seconds": self.most_saved_seconds, "likely_saved_seconds": self.likely_saved_seconds}
        return {**asdict(self), **saved}


def savings(calls: Sequence[SeenCall], known: Collection[Any] = ()) -> Savings:
    """What the fast path would have saved.

    Args:
        calls: of one run, in any order.
        known: values that the program has without calling anything: see `constants_of` and `leaves`.
    """
    free = _Layout(calls, None)
    bound = _Layout(calls, frozenset(known))
    return Savings(
        calls=len(calls),
        took_seconds=_covered((call.started_seconds, call.started_seconds + call.seconds) for call in calls),
        one_by_one_seconds=sum(call.seconds for call in calls),
        at_best_seconds=_covered(free.spans),
        by_arguments_seconds=_covered(bound.spans),
        found_again=bound.found_again,
    )


class _Layout:
    """The calls of a run, each begun as early as it may: in the order of their beginnings, about n log n."""

    def __init__(self, calls: Iterable[SeenCall], known: frozenset[Any] | None) -> None:
        self.spans: list[tuple[float, float]] = []
        self.found_again = 0
        self._known = known
        self._found: dict[Any, float] = {}
        """When each value is first there."""
        self._barrier = self._latest = 0.0
        under_way: list[tuple[float, int, SeenCall, float]] = []
        for number, call in enumerate(sorted(calls, key=lambda call: call.started_seconds)):
            while under_way and under_way[0][0] <= call.started_seconds + _SIMULTANEOUS_SECONDS:
                _, _, earlier, end = heapq.heappop(under_way)
                self._over(earlier, end)
            begins = max(self._barrier, self._waits(call)) if call.early else self._latest
            end = begins + call.seconds
            self.spans.append((begins, end))
            heapq.heappush(under_way, (call.started_seconds + call.seconds, number, call, end))

    def _over(self, call: SeenCall, end: float) -> None:
        self._latest = max(self._latest, end)
        if not call.early:
            self._barrier = max(self._barrier, end)
        if self._known is not None and call.result is not None:
            for leaf in _leaves_of(call.result):
                if end < self._found.get(leaf, end + 1):
                    self._found[leaf] = end

    def _waits(self, call: SeenCall) -> float:
        if self._known is None:
            return 0.0
        waits = [self._found[leaf] for leaf in leaves(call.arguments) - self._known if leaf in self._found]
        self.found_again += bool(waits)
        return max(waits, default=0.0)


def _covered(spans: Iterable[tuple[float, float]]) -> float:
    """How long at least one of them lasts."""
    total, until = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total += max(end - max(begin, until), 0.0)
        until = max(until, end)
    return total


def _leaves_of(text: str) -> set[Any]:
    try:
        return leaves(json.loads(text))
    except (ValueError, RecursionError):  # a number of thousands of digits; more depth than the stack has left
        return set()


def leaves(value: Any) -> set[Any]:
    """The texts and numbers within a JSON value; without the empty text, which says nothing."""
    found: set[Any] = set()
    todo = [value]
    while todo:
        each = todo.pop()
        if isinstance(each, dict):
            todo.extend(each.values())
        elif isinstance(each, (list, tuple)):
            todo.extend(each)
        elif isinstance(each, (str, int, float)) and not isinstance(each, bool) and each != "":
            found.add(each)
    return found


def constants_of(source: str) -> set[Any]:
    """The texts and numbers that stand in a program."""
    tree = parse_program(source)
    if isinstance(tree, Finding):
        return set()
    return leaves([node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)])


# what the calls of a run gave


class Witness:
    """Notes the results of a run's calls, which records do not hold.

    Args:
        registry: the tools; `registry` is the same tools, watched.
    """

    def __init__(self, registry: Registry) -> None:
        self.registry = Registry(
            replace(tool, result_contract=_Watched(tool.result_contract, self)) for tool in registry
        )
        self.results: dict[int, str] = {}
        """By the ids of records."""
        self._last: ContextVar[str | None] = ContextVar("last", default=None)
        self._same: dict[str, str] = {}
        self._left = MAX_NOTED_BYTES

    def gave(self, text: str) -> None:
        """A call of this task has this result."""
        self._last.set(text)

    def put(self, event: Event) -> None:
        """Take in what the run tells."""
        if not isinstance(event, CallEnded):
            return
        record, text = event.record, self._last.get()
        self._last.set(None)
        if record.status != "succeeded":
            return
        key = f"{record.tool}\n{canonical_json(record.arguments)}" if record.cached or self._cached(record) else ""
        if record.cached:
            text = self._same.get(key)
        if text is not None and self._left >= len(text):
            self._left -= len(text)
            self.results[record.id] = text
            if key:
                self._same[key] = text

    def _cached(self, record: CallRecord) -> bool:
        return record.tool in self.registry and self.registry.get(record.tool).cache_seconds is not None


class _Watched:
    """A tool's result contract that tells a witness what it encoded."""

    def __init__(self, contract: Any, witness: Witness) -> None:
        self._contract = contract
        self._witness = witness

    @property
    def schema(self) -> dict[str, Any] | None:
        schema: dict[str, Any] | None = self._contract.schema
        return schema

    def encode(self, tool: str, result: Any) -> str:
        text: str = self._contract.encode(tool, result)
        self._witness.gave(text)
        return text


def seen_calls(records: Iterable[CallRecord], registry: Registry, results: Mapping[int, str]) -> list[SeenCall]:
    """The calls of a run, as `savings` takes them; those that were refused took nothing and are left out.

    Args:
        records: of the run.
        registry: its tools.
        results: what the calls gave, by the ids of records; see `Witness`.
    """
    early = {tool.tool for tool in _catalogue(registry).graph_tools.tools.values() if tool.early}
    return [
        SeenCall(
            record.tool,
            record.tool in early,
            record.started_seconds + record.queued_seconds,
            max(record.duration_seconds - record.queued_seconds, 0.0),
            record.arguments,
            results.get(record.id),
        )
        for record in records
        if record.tool in registry and record.status != "refused"
    ]


# without a run


@dataclass(frozen=True, slots=True)
class NamedCall:
    """A place in a program where a tool is called."""

    tool: str
    """Its name in the registry."""
    early: bool
    line: int
    repeated: bool
    """It stands in a loop or a function: how often the call is made is not known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outlook:
    """What a program would take by its tools' averages, when every call that it names is made once."""

    named: Mapping[str, int]
    """Places where each tool is called."""
    one_after_the_other_seconds: float
    at_best_seconds: float
    """When every call begins as early as it may; which results the arguments are made of is not looked at."""
    unknown: tuple[str, ...]
    """Tools without a history; they count as 0 s."""
    repeated: tuple[int, ...]
    """Lines of calls in loops and functions."""

    def to_dict(self) -> dict[str, Any]:
        """As a JSON object."""
        return {
            "named": dict(self.named),
            "one_after_the_other_seconds": self.one_after_the_other_seconds,
            "at_best_seconds": self.at_best_seconds,
            "unknown": list(self.unknown),
            "repeated": list(self.repeated),
        }


_REPEATED = (
    ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.FunctionDef,
    ast.AsyncFunctionDef, ast.Lambda,
)  # fmt: skip


def named_calls(source: str, registry: Registry) -> list[NamedCall]:
    """The calls of tools that a program names, in the order of the text; none where it cannot be read."""
    tree = parse_program(source)
    if isinstance(tree, Finding):
        return []
    catalogue = _catalogue(registry)
    seen = survey(tree)
    known = callees(seen, catalogue.shapes, (), catalogue.namespaces, catalogue.resolve)
    within = set(_repeated(tree))
    found = []
    for call, _ in seen.calls:
        target = known.tool_of(call)
        if target is not None:
            tool = catalogue.graph_tools.tools[target.shape.name]
            found.append(NamedCall(tool.tool, tool.early, call.lineno, id(call) in within))
    return found


def _catalogue(registry: Registry) -> Catalogue:
    tools = registry.tools()
    return Catalogue(Offer("code", registry, tools, {tool.name: tool for tool in tools}, registry.vocabulary()))


def _repeated(tree: ast.Module) -> Iterator[int]:
    """The ids of the calls within loops and functions."""
    todo: list[tuple[ast.AST, bool]] = [(tree, False)]
    while todo:
        node, within = todo.pop()
        if within and isinstance(node, ast.Call):
            yield id(node)
        within = within or isinstance(node, _REPEATED)
        todo.extend((child, within) for child in ast.iter_child_nodes(node))


def outlook(calls: Sequence[NamedCall], statistics: Statistics) -> Outlook:
    """What a program would take, as far as averages tell.

    Args:
        calls: see `named_calls`.
        statistics: the history of the tools.
    """
    averages: dict[str, float] = {}
    for tool in {call.tool for call in calls}:
        stats = statistics.of(tool)
        if stats is not None:
            averages[tool] = stats.average_seconds
    at, laid_out = 0.0, []
    for call in calls:
        laid_out.append(SeenCall(call.tool, call.early, at, averages.get(call.tool, 0.0)))
        at += laid_out[-1].seconds + 2 * _SIMULTANEOUS_SECONDS
    return Outlook(
        named=dict(sorted(Counter(call.tool for call in calls).items())),
        one_after_the_other_seconds=sum(each.seconds for each in laid_out),
        at_best_seconds=_covered(_Layout(laid_out, None).spans),
        unknown=tuple(sorted({call.tool for call in calls} - averages.keys())),
        repeated=tuple(sorted({call.line for call in calls if call.repeated})),
    )
