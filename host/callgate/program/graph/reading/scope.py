"""What the names of a program mean while it is read: variables, calls not awaited, tools, modules. Knows no operations.

1. A name of a tool, of a listed function or of a module keeps its meaning through the whole program: one that gets
   another is a reason.
2. A variable may be read where it certainly has a value.
3. A call that was started has to be awaited in the block where it was started, and a list of calls in the block where
   the list was made; never within a branch or a loop of its own.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from callgate.plan.expressions.functions import FUNCTIONS
from callgate.program.graph.reasons import SHOWN, NotAGraph, Refusal, written

__all__ = ["GraphTool", "GraphTools", "Scope", "Slot", "namespace_of", "refusal", "stored_names", "written"]

_MOST_BLOCKS: Final = 50
"""Levels of blocks, and of conditions and comprehensions with calls; whoever follows them recurses."""
GIVEN: Final = frozenset({"print", "asyncio", "json", "tools", "tool_call", "ToolError"}) | frozenset(
    name.partition(".")[0] for name in FUNCTIONS
)
"""Names that mean the same in every program that is a graph."""


@dataclass(frozen=True, slots=True)
class GraphTool:
    """What has to be known of a tool."""

    tool: str
    """Its name in the registry."""
    name: str
    """Its name in programs."""
    parameters: tuple[str, ...]
    """In the order in which positional arguments fill them."""
    early: bool
    """It may be called before the program gets there: it is read-only, and nobody is asked for approval."""
    spellings: Mapping[str, str] = field(default_factory=dict)
    """What programs write for parameters that are no Python names, and which these are."""
    variadic: bool = False
    """Its one parameter takes all positional arguments."""


@dataclass(frozen=True, slots=True)
class GraphTools:
    """The tools of a program, and every way to write them."""

    tools: Mapping[str, GraphTool]
    """By their names in programs."""
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Those names by namespaces, and by what the tools are called there; ``""`` is the module `tools`."""
    resolve: Callable[[str], str | None] = str
    """That name for what stands in ``tool_call("...")``; None, or no name of a tool, where it finds none."""


@dataclass(slots=True)
class Slot:
    """A started call, or a list of them, that has a name in the program."""

    kind: Literal["call", "calls"]
    line: int
    place: tuple[int, ...]
    """The blocks around it, from the outermost."""
    awaited: bool = False


@dataclass(slots=True)
class Scope:
    """The names of one program, as far as it has been read."""

    tools: Mapping[str, GraphTool]
    inputs: frozenset[str]
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """See `GraphTools`; without those whose names the program gives another meaning, but for `tools.name`."""
    hidden: frozenset[str] = frozenset()
    """Those: of them only ``tools.name`` is the namespace."""
    resolve: Callable[[str], str | None] = str
    variables: set[str] = field(default_factory=set)
    """Those that have a value for certain."""
    bound: set[str] = field(default_factory=set)
    """Those that got a value anywhere so far."""
    unsure: dict[str, int] = field(default_factory=dict)
    """Those that may have one, and the line that gives it."""
    slots: dict[str, Slot] = field(default_factory=dict)
    modules: set[str] = field(default_factory=set)
    place: tuple[int, ...] = (0,)
    used_inputs: set[str] = field(default_factory=set)
    _names: int = 0
    _blocks: int = 0

    def is_namespace(self, name: str) -> bool:
        """Whether the name alone is a namespace all through the program."""
        return name in self.namespaces and name not in self.hidden

    def fresh(self, name: str = "") -> str:
        """A variable that no program can write."""
        self._names += 1
        made = f"${self._names}" + (f"_{name}" if name else "")
        self.variables.add(made)
        return made

    def slot(self) -> str:
        """A slot that no program can name."""
        made = self.fresh()
        self.variables.discard(made)
        return made

    def enter(self, line: int) -> tuple[int, ...]:
        """Begin a block within the present one; returns what `leave` needs."""
        before = self.place
        if len(before) > _MOST_BLOCKS:
            raise refusal(line, f"blocks nest deeper than {_MOST_BLOCKS} levels", "split it", what="the program")
        self._blocks += 1
        self.place = (*before, self._blocks)
        return before

    def leave(self, before: tuple[int, ...]) -> None:
        """The end of the block."""
        self.place = before

    def bind(self, name: str, line: int) -> None:
        """It has a value from here on."""
        if name in self.slots:
            raise refusal(line, "it is the name of a call as well", "use two names", what=name)
        self.variables.add(name)
        self.bound.add(name)
        self.unsure.pop(name, None)

    def suppose(self, name: str) -> None:
        """It counts as bound: what binds it was refused."""
        self.variables.add(name)
        self.unsure.pop(name, None)
        self.slots.pop(name, None)

    def hold(self, name: str, kind: Literal["call", "calls"], line: int) -> None:
        """It holds a started call, or a list of them, from here on."""
        before = self.slots.get(name)
        if before is not None and not before.awaited:
            raise refusal(line, "a call in it was never awaited", "await each call", what=name)
        if name in self.bound or name in self.inputs:
            raise refusal(line, "it is the name of a value as well", "use two names", what=name)
        self.variables.discard(name)
        self.unsure.pop(name, None)
        self.slots[name] = Slot(kind, line, self.place)

    def use(self, name: str, kind: Literal["call", "calls"], line: int) -> None:
        """Await what a name holds."""
        slot = self.slots[name]
        if slot.kind != kind:
            what = "a list of calls" if slot.kind == "calls" else "one call"
            raise refusal(line, f"it is {what}", "await one call, or gather(*calls)", what=name)
        if slot.place != self.place:
            raise refusal(
                line, "it is awaited in another block than it was started", "await it there", what=f"await {name}"
            )
        slot.awaited = True

    def check_names(self, names: Iterable[str], line: int) -> None:
        """Raises a `Refusal` unless all of them have a value."""
        for name in sorted(names):
            if name in self.variables:
                continue
            if name.startswith("$"):  # a comprehension's own
                raise refusal(line, "it is read before it is bound", "use another name", what=name.partition("_")[2])
            if name in self.inputs:
                self.used_inputs.add(name)
                continue
            if name in self.slots:
                raise refusal(
                    line, "a call that was not awaited is used as a value", "write await before it", what=name
                )
            if name in self.tools or name in GIVEN or self.is_namespace(name):
                raise refusal(line, "a function is used as a value", "call it", what=name)
            if name in self.unsure:
                message = f"it has a value only if line {self.unsure[name]} was reached"
                raise refusal(line, message, "give it a value before, on every way", what=name)
            raise refusal(line, "it may have no value here", what=name)

    def never_awaited(self) -> list[NotAGraph]:
        """Calls that were started and never awaited."""
        return [
            NotAGraph(slot.line, name, "a call is started and never awaited", "write await")
            for name, slot in self.slots.items()
            if not slot.awaited
        ]


def namespace_of(scope: Scope, node: ast.expr) -> str | None:
    """The namespace that an expression is, ``""`` for the module `tools`; None for any other."""
    if isinstance(node, ast.Name):
        return "" if node.id == "tools" else node.id if scope.is_namespace(node.id) else None
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "tools":
        return node.attr if node.attr in scope.namespaces and node.attr not in scope.tools else None
    return None


def refusal(at: ast.stmt | ast.expr | int, message: str, hint: str = "", *, what: str = "") -> Refusal:
    """The reason at a node, or at a line; `what` stands there, where that is not the node as it is written."""
    line = at if isinstance(at, int) else at.lineno
    return Refusal(NotAGraph(line, what[:SHOWN] if what or isinstance(at, int) else written(at), message, hint))


def stored_names(nodes: Iterable[ast.AST]) -> dict[str, int]:
    """Every name that gets a meaning in one of these nodes, not deeper, and the first line of it."""
    found: dict[str, int] = {}
    for node in nodes:
        name: str | None = None
        if isinstance(node, ast.Name):
            if not isinstance(node.ctx, ast.Load):
                name = node.id
        elif isinstance(node, ast.arg):
            name = node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = node.name
        elif isinstance(node, ast.alias):
            name = node.asname
        if name is not None:
            line = getattr(node, "lineno", 1)
            found[name] = min(found.get(name, line), line)
    return found
