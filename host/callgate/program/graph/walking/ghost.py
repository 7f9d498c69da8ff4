"""A walk ahead of the walk: which calls the program will make, as far as that is known. Nothing it does can be seen.

1. It makes no call. What it offers are calls that may be begun early, and of which it knows place and arguments.
2. It ends where a call with effects has not ended, and where a call is awaited that has failed: what the program does
   behind that is not certain.
3. It shares no object with the walk: inputs and results are read for it.
4. What comes of a call that has not ended is an `Unknown`. An expression that fails for want of it is one, too.
5. A branch or a loop that depends on such a value is stepped over. What it would store is not known then, nor what is
   in a container that it may change.
6. A place in a block that was stepped over makes an unknown number of calls: nothing more is offered there.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Container, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from callgate.plan.expressions import Budget, BudgetExceeded, ExpressionError, ExpressionFault
from callgate.plan.expressions.expression import guarded
from callgate.plan.expressions.kinds import DICTS, SEQUENCES, VIEWS, Unknown
from callgate.plan.expressions.trees import nodes_of
from callgate.program.graph.flow import (
    Augment,
    CallTool,
    Change,
    Finish,
    Flow,
    For,
    Gather,
    Has,
    Hold,
    If,
    Item,
    Operation,
    Print,
    Pure,
    Site,
    Target,
    operations_of,
    pures_of,
)

from .changes import augment, call_method, has_method, set_item
from .effects import MAKE_NEW, Effects, effects_of
from .walk import Walk
from .walked import WORKED, Step, Unsure, Worked, decode

__all__ = ["Ghost", "Offered", "Place", "makes_iterators"]

Place = tuple[int, int]
"""The number of a call's `Site`, and the how-manieth call of it this is."""
_CONTAINERS: Final = DICTS | SEQUENCES | VIEWS | {set}
_CHANGEABLE: Final = DICTS | {list, set}
_LOOK_STEPS: Final = 50_000
_LOOK_BYTES: Final = 16 * 1024 * 1024
"""What one look takes at most. An expression may take all of the steps, in one turn."""
_LAZY: Final = frozenset({"enumerate", "filter", "map", "reversed", "zip"})
_NO_MORE: Final = object()
_NEW: Final = object()
"""In the place of `Unknown.same`: it is none of the containers that there are."""
_WANTING: Final = (ExpressionError, ExpressionFault)
"""How an expression ends for want of a value, or because it fails by itself."""


@dataclass(frozen=True, slots=True)
class Offered:
    """A call that could begin now."""

    site: Site
    number: int
    arguments: dict[str, Any]
    """JSON, a copy of its own."""


class _End(Exception):
    """What lies behind this place is not certain to come."""


class Ghost(Walk):
    """The ghost of one run. One `look` at a time; each begins at the program's start.

    Args:
        flow: the program.
        inputs: JSON values.
        budget: for all looks together.
        known: the results of the calls that have ended, as JSON; None where one failed.
        asked: the calls that were asked for.
        most_calls: how many the program may make; None: nobody counts them.
        is_lazy: what `makes_iterators` says of the program.
    """

    def __init__(
        self,
        flow: Flow,
        inputs: Mapping[str, Any],
        budget: Budget,
        known: Mapping[Place, str | None],
        asked: Container[Place],
        most_calls: int | None,
        is_lazy: bool,
    ) -> None:
        super().__init__(flow, "", inputs, budget)
        self._whole = budget
        self.blocked = False
        """The last look met a call that it could not offer yet."""
        self._known = known
        self._asked = asked
        self._most_calls = most_calls
        self._is_lazy = is_lazy
        self._effects: dict[Operation, Effects] = {}
        self._results: dict[Place, Any] = {}
        self._lost: set[int] = set()
        """Sites of which it is not known how many calls were made."""
        self._gone: dict[int, Unknown] = {}
        """Containers of which nobody knows what is in them, by identity: what may be."""
        self._made = 0

    def look(self) -> Generator[Offered | Worked, None, None]:
        """Offer what could begin now. Ends without an error whatever the program does."""
        self.blocked = False
        self._budget = self._whole.share(steps=_LOOK_STEPS, bytes=_LOOK_BYTES)
        self._values, self._slots, self._counts = {}, {}, [0] * len(self._flow.sites)
        self._results, self._lost, self._gone, self._made = {}, set(), {}, 0
        try:
            for name in self._flow.inputs:
                self._values[name] = decode(json.dumps(self._inputs[name], allow_nan=False))
            *body, _ = self._flow.body
            for step in self._block(tuple(body)):
                assert isinstance(step, Offered | Worked)
                yield step
        except (_End, Unsure, BudgetExceeded, *_WANTING, ValueError, RecursionError, MemoryError, OverflowError):
            pass  # the walk will say what it is
        finally:
            self._whole.settle(self._budget)
            self._values, self._slots, self._results, self._gone = {}, {}, {}, {}

    # values

    def _evaluate(self, pure: Pure) -> Any:
        try:
            return pure.expression.evaluate(self._values, self._budget)
        except _WANTING:
            values = [self._values[name] for name in pure.expression.names]
            self._check_wanting(values)
            return Unknown(_parts(values), _NEW if type(pure.node) in MAKE_NEW else None)

    def _check_wanting(self, values: Iterable[Any]) -> None:
        """Raises unless one of these has something within it that is not known: then what failed, failed by itself."""
        seen: set[int] = set()
        todo = _parts(values)
        while todo:
            each = todo.pop()
            if type(each) is Unknown:
                return
            if id(each) not in seen:
                seen.add(id(each))
                todo.extend(self._parts_of(each))
        raise _End

    def _parts_of(self, value: Any) -> list[Any]:
        inner = value.kin if type(value) is Unknown else value.values() if type(value) in DICTS else value
        self._budget.work(1 + (len(inner) >> 2))
        return _parts(inner)

    def _reach(self, *values: Any) -> tuple[dict[int, Any], list[Unknown]]:
        """The containers and the unknown values that these are, or may have within them."""
        containers: dict[int, Any] = {}
        unknown: dict[int, Unknown] = {}
        todo = _parts(values)
        while todo:
            each = todo.pop()
            found: dict[int, Any] = unknown if type(each) is Unknown else containers
            if id(each) not in found:
                found[id(each)] = each
                todo.extend(self._parts_of(each))
        return containers, list(unknown.values())

    def _gone_in(self, *values: Any) -> list[Unknown]:
        """What may be in those containers within these values of which nobody knows what is in them."""
        if not self._gone:
            return []
        return [self._gone[each] for each in self._reach(*values)[0].keys() & self._gone]

    def _seen(self, value: Any) -> Any:
        gone = self._gone_in(value)
        return Unknown([value, *gone], value) if gone else value

    def _forget(self, holders: Iterable[tuple[Any, bool]], given: Unknown) -> None:
        """These values are changed, with True their parts as well, nobody knows how; they may have parts of `given`
        afterwards."""
        changed: dict[int, Any] = {}
        for value, deep in holders:
            if type(value) is Unknown and value.same is _NEW and not deep:
                value.kin.append(given)
            elif deep or (type(value) is Unknown and value.same is None):
                containers, unknown = self._reach(value)
                changed.update(containers)
                for each in unknown:
                    each.kin.append(given)
            else:
                container = value.same if type(value) is Unknown else value
                if type(container) in _CONTAINERS:
                    changed[id(container)] = container
        fresh = set()
        for key, container in changed.items():
            if key not in self._gone:
                self._gone[key] = Unknown([container])
                fresh.add(key)
            self._gone[key].kin.append(given)
        if not fresh:
            return
        self._budget.work(len(self._values))
        for name, value in self._values.items():
            containers = self._reach(value)[0]
            within = [self._gone[key] for key in containers.keys() & fresh]
            if not within and any(type(each) in VIEWS for each in containers.values()):
                within = [given]  # of a dict, that cannot be told
            if not within:
                continue
            if type(value) is Unknown:
                value.kin.extend(within)
            else:
                self._values[name] = Unknown([value, *within], value)

    def _change_it(self, holder: Any, given: list[Any], change: Callable[[], None]) -> None:
        """Change a container; where that cannot be done yet, nobody knows what is in it from here on."""
        if type(holder) is not Unknown:
            try:
                guarded(self._budget, change)
                return
            except _WANTING:
                self._check_wanting([holder, *given])
        self._forget([(holder, False)], Unknown(_parts(given)))

    def _bind(self, target: Target, value: Any) -> None:
        if isinstance(target, Item):
            holder, index = self._evaluate(target.object), self._evaluate(target.index)
            self._change_it(holder, [index, value], lambda: set_item(self._budget, holder, index, value))
        elif isinstance(target, tuple) and type(value) is Unknown:
            for each in target:
                self._bind(each, Unknown([value]))
        else:
            super()._bind(target, value)

    def _augment(self, operation: Augment) -> None:
        value, before = self._evaluate(operation.value), self._values[operation.name]
        budget, how = self._budget, operation.operator
        if type(value) is not Unknown and type(before) is not Unknown:
            try:
                self._values[operation.name] = guarded(budget, lambda: augment(budget, how, before, value))
                return
            except _WANTING:
                self._check_wanting([before, value])
        if type(before) in _CHANGEABLE or (type(before) is Unknown and before.same is not _NEW):
            self._forget([(before, False)], Unknown(_parts([value])))
        if type(before) not in _CHANGEABLE:
            same = before.same if type(before) is Unknown else _NEW
            self._values[operation.name] = Unknown(_parts([before, value]), same)

    def _change(self, operation: Change) -> None:
        holder = self._evaluate(operation.object)
        self._check_method(holder, operation.method)
        given = [self._evaluate(argument) for argument in operation.arguments]
        self._change_it(holder, given, lambda: call_method(self._budget, holder, operation.method, given))

    def _has(self, operation: Has) -> None:
        self._check_method(self._evaluate(operation.object), operation.method)

    def _check_method(self, holder: Any, method: str) -> None:
        if type(holder) is not Unknown and not has_method(holder, method):
            raise _End

    def _print(self, operation: Print) -> Iterator[Step]:
        self._evaluate(operation.texts)
        yield from ()

    # calls

    def _call(self, operation: CallTool) -> Iterator[Any]:
        site = operation.site
        if site.number in self._lost:
            self._may_call((site,))
            self._slots[operation.slot] = Unknown((), _NEW)
            return
        number = self._counts[site.number]
        self._counts[site.number] += 1
        self._made += 1
        if self._most_calls is not None and self._made > self._most_calls:
            raise _End
        place = site.number, number
        self._slots[operation.slot] = place
        if place not in self._known and not site.early:
            self.blocked = True
            raise _End
        is_asked = place in self._asked
        if is_asked and not self._is_lazy:
            return
        arguments = self._known_arguments(operation)
        if arguments is None:
            self.blocked = True
        elif not is_asked:
            yield Offered(site, number, arguments)

    def _known_arguments(self, operation: CallTool) -> dict[str, Any] | None:
        given = self._given(operation)
        if any(type(value) is Unknown for value in given.values()):
            return None
        try:
            return self._as_json(given)
        except Unsure:
            self._check_wanting(given.values())
            return None

    def _may_call(self, sites: Iterable[Site]) -> None:
        """Go on behind calls of which nobody knows how many there are."""
        self.blocked = True
        if self._most_calls is not None or not all(site.early for site in sites):
            raise _End

    def _hold(self, operation: Hold) -> None:
        if operation.slot is None:
            self._slots[operation.slots] = []
        elif type(self._slots[operation.slots]) is not Unknown:
            self._slots[operation.slots].append(self._slots[operation.slot])

    def _finish(self, operation: Finish) -> Iterator[Step]:
        self._values[operation.variable] = self._result(self._slots[operation.slot])
        yield from ()

    def _gather(self, operation: Gather) -> Iterator[Step]:
        calls: list[Any] = []
        counted = True
        for part in operation.parts:
            held = self._slots[part.slot]
            if not part.spread:
                calls.append(held)
            elif type(held) is Unknown:
                counted = False
            else:
                calls.extend(held)
        self._budget.work(1 + (len(calls) >> 1))
        results = [self._result(call) for call in calls]
        self._values[operation.variable] = results if counted else Unknown(results, _NEW)
        yield from ()

    def _result(self, call: Any) -> Any:
        """What comes of a call; the same object each time."""
        if type(call) is Unknown:
            return call
        if call in self._results:
            return self._seen(self._results[call])
        if call not in self._known:
            value: Any = Unknown((), _NEW)
        else:
            text = self._known[call]
            if text is None:
                raise _End
            self._pay_for_reading(text)
            value = decode(text)
        self._results[call] = value
        return value

    # branches and loops

    def _if(self, operation: If) -> Iterator[Step]:
        test = self._evaluate(operation.test)
        if type(test) is Unknown:
            self._step_over(operation)
        else:
            yield from self._block(operation.body if test else operation.orelse)

    def _for(self, operation: For) -> Iterator[Step]:
        sources = [self._values[name] for name in operation.values.expression.names]
        values = operation.values.expression.items(self._values, self._budget)
        while True:
            try:
                value = next(values, _NO_MORE)
            except _WANTING:
                self._check_wanting(sources)
                self._step_over(operation)
                return
            if value is _NO_MORE:
                return
            self._budget.work(1)
            self._bind(operation.target, self._seen(value))
            if self._is_time():
                yield WORKED
            yield from self._block(operation.body)
            if self._gone and self._goes_over_gone(operation, sources):
                self._step_over(operation)
                return

    def _goes_over_gone(self, operation: For, sources: list[Any]) -> bool:
        """Whether nobody knows what the next round of a loop has."""
        if self._effects_of(operation).over_parts:
            return bool(self._gone_in(*sources))
        return any(id(source) in self._gone for source in sources)

    def _effects_of(self, operation: For | If) -> Effects:
        effects = self._effects.get(operation)
        if effects is None:
            effects = self._effects[operation] = effects_of(operation)
        return effects

    def _step_over(self, operation: For | If) -> None:
        """Go on behind a loop or a branch that may go any way."""
        effects = self._effects_of(operation)
        self._budget.work(1 + len(effects.stores) + len(effects.reads))
        if effects.sites:
            self._may_call(effects.sites)
            self._lost.update(site.number for site in effects.sites)
        read = Unknown(_parts(self._values[name] for name in effects.reads if name in self._values))
        changes = [(self._values[name], deep) for name, deep in effects.changes if name in self._values]
        for slot in effects.slots:
            self._slots[slot] = Unknown([read], _NEW)
        for name, augments in effects.stores.items():
            before = self._values.get(name)
            same = None
            if augments is not None:
                if type(before) is Unknown:
                    same = before.same if augments or before.same is _NEW else None
                elif type(before) not in _CHANGEABLE:
                    same = _NEW
                elif augments:
                    same = before
            self._values[name] = Unknown(_parts([read, before]), same)
        self._forget(changes, read)


def makes_iterators(flow: Flow) -> bool:
    """Whether an expression may read an iterator that another one made: then all have to be evaluated in each look."""
    pures = [pure for operation in operations_of(flow.body) for pure in pures_of(operation)]
    return any(not _LAZY.isdisjoint(pure.expression.functions) for pure in pures) or any(
        isinstance(node, ast.GeneratorExp) for node in nodes_of([pure.node for pure in pures])
    )


def _parts(values: Iterable[Any]) -> list[Any]:
    """Those of them in which something else can be."""
    return [value for value in values if type(value) is Unknown or type(value) in _CONTAINERS]
