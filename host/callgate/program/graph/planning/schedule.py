"""From a `Flow` to a plan: one step for each place that calls a tool. Follows the program once, without its values.

1. What a call is given is an expression over the results of earlier calls; a call of a loop is a `for_each` over the
   loop's rows; a call of a branch has `when`.
2. A variable has a `Symbol`. One that is changed in place is not known any more, nor is what may share parts with it.
   That is a reason against the plan only where a call, a loop with calls or a condition with calls needs it.
3. A loop's body is followed until nothing is learned any more of what a round leaves to the next. Lists, dicts and sets
   that each round adds one thing to become comprehensions.

Knows nothing of values, and makes no call. That the calls are those of the program holds where the program succeeds.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any, Final

from callgate.program.graph.flow import (
    Assign,
    Augment,
    Block,
    CallTool,
    Change,
    Finish,
    Flow,
    For,
    Gather,
    Hold,
    If,
    Item,
    Operation,
    Site,
    Target,
    operations_of,
)  # fmt: skip
from callgate.program.graph.reasons import NotAGraph, Refusal

from .carried import Loop, after_a_round, at_the_start, left_by
from .exact import Shape, bind, elements_of
from .gathered import Gathered, added_to, gathered_in
from .given import symbol_of_input
from .naming import Naming
from .order import Order
from .rows import Rows, is_known
from .sharing import Shares, both
from .steps import Guard, Steps
from .symbols import Symbol, made, unknown
from .variables import Variables
from .work import Work

__all__ = ["schedule"]

_MOST_SITES: Final = 2_000
_ROUND_WORK: Final = 30
_READ_AT_ONCE: Final = frozenset({"extend", "update"})
"""Methods that read an iterator to its end."""


def schedule(flow: Flow, inputs: Mapping[str, Any], work: Work | None = None) -> tuple[dict[str, Any], dict[int, str]]:
    """The plan of a program, as JSON, and the step of each `Site`, by its number.

    Args:
        flow: the program.
        inputs: JSON values of its inputs; small ones become part of expressions.
        work: the budget; left with what was not spent.

    Raises:
        Refusal: it has none that is certain to make the same calls.
    """
    if len(flow.sites) > _MOST_SITES:
        line = flow.sites[_MOST_SITES].line
        message = f"a plan has at most {_MOST_SITES:,} steps"
        raise Refusal(NotAGraph(line, "the program", message, "use loops, or several programs"))
    scheduler = _Scheduler(flow, work or Work())
    for number, name in enumerate(sorted(flow.inputs)):
        shares = scheduler.variables.tokens.fresh(-1 - number, nested=True)
        scheduler.variables.symbols[name] = symbol_of_input(name, inputs, shares)
    scheduler.block(flow.body)
    return {"steps": scheduler.steps.written()}, scheduler.naming.steps


class _Scheduler:
    def __init__(self, flow: Flow, work: Work) -> None:
        self.work = work
        operations = list(operations_of(flow.body))
        self.work(len(operations))
        self.naming = Naming(operations)
        self.variables = Variables(self.naming.renamed, self.work)
        self._shapes: dict[str, Shape] = {}
        self.steps = Steps(self.naming.steps, self._shapes, self.work)
        self._order = Order({site.number for site in flow.sites if site.early}, self.work)
        self._loops: dict[int, Loop] = {}
        self._elements: dict[int, tuple[ast.expr, Shape]] = {}
        self._rows: Rows | None = None
        self._guard: Guard = ()
        self._gathered: dict[str, Gathered] = {}
        self._results: list[str] = []
        """Names that stand for results of calls, in the order in which they were made."""
        self._awaited = {(each.slot, each.line) for each in operations if isinstance(each, Finish)}

    def block(self, block: Block) -> None:
        """Follow these operations."""
        for operation in block:
            self.work(1)
            follow = _FOLLOW.get(type(operation))
            if follow is not None:
                follow(self, operation)

    # what changes variables

    def _assign(self, operation: Assign) -> None:
        target = operation.target
        if isinstance(target, Item):
            given = [self.variables.value(target.index), self.variables.value(operation.value)]
            self._add(operation, target.object, "item", given)
        else:
            self.variables.bind(target, self.variables.new(operation.value))

    def _augment(self, operation: Augment) -> None:
        value = self.variables.value(operation.value, at_once=True)
        self.variables.augment(operation.name, operation.operator, value, operation.line)

    def _change(self, operation: Change) -> None:
        at_once = operation.method in _READ_AT_ONCE
        given = [self.variables.value(argument, at_once=at_once) for argument in operation.arguments]
        self._add(operation, operation.object, operation.method, given)

    def _add(self, operation: Assign | Change, holder: Any, method: str, given: list[Symbol]) -> None:
        """A method changes an object."""
        if isinstance(holder.node, ast.Name):
            self._grow(holder.node.id, operation, method, given)
        else:
            self._touch(self.variables.value(holder).shares, _all_of(given), operation.line)

    def _grow(self, name: str, operation: Operation, method: str, given: list[Symbol]) -> None:
        gathered = self._gathered.get(name)
        if gathered is not None and added_to(operation) is not None:
            gathered.add(given, self._rows)
            symbol = self.variables.symbols[name]
            calls = symbol.calls
            for each in given:
                calls |= each.calls
            shares = both(symbol.shares, Shares(symbol.shares.own, _all_of(given)))
            self.variables.changed |= symbol.shares.own
            self.variables.symbols[name] = symbol.sharing(shares, calls)
            return
        before = self._being_gathered()
        self.variables.grow(name, method, given, operation.line)
        self._lose(before)

    def _touch(self, shares: Shares, added: int, line: int) -> None:
        before = self._being_gathered()
        self.variables.touch(shares.own, added, line)
        self._lose(before)

    def _being_gathered(self) -> dict[str, Symbol]:
        self.variables.look(len(self._gathered))
        return {name: self.variables.symbols[name] for name in self._gathered}

    def _lose(self, before: Mapping[str, Symbol]) -> None:
        """What is being gathered, and was changed in another way."""
        for name, symbol in before.items():
            after = self.variables.symbols[name]
            if after is not symbol and after.node is None:
                gathered = self._gathered[name]
                gathered.lost = gathered.lost or after

    # calls

    def _call(self, operation: CallTool) -> None:
        site = operation.site
        arguments = []
        for name, pure in operation.arguments:
            symbol = self.variables.value(pure)
            if symbol.node is None:
                raise _refusal(site.line, site.text, f"its argument `{name}` needs", symbol)
            arguments.append((name, symbol))
        lost = is_known(self._rows)
        if lost is not None:
            raise _refusal(site.line, site.text, "the loop around it needs", lost)
        before = self._order.begins(site.number)
        awaited = (operation.slot, operation.end_line) in self._awaited or (operation.slot, site.line) in self._awaited
        self.steps.add(site, arguments, self._rows, self._guard, before, awaited=awaited)
        result = self.naming.steps[site.number]
        if self._rows is not None:
            self.variables.lists.add(result)
            one = self.naming.each[site.number]
            self._rows.results[one] = result
            result = one
        self._results.append(result)
        node = ast.Name(result, ast.Load())
        self.variables.age(id(operation))
        shares = self.variables.tokens.fresh(id(operation), nested=True)  # await it twice: the same object twice
        self.variables.symbols[operation.slot] = Symbol(
            node, frozenset({result}), len(result), 1, shares, calls=1 << site.number
        )

    def _hold(self, operation: Hold) -> None:
        if operation.slot is None:
            self.variables.age(id(operation))
            empty, shares = ast.List([], ast.Load()), self.variables.tokens.fresh(id(operation))
            self.variables.symbols[operation.slots] = Symbol(empty, size=2, depth=1, shares=shares)
            return
        slot = self.variables.symbols[operation.slot]
        self._grow(operation.slots, operation, "append", [slot])
        held = self.variables.symbols[operation.slots]
        self.variables.symbols[operation.slots] = held.sharing(held.shares, held.calls | slot.calls)

    def _finish(self, operation: Finish) -> None:
        slot = self.variables.symbols[operation.slot]
        self._order.ends(slot.calls)
        self.variables.symbols[operation.variable] = slot.sharing(slot.shares)

    def _gather(self, operation: Gather) -> None:
        parts = [(part.spread, self.variables.symbols[part.slot]) for part in operation.parts]
        self.work(len(parts))
        within = 0
        for spread, slot in parts:
            self._order.ends(slot.calls)
            within |= slot.shares.parts if spread else slot.shares.all
        self.variables.age(id(operation))
        shares = self.variables.tokens.fresh(id(operation), within)
        lost = next((slot for _, slot in parts if slot.node is None), None)
        if lost is not None:
            found = lost.sharing(shares)
        elif len(parts) == 1 and parts[0][0]:
            found = parts[0][1].sharing(shares)
        else:
            elements = [
                ast.Starred(slot.node, ast.Load()) if spread else slot.node
                for spread, slot in parts
                if slot.node is not None
            ]
            slots = [slot for _, slot in parts]
            names = self.work.union(*(slot.names for slot in slots))
            found = made(ast.List(elements, ast.Load()), names, *slots, shares=shares)
        self.variables.symbols[operation.variable] = found

    # branches

    def _if(self, operation: If) -> None:
        test = self.variables.value(operation.test)
        if test.node is None and self._has_sites(operation):
            raise _refusal(operation.line, "if", "its condition, with calls in a branch, needs", test)
        before, began, made_so_far = dict(self.variables.symbols), self._order.now, len(self._results)
        rows, guard = self._rows, self._guard
        sides: list[dict[str, Symbol]] = []
        ended = began
        for block, negated in ((operation.body, False), (operation.orelse, True)):
            self.variables.look(len(before))
            self.variables.symbols = dict(before)
            self._order.now = began
            held = _negated(test) if negated else test
            if rows is not None:
                self._rows = Rows(rows, held)
            else:
                self._guard = (*guard, ((id(operation), negated), held))
            self.block(block)
            sides.append(self.variables.symbols)
            ended = ended | self._order.now
        self._rows, self._guard = rows, guard
        self._order.now = ended
        self.work(len(self._results) - made_so_far >> 3)
        hidden = frozenset(self._results[made_so_far:])
        self.variables.merge(test, (sides[0], sides[1]), hidden, operation.line)

    # loops

    def _for(self, operation: For) -> None:
        loop = self._loop(operation)
        values = self.variables.value(operation.values, at_once=True)
        sites = loop.sites
        if sites:
            self._check_loop(operation, values, sites)
        variables, rows = self.variables, self._rows
        entry = variables.symbols
        taken = self._gathered
        self.work(len(loop.operations) >> 1)
        gathering = dict(gathered_in(loop.operations, loop.mentions, variables, values, rows, taken))
        harmless = {*loop.first, *gathering} if loop.is_quiet else loop.first
        self.work(3 * len(loop.stored))
        variables.look(len(entry))
        start = at_the_start(operation, loop, entry, gathering)
        began, steps, results, number = self._order.now, len(self.steps), len(self._results), 0
        variables.rounds += 1
        again = True
        while again:
            number += 1
            self.work(_ROUND_WORK + 2 * len(loop.stored))
            variables.look(3 * len(start))
            variables.symbols = dict(start)
            changed, variables.changed = variables.changed, 0
            self._order.now = began
            self.steps.keep(steps)
            del self._results[results:]
            self._gathered = {**taken, **{name: each.again() for name, each in gathering.items()}}
            self._rows = Rows(rows, values)
            self._take(operation, self._rows)
            self.block(operation.body)
            start, again = after_a_round(start, variables.symbols, operation.line, harmless, variables.tokens, number)
            touched = variables.changed & values.shares.all
            variables.changed |= changed
            if touched and values.node is not None:
                hint = "loop over a copy: list(values)"
                if sites:
                    message = "what it goes over is changed in the loop, or shares parts with what is"
                    raise Refusal(NotAGraph(operation.line, "for", message, hint))
                why = f"is changed in the loop in line {operation.line} that goes over it"
                values, again = unknown("$", why, hint, values.shares), True
        variables.rounds -= 1
        self._rows = rows
        end = variables.symbols
        variables.symbols = start
        for name, symbol in end.items():
            if name not in start:
                start[name] = left_by(operation, name, symbol)
        gathered, self._gathered = self._gathered, taken
        for name in gathering:
            before = start[name]
            start[name] = gathered[name].after(name, before.shares, before.calls, self.work)

    def _loop(self, operation: For) -> Loop:
        loop = self._loops.get(id(operation))
        if loop is None:
            loop = self._loops[id(operation)] = Loop.of(operation)
            self.work(len(loop.operations) + len(loop.mentions))
        return loop

    def _has_sites(self, operation: If) -> bool:
        operations = list(operations_of((operation,)))
        self.work(len(operations) >> 1)
        return any(isinstance(each, CallTool) for each in operations)

    def _check_loop(self, operation: For, values: Symbol, sites: list[Site]) -> None:
        if values.node is None:
            raise _refusal(operation.line, "for", "what it goes over, with calls in it, needs", values)
        late = next((site for site in sites if not site.early), None)
        if late is not None and len(sites) > 1:
            message = f"it calls {late.name}, which is not read-only, and calls others as well"
            hint = f"make the other calls in a loop of their own, before the one with {late.name}"
            raise Refusal(NotAGraph(operation.line, "for", message, hint))

    def _take(self, operation: For, rows: Rows) -> None:
        """The variables of the loop."""
        target = self._target(operation, operation.target, rows)
        rows.target = target
        if rows.values.node is not None:
            bind(target, self._elements_of(rows.values), self._shapes)

    def _elements_of(self, values: Symbol) -> Shape:
        node = values.node
        assert node is not None
        known = self._elements.get(id(node))
        if known is not None:
            return known[1]
        self.work(values.size >> 4)
        shape = elements_of(node, self._shapes)
        if not values.names:
            self._elements[id(node)] = node, shape
        return shape

    def _target(self, operation: For, target: Target, rows: Rows) -> ast.expr:
        if isinstance(target, tuple):
            return ast.Tuple([self._target(operation, each, rows) for each in target], ast.Store())
        assert isinstance(target, str)
        name = self.naming.row(operation, target)
        shares = Shares(rows.values.shares.all, rows.values.shares.all)
        if rows.values.node is None:
            symbol = rows.values.sharing(shares)
        else:
            symbol = Symbol(ast.Name(name, ast.Load()), frozenset({name}), len(name), 1, shares)
        self.variables.symbols[target] = symbol
        rows.variables = (*rows.variables, name)
        return ast.Name(name, ast.Store())


def _all_of(symbols: list[Symbol]) -> int:
    """All that they may share."""
    found = 0
    for symbol in symbols:
        found |= symbol.shares.all
    return found


def _negated(test: Symbol) -> Symbol:
    if test.node is None:
        return test
    return made(ast.UnaryOp(ast.Not(), test.node), test.names, test)


def _refusal(line: int, construct: str, needs: str, symbol: Symbol) -> Refusal:
    return Refusal(NotAGraph(line, construct, f"{needs} {symbol.subject}, which {symbol.why}", symbol.hint))


_FOLLOW: Final[dict[type[Operation], Any]] = {
    Assign: _Scheduler._assign,
    Augment: _Scheduler._augment,
    CallTool: _Scheduler._call,
    Change: _Scheduler._change,
    Finish: _Scheduler._finish,
    For: _Scheduler._for,
    Gather: _Scheduler._gather,
    Hold: _Scheduler._hold,
    If: _Scheduler._if,
}
"""What is printed, and the program's value, is the walk's."""
