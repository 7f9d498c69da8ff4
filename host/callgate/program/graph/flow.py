"""A program as a list of operations. `read` makes it; the walk follows it, the ghost looks through it ahead, and
`writing` writes it as a plan.

1. Operations stand in the order in which CPython evaluates. An expression that holds an `await` is taken apart: each
   part that is evaluated before the call becomes a variable of its own.
2. Variables are the program's names. The reading names its own variables ``$1``, ``$2``, and so on, which no program
   can write. It renames the variables of a comprehension that makes calls in this way, too.
3. A slot holds a call that was started and not yet awaited, or a list of such calls. Slots are named like variables. No
   pure expression mentions a slot.
4. Every variable certainly has a value where it is read; any other program is not a graph.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from callgate.plan.expressions import Expression

__all__ = [
    "Assign", "Augment", "Block", "CallTool", "Change", "Flow", "For", "Gather", "Has", "Hold", "If", "Item",
    "Operation", "Order", "Part", "Print", "Pure", "Return", "Site", "Target", "names_in",
    "operations_of", "pures_of",
]  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Pure:
    """An expression without calls of tools."""

    node: ast.expr
    expression: Expression
    """The expression of `node`, ready to be evaluated (`records_only=True`)."""
    line: int
    exact: bool
    """The line and the words of its errors are certain: the expression stands on one line and has no set."""


@dataclass(frozen=True, slots=True, eq=False)
class Item:
    """``object[index]`` as a target of an assignment."""

    object: Pure
    index: Pure


Target = str | Item | tuple["Target", ...]
"""Target of an assignment: a variable, an item, or a pattern of them."""


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """A place in the program where a tool is called."""

    number: int
    """From 0, in the order of the operations."""
    tool: str
    """The tool's name in the registry."""
    name: str
    """Its name in the program."""
    early: bool
    """The call may begin before the program gets there: the tool is read-only and needs no approval."""
    line: int
    """Where the call begins, or where its method's name stands: the line that CPython gives it."""
    text: str
    """The call as the program has it, cut."""


@dataclass(frozen=True, slots=True, eq=False)
class Assign:
    """``target = value``. As in Python, the target gets the object itself, not a copy."""

    target: Target
    value: Pure
    line: int


@dataclass(frozen=True, slots=True, eq=False)
class Augment:
    """``name += value``, or another operator. This changes a list or set in place, as in Python."""

    name: str
    operator: type[ast.operator]
    value: Pure
    line: int


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """A method that changes its object: ``values.append(x)``. The value of the call is not used."""

    object: Pure
    method: str
    arguments: tuple[Pure, ...]
    line: int


@dataclass(frozen=True, slots=True, eq=False)
class Has:
    """Look a method up, as Python does before it evaluates the arguments: an object without the method fails here."""

    object: Pure
    method: str
    line: int


@dataclass(frozen=True, slots=True, eq=False)
class CallTool:
    """Start a call. The slot holds the call until it is awaited."""

    slot: str
    site: Site
    arguments: tuple[tuple[str, Pure], ...]
    """Parameter names of the tool and their values, in the order of evaluation; no name comes twice."""
    line: int
    task: bool = False
    """The program made it a task by `asyncio.create_task`, which logs errors that are never awaited."""


@dataclass(frozen=True, slots=True, eq=False)
class Hold:
    """``slots.append(slot)``: add a started call to a list of calls. ``Hold(list, None)`` makes the empty list."""

    slots: str
    slot: str | None
    line: int


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """An argument of `gather`: a call, or with `spread` a list of calls."""

    slot: str
    spread: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Gather:
    """``await``: the variable becomes the list of all results, or with ``alone`` the result of the only call. The first
    error ends the program in this line."""

    variable: str
    parts: tuple[Part, ...]
    line: int
    alone: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Print:
    """``print``: each text, each separator and the end is written by itself, as in Python."""

    texts: Pure
    """An expression that gives the list of texts."""
    between: str
    end: str
    line: int


@dataclass(frozen=True, slots=True, eq=False)
class For:
    """``for target in values``, also for the rounds of a comprehension that makes calls."""

    target: Target
    values: Pure
    body: Block
    line: int


@dataclass(frozen=True, slots=True, eq=False)
class If:
    """``if``; also a conditional expression, `and` or `or` with a call in it."""

    test: Pure
    body: Block
    orelse: Block
    line: int


@dataclass(frozen=True, slots=True, eq=False)
class Return:
    """The program ends with this value; always the last operation of all."""

    value: Pure
    line: int


Operation = Assign | Augment | Change | CallTool | Hold | Gather | Has | Print | For | If | Return
Block = tuple[Operation, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Flow:
    """A whole program."""

    body: Block
    sites: tuple[Site, ...] = ()
    inputs: frozenset[str] = frozenset()
    """Names of the inputs it reads."""
    function: str | None = None
    """Name of the `async def` that holds all of the program but its own call; tracebacks show it."""
    function_lines: tuple[int, int] = (0, 0)
    """First and last line of that function."""
    call_line: int | None = None
    """Line where that function is called."""


def operations_of(block: Block) -> Iterator[Operation]:
    """Every operation of a block and of the loops and branches within it, in the order of the text."""
    for operation in block:
        yield operation
        if isinstance(operation, For):
            yield from operations_of(operation.body)
        elif isinstance(operation, If):
            yield from operations_of(operation.body)
            yield from operations_of(operation.orelse)


def pures_of(operation: Operation) -> Iterator[Pure]:
    """The expressions of an operation itself, without those of the blocks within it."""
    for name in operation.__slots__:
        yield from _pures_in(getattr(operation, name))


def _pures_in(part: Any) -> Iterator[Pure]:
    if isinstance(part, Pure):
        yield part
    elif isinstance(part, Item):
        yield part.object
        yield part.index
    elif isinstance(part, tuple):
        for each in part:
            yield from _pures_in(each)


def names_in(target: Target) -> Iterator[str]:
    """The variables that a target binds."""
    if isinstance(target, str):
        yield target
    elif isinstance(target, tuple):
        for each in target:
            yield from names_in(each)


class Order:
    """Which calls of a program have to have ended before another one begins. The program's calls come one by one.

    A call with effects comes after all calls that the program awaited before it. A call that only reads comes after
    the calls with effects that were begun before it, awaited or not: begun earlier, it would not see these effects.
    """

    def __init__(self) -> None:
        self._number: dict[str, int] = {}
        self._before: dict[str, set[str]] = {}
        self._ended: set[str] = set()
        """Awaited calls, without those that another awaited call waits for."""
        self._writes: set[str] = set()
        """Awaited calls with effects, without those that another one waits for."""
        self._begun: set[str] = set()
        """Calls with effects that are not awaited yet."""

    def begin(self, step: str, *, early: bool, needs: Collection[str] = ()) -> list[str]:
        """The program comes to a call. Returns the calls that have to have ended, without those whose result it needs.

        Args:
            step: id of the call.
            early: it only reads.
            needs: calls whose results are among its arguments.
        """
        before = self._writes | self._begun if early else set(self._ended)
        if not early:
            self._begun.add(step)
        self._number[step] = len(self._number)
        self._before[step] = before
        return sorted(before.difference(needs), key=self._number.__getitem__)

    def end(self, steps: Iterable[str]) -> None:
        """The program goes on once these calls have ended."""
        for step in steps:
            self._ended = self._ended - self._before[step] | {step}
            if step in self._begun:
                self._begun.discard(step)
                self._writes = self._writes - self._before[step] | {step}
