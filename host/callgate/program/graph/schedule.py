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
from dataclasses import replace
from typing import Any, Final

from .carried import after_a_round, at_the_start, left_by
from .exact import Shape, bind, elements_of
from .flow import (
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
from .gathered import Gathered, added_to, gathered_in
from .given import symbol_of_input
from .naming import Naming
from .order import Order
from .reasons import NotAGraph, Refusal
from .rows import Rows, free_names, is_known
from .sharing import Shares, Token, both, fresh
from .steps import Guard, Steps
from .symbols import Symbol, blamed, copied, made, unknown
from .variables import Variables, kind_of

__all__ = ["schedule"]

_MOST_SITES: Final = 2_000
_LITTLE: Final = 100


def schedule(flow: Flow, inputs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[int, str]]:
    """The plan of a program, as JSON, and the step of each `Site`, by its number.

    Args:
        flow: the program.
        inputs: JSON values of its inputs; small ones become part of expressions.

    Raises:
        Refusal: it has none that is certain to make the same calls.
    """
    if len(flow.sites) > _MOST_SITES:
        line = flow.sites[_MOST_SITES].line
        message = f"a plan has at most {_MOST_SITES:,} steps"
        raise Refusal(NotAGraph(line, "the program", message, "use loops, or several programs"))
    scheduler = _Scheduler(flow)
    for number, name in enumerate(sorted(flow.inputs)):
        scheduler.variables.symbols[name] = symbol_of_input(name, inputs, -1 - number)
    scheduler.block(flow.body)
    return {"steps": scheduler.steps.written()}, scheduler.naming.steps


class _Scheduler:
    def __init__(self, flow: Flow) -> None:
        self.naming = Naming(flow)
        self.variables = Variables(self.naming.renamed)
        self._shapes: dict[str, Shape] = {}
        self.steps = Steps(self.naming.steps, self._shapes)
        self._order = Order({site.number for site in flow.sites if site.early})
        self._rows: Rows | None = None
        self._guard: Guard = ()
        self._gathered: dict[str, Gathered] = {}
        self._results: list[str] = []
        """Names that stand for results of calls, in the order in which they were made."""
        self._awaited = {
            (operation.slot, operation.line) for operation in operations_of(flow.body) if isinstance(operation, Finish)
        }

    def block(self, block: Block) -> None:
        """Follow these operations."""
        for operation in block:
            self.variables.work(1)
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
            self._bind(target, self.variables.new(operation.value))

    def _bind(self, target: Target, symbol: Symbol) -> None:
        if isinstance(target, str):
            self.variables.symbols[target] = blamed(symbol, target)
            return
        assert not isinstance(target, Item)  # items among several targets are no graph
        parts = Shares(symbol.shares.parts, symbol.shares.parts)
        whole = symbol.node
        for index, each in enumerate(target):
            if whole is None:
                part = copied(symbol, parts)
            elif isinstance(whole, ast.List | ast.Tuple) and len(whole.elts) == len(target) and _is_plain(whole.elts):
                part = replace(symbol, node=whole.elts[index], names=free_names(whole.elts[index]), shares=parts)
            else:
                is_list = kind_of(whole, self.variables.lists) == "list"
                values = whole if is_list else ast.Call(ast.Name("list", ast.Load()), [whole], [])
                node = ast.Subscript(values, ast.Constant(index), ast.Load())
                part = made(node, symbol.names, symbol, shares=parts)
            self._bind(each, part)

    def _augment(self, operation: Augment) -> None:
        self.variables.augment(
            operation.name, operation.operator, self.variables.value(operation.value), operation.line
        )

    def _change(self, operation: Change) -> None:
        given = [self.variables.value(argument) for argument in operation.arguments]
        self._add(operation, operation.object, operation.method, given)

    def _add(self, operation: Assign | Change, holder: Any, method: str, given: list[Symbol]) -> None:
        """A method changes an object."""
        if isinstance(holder.node, ast.Name):
            self._grow(holder.node.id, operation, method, given)
        else:
            added = frozenset[Token]().union(*(each.shares.all for each in given))
            self._touch(self.variables.value(holder).shares, added, operation.line)

    def _grow(self, name: str, operation: Operation, method: str, given: list[Symbol]) -> None:
        gathered = self._gathered.get(name)
        if gathered is not None and added_to(operation) is not None:
            gathered.add(given, self._rows)
            symbol = self.variables.symbols[name]
            added = frozenset[Token]().union(*(each.shares.all for each in given))
            calls = symbol.calls.union(*(each.calls for each in given))
            shares = both(symbol.shares, Shares(symbol.shares.own, added))
            self.variables.changed |= symbol.shares.own
            if shares is not symbol.shares or calls != symbol.calls:
                self.variables.symbols[name] = replace(symbol, shares=shares, calls=calls)
            return
        before = dict(self.variables.symbols)
        self.variables.grow(name, method, given, operation.line)
        self._lose(before)

    def _touch(self, shares: Shares, added: frozenset[Token], line: int) -> None:
        before = dict(self.variables.symbols)
        self.variables.touch(shares.own, added, line)
        self._lose(before)

    def _lose(self, before: Mapping[str, Symbol]) -> None:
        """What is being gathered, and was changed in another way."""
        for name, gathered in self._gathered.items():
            after = self.variables.symbols[name]
            if after is not before[name] and after.node is None:
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
        shares = fresh(id(operation), nested=True)  # whoever awaits it twice gets the same object twice
        calls = frozenset({site.number})
        self.variables.symbols[operation.slot] = Symbol(node, frozenset({result}), len(result), 1, shares, calls=calls)

    def _hold(self, operation: Hold) -> None:
        if operation.slot is None:
            self.variables.age(id(operation))
            empty = ast.List([], ast.Load())
            self.variables.symbols[operation.slots] = Symbol(empty, size=2, depth=1, shares=fresh(id(operation)))
            return
        slot = self.variables.symbols[operation.slot]
        self._grow(operation.slots, operation, "append", [slot])
        held = self.variables.symbols[operation.slots]
        self.variables.symbols[operation.slots] = replace(held, calls=held.calls | slot.calls)

    def _finish(self, operation: Finish) -> None:
        slot = self.variables.symbols[operation.slot]
        self._order.ends(sorted(slot.calls))
        self.variables.symbols[operation.variable] = replace(slot, calls=frozenset())

    def _gather(self, operation: Gather) -> None:
        slots = [self.variables.symbols[part.slot] for part in operation.parts]
        for slot in slots:
            self._order.ends(sorted(slot.calls))
        self.variables.age(id(operation))
        parts = zip(operation.parts, slots, strict=True)
        within = [slot.shares.parts if part.spread else slot.shares.all for part, slot in parts]
        shares = fresh(id(operation), frozenset[Token]().union(*within))
        lost = next((slot for slot in slots if slot.node is None), None)
        if lost is not None:
            found = replace(lost, shares=shares, calls=frozenset())
        elif len(slots) == 1 and operation.parts[0].spread:
            found = replace(slots[0], shares=shares, calls=frozenset())
        else:
            elements: list[ast.expr] = []
            for part, slot in zip(operation.parts, slots, strict=True):
                assert slot.node is not None
                elements.append(ast.Starred(slot.node, ast.Load()) if part.spread else slot.node)
            names = frozenset[str]().union(*(slot.names for slot in slots))
            found = made(ast.List(elements, ast.Load()), names, *slots, shares=shares)
        self.variables.symbols[operation.variable] = found

    # branches

    def _if(self, operation: If) -> None:
        test = self.variables.value(operation.test)
        if test.node is None and _sites_in((operation,)):
            raise _refusal(operation.line, "if", "its condition, with calls in a branch, needs", test)
        before, began, made_so_far = dict(self.variables.symbols), self._order.now, len(self._results)
        rows, guard = self._rows, self._guard
        sides: list[dict[str, Symbol]] = []
        ended = began
        for block, negated in ((operation.body, False), (operation.orelse, True)):
            self.variables.work(len(before))
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
        hidden = frozenset(self._results[made_so_far:])
        self.variables.merge(test, (sides[0], sides[1]), hidden, operation.line)

    # loops

    def _for(self, operation: For) -> None:
        values = self.variables.value(operation.values)
        sites = _sites_in(operation.body)
        if sites:
            self._check_loop(operation, values, sites)
        variables, rows = self.variables, self._rows
        entry = dict(variables.symbols)
        gathering = dict(gathered_in(operation.body, variables, values, rows, self._gathered))
        start = at_the_start(operation, entry, gathering)
        began, steps, results, made_so_far = self._order.now, len(self.steps), len(self._results), dict(self._gathered)
        variables.rounds += 1
        while True:
            variables.symbols = dict(start)
            changed, variables.changed = variables.changed, set()
            self._order.now = began
            self.steps.keep(steps)
            del self._results[results:]
            self._gathered = {**made_so_far, **{name: replace(each) for name, each in gathering.items()}}
            self._rows = Rows(rows, values)
            self._take(operation, self._rows)
            self.block(operation.body)
            variables.work(len(start))
            again = after_a_round(start, variables.symbols, operation.line)
            touched = not variables.changed.isdisjoint(values.shares.all)
            variables.changed |= changed
            if touched and values.node is not None:
                hint = "loop over a copy: list(values)"
                if sites:
                    message = "what it goes over is changed in the loop, or shares parts with what is"
                    raise Refusal(NotAGraph(operation.line, "for", message, hint))
                why = f"is changed in the loop in line {operation.line} that goes over it"
                values = unknown("$", why, hint, values.shares)
            elif again is None:
                break
            start = again or start
        variables.rounds -= 1
        self._rows = rows
        end = variables.symbols
        variables.symbols = {name: start.get(name) or left_by(operation, name, end[name]) for name in {**start, **end}}
        self._finish_gathering(gathering, end)
        self._gathered = {name: each for name, each in self._gathered.items() if name not in gathering}

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
            bind(target, elements_of(rows.values.node, self._shapes), self._shapes)

    def _target(self, operation: For, target: Target, rows: Rows) -> ast.expr:
        if isinstance(target, tuple):
            return ast.Tuple([self._target(operation, each, rows) for each in target], ast.Store())
        assert isinstance(target, str)
        name = self.naming.row(operation, target)
        shares = Shares(rows.values.shares.all, rows.values.shares.all)
        if rows.values.node is None:
            symbol = copied(rows.values, shares)
        else:
            symbol = Symbol(ast.Name(name, ast.Load()), frozenset({name}), len(name), 1, shares)
        self.variables.symbols[target] = symbol
        rows.variables = (*rows.variables, name)
        return ast.Name(name, ast.Store())

    def _finish_gathering(self, gathering: Mapping[str, Gathered], end: Mapping[str, Symbol]) -> None:
        for name in gathering:
            gathered, after = self._gathered[name], end[name]
            found = gathered.after(name, after.shares)
            if found.node is not None:
                self.variables.work(found.size // _LITTLE)
            self.variables.symbols[name] = replace(found, calls=after.calls)


def _sites_in(block: Block) -> list[Site]:
    return [operation.site for operation in operations_of(block) if isinstance(operation, CallTool)]


def _negated(test: Symbol) -> Symbol:
    if test.node is None:
        return test
    return made(ast.UnaryOp(ast.Not(), test.node), test.names, test)


def _is_plain(elements: list[ast.expr]) -> bool:
    return not any(isinstance(element, ast.Starred) for element in elements)


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
