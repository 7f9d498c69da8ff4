"""A walk ahead of the walk: finds the calls that the program will make, as far as they are known. Has no effects.

1. The ghost makes no call. It offers calls that may begin early and whose place and arguments are known.
2. It ends at a call with effects that has not ended, and at an await of a failed call: nothing behind such a place is
   certain.
3. It shares no object with the walk: inputs and results are decoded for it separately.
4. The result of a call that has not ended is an `Unknown`. So is an expression that fails because a value is unknown.
5. A branch or a loop that depends on an unknown value is stepped over. Variables that it would store become unknown. A
   container that it may change is noted as gone, by identity, and every value computed from that container is unknown.
6. A site in a block that was stepped over makes an unknown number of calls: the ghost offers nothing more there.
"""

from __future__ import annotations

import ast
import functools
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
from .steps import WORKED, Step, Unsure, Worked, decode
from .walk import Walk

__all__ = ["Ghost", "Offered", "Place", "makes_iterators"]

Place = tuple[int, int]
"""The number of a call's `Site`, and the position of the call among the calls of that site."""
_CONTAINERS: Final = DICTS | SEQUENCES | VIEWS | {set}
_CHANGEABLE: Final = DICTS | {list, set}
_LOOK_STEPS: Final = 50_000
_LOOK_BYTES: Final = 16 * 1024 * 1024
"""Limits of one look. One expression may take all steps, in one turn."""
_LAZY: Final = frozenset({"enumerate", "filter", "map", "reversed", "zip"})
_NO_MORE: Final = object()
_WANTING: Final = (ExpressionError, ExpressionFault)
"""Errors of an expression that lacks a value, or that fails by itself."""


@dataclass(frozen=True, slots=True)
class Offered:
    """A call that could begin now."""

    site: Site
    number: int
    arguments: dict[str, Any]
    """JSON, not shared with the program."""


class _End(Exception):
    """Nothing behind this place is certain to happen."""


class Ghost(Walk):
    """The ghost of one run. One `look` at a time; each begins at the program's start.

    Args:
        flow: the program.
        inputs: JSON values.
        budget: for all looks together.
        known: the results of the calls that have ended, as JSON; None where one failed.
        asked: the calls that have begun already.
        most_calls: number of calls that the program may make; None: no limit.
        is_lazy: result of `makes_iterators` for the program.
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
        """Numbers of the sites that made an unknown number of calls."""
        self._gone: dict[int, list[Any]] = {}
        """Containers with unknown content, by identity: each with the values that it may contain."""
        self._made = 0

    def look(self) -> Generator[Offered | Worked, None, None]:
        """Offer the calls that could begin now. Ends without an error whatever the program does."""
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
            pass  # the walk will report it
        finally:
            self._whole.settle(self._budget)
            self._values, self._slots, self._results, self._gone = {}, {}, {}, {}

    # values

    def _evaluate(self, pure: Pure) -> Any:
        values = [self._values[name] for name in pure.expression.names]
        if type(pure.node) is ast.Name:
            return values[0]
        if not self._is_gone(values):
            try:
                return pure.expression.evaluate(self._values, self._budget)
            except _WANTING:
                self._check_wanting(values)
        return Unknown(_parts(values), fresh=type(pure.node) in MAKE_NEW)

    def _within(self, values: Iterable[Any], *, kin: bool = False) -> Iterator[Any]:
        """Containers and unknown values among these values and inside them; with `kin` also those that they may be or
        hold."""
        seen: dict[int, Any] = {}
        todo = _parts(values)
        while todo:
            each = todo.pop()
            if id(each) in seen:
                continue
            seen[id(each)] = each
            yield each
            if type(each) is Unknown:
                inner = each.kin if kin else ()
            else:
                inner = each.values() if type(each) in DICTS else each
            self._budget.work(1 + (len(inner) >> 2))
            todo += _parts(inner)
            if kin:
                todo += self._gone.get(id(each), ())

    def _is_gone(self, values: Iterable[Any], *, deep: bool = True) -> bool:
        """Whether one of these values, or a part of it, may have been changed. A view always counts as changed."""
        if not self._gone:
            return False
        return any(id(each) in self._gone or type(each) in VIEWS for each in (self._within(values) if deep else values))

    def _check_wanting(self, values: Iterable[Any]) -> None:
        """Raise `_End` unless one of these values has an unknown part: without one, the expression failed by itself."""
        if not any(type(each) is Unknown or id(each) in self._gone for each in self._within(values)):
            raise _End

    def _forget(self, value: Any, given: Unknown, *, deep: bool = False) -> None:
        """Note an unknown change of a value, with `deep` also of its parts. Parts of `given` may be in it
        afterwards."""
        if deep or (type(value) is Unknown and not value.fresh):
            changed = list(self._within([value], kin=True))
        else:
            changed = _parts([value])
        for each in changed:
            if type(each) is Unknown:
                each.kin.append(given)
            else:
                self._gone.setdefault(id(each), [each]).append(given)

    def _change_it(self, holder: Any, given: list[Any], change: Callable[[], None], *, reads: bool) -> None:
        """Change a container. If the change is not possible yet, the content of the container is unknown from here on.

        Args:
            holder: the container.
            given: values that may be in it afterwards.
            change: makes the change.
            reads: the change depends on the content of the holder and of `given`.
        """
        if type(holder) is not Unknown and not self._is_gone([holder, *given] if reads else [holder], deep=reads):
            try:
                guarded(self._budget, change)
                return
            except _WANTING:
                self._check_wanting([holder, *given])
        self._forget(holder, Unknown(_parts(given)))

    def _bind(self, target: Target, value: Any) -> None:
        if isinstance(target, Item):
            holder, index = self._evaluate(target.object), self._evaluate(target.index)
            change = functools.partial(set_item, self._budget, holder, index, value)
            self._change_it(holder, [index, value], change, reads=False)
        elif isinstance(target, tuple) and (type(value) is Unknown or self._is_gone([value], deep=False)):
            for each in target:
                self._bind(each, Unknown([value]))
        else:
            super()._bind(target, value)

    def _augment(self, operation: Augment) -> None:
        value, before = self._evaluate(operation.value), self._values[operation.name]
        budget, how = self._budget, operation.operator
        is_unknown = type(before) is Unknown
        if type(value) is not Unknown and not is_unknown and not self._is_gone([before, value]):
            try:
                self._values[operation.name] = guarded(budget, lambda: augment(budget, how, before, value))
                return
            except _WANTING:
                self._check_wanting([before, value])
        if type(before) in _CHANGEABLE or (is_unknown and not before.fresh):
            self._forget(before, Unknown(_parts([value])))
        if type(before) not in _CHANGEABLE:
            self._values[operation.name] = Unknown(_parts([before, value]), fresh=not is_unknown or before.fresh)

    def _change(self, operation: Change) -> None:
        holder = self._evaluate(operation.object)
        self._check_method(holder, operation.method)
        given = [self._evaluate(argument) for argument in operation.arguments]
        change = functools.partial(call_method, self._budget, holder, operation.method, given)
        self._change_it(holder, given, change, reads=operation.method != "append")

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
            self._slots[operation.slot] = Unknown(fresh=True)
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
        if any(type(value) is Unknown for value in given.values()) or self._is_gone(given.values()):
            return None
        try:
            return self._as_json(given)
        except Unsure:
            self._check_wanting(given.values())
            return None

    def _may_call(self, sites: Iterable[Site]) -> None:
        """Go on behind an unknown number of calls, if that is allowed."""
        self.blocked = True
        if self._most_calls is not None or not all(site.early for site in sites):
            raise _End

    def _hold(self, operation: Hold) -> None:
        if operation.slot is None:
            self._slots[operation.slots] = []
        elif type(self._slots[operation.slots]) is not Unknown:
            self._slots[operation.slots].append(self._slots[operation.slot])

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
        made: Any = results if counted else Unknown(results, fresh=True)
        self._values[operation.variable] = results[0] if operation.alone else made
        yield from ()

    def _result(self, call: Any) -> Any:
        """The result of a call; the same object each time."""
        if type(call) is Unknown:
            return call
        if call in self._results:
            return self._results[call]
        if call not in self._known:
            value: Any = Unknown(fresh=True)
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
        if type(test) is Unknown or self._is_gone([test], deep=False):
            self._step_over(operation)
        else:
            yield from self._block(operation.body if test else operation.orelse)

    def _for(self, operation: For) -> Iterator[Step]:
        sources = [self._values[name] for name in operation.values.expression.names]
        values = operation.values.expression.items(self._values, self._budget)
        is_gone = self._is_gone(sources, deep=type(operation.values.node) is not ast.Name)
        while not is_gone:
            try:
                value = next(values, _NO_MORE)
            except _WANTING:
                self._check_wanting(sources)
                break
            if value is _NO_MORE:
                return
            self._budget.work(1)
            self._bind(operation.target, value)
            if self._is_time():
                yield WORKED
            yield from self._block(operation.body)
            is_gone = bool(self._gone) and self._is_gone(sources, deep=self._effects_of(operation).over_parts)
        self._step_over(operation)

    def _effects_of(self, operation: For | If) -> Effects:
        effects = self._effects.get(operation)
        if effects is None:
            effects = self._effects[operation] = effects_of(operation)
        return effects

    def _step_over(self, operation: For | If) -> None:
        """Go on behind a loop or a branch whose course is unknown."""
        effects = self._effects_of(operation)
        self._budget.work(1 + len(effects.stores) + len(effects.reads))
        if effects.sites:
            self._may_call(effects.sites)
            self._lost.update(site.number for site in effects.sites)
        read = Unknown(_parts(self._values[name] for name in effects.reads if name in self._values))
        changed = [(self._values[name], deep) for name, deep in effects.changes if name in self._values]
        for slot in effects.slots:
            self._slots[slot] = Unknown([read], fresh=True)
        for name, augments in effects.stores.items():
            before = self._values.get(name)
            if not augments or type(before) not in _CHANGEABLE:  # else it is among the changed containers
                fresh = augments and (type(before) is not Unknown or before.fresh)
                self._values[name] = Unknown(_parts([read, before]), fresh=fresh)
        for value, deep in changed:
            self._forget(value, read, deep=deep)


def makes_iterators(flow: Flow) -> bool:
    """Whether an expression may read an iterator of another expression: then each look has to evaluate all of them."""
    pures = [pure for operation in operations_of(flow.body) for pure in pures_of(operation)]
    return any(not _LAZY.isdisjoint(pure.expression.functions) for pure in pures) or any(
        isinstance(node, ast.GeneratorExp) for node in nodes_of([pure.node for pure in pures])
    )


def _parts(values: Iterable[Any]) -> list[Any]:
    """The containers and unknown values among these values."""
    return [value for value in values if type(value) is Unknown or type(value) in _CONTAINERS]
