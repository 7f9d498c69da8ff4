"""Meaning of the names of a program while it is read: variables, calls not awaited, tools, modules. Knows no
operations.

1. The name of a tool, of a listed function or of a module keeps its meaning through the whole program. A program that
   gives such a name another meaning is not a graph.
2. A variable may be read where it certainly has a value.
3. A started call has to be awaited in the block that starts it, and a list of calls in the block that makes the list,
   never in a branch or a loop inside that block.
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
"""Levels of blocks, conditions and comprehensions with calls; every reader of a flow recurses into them."""
GIVEN: Final = frozenset({"print", "asyncio", "json", "tools", "tool_call", "ToolError"}) | frozenset(
    name.partition(".")[0] for name in FUNCTIONS
)
"""Names with one meaning in every program that is a graph."""


@dataclass(frozen=True, slots=True)
class GraphTool:
    """A tool, as the reading of a program needs to know it."""

    tool: str
    """Its name in the registry."""
    name: str
    """Its name in programs."""
    parameters: tuple[str, ...]
    """In the order in which positional arguments fill them."""
    early: bool
    """Its calls may begin before the program gets there: the tool is read-only and needs no approval."""
    spellings: Mapping[str, str] = field(default_factory=dict)
    """Parameters whose names are not Python names, by what programs write for them."""
    variadic: bool = False
    """Its one parameter takes all positional arguments."""


@dataclass(frozen=True, slots=True)
class GraphTools:
    """The tools of a program, and every way to write them."""

    tools: Mapping[str, GraphTool]
    """By their names in programs."""
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Names in programs, by namespace and by the tool's name in that namespace; ``""`` is the module `tools`."""
    resolve: Callable[[str], str | None] = str
    """Name in programs for the text in ``tool_call("...")``; None, or an unknown name, if there is no such tool."""


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
    """See `GraphTools`."""
    hidden: frozenset[str] = frozenset()
    """Namespaces whose names the program gives another meaning: only ``tools.name`` is such a namespace."""
    resolve: Callable[[str], str | None] = str
    variables: set[str] = field(default_factory=set)
    """Variables that certainly have a value here."""
    bound: set[str] = field(default_factory=set)
    """Variables that got a value anywhere so far."""
    unsure: dict[str, int] = field(default_factory=dict)
    """Variables that may have a value, and the line that gives it."""
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
        """Begin a block within the present one. Returns the argument for `leave`."""
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
        """The variable has a value from here on."""
        if name in self.slots:
            raise refusal(line, "it is the name of a call as well", "use two names", what=name)
        self.variables.add(name)
        self.bound.add(name)
        self.unsure.pop(name, None)

    def suppose(self, name: str) -> None:
        """Treat the variable as bound: the statement that binds it was refused."""
        self.variables.add(name)
        self.unsure.pop(name, None)
        self.slots.pop(name, None)

    def hold(self, name: str, kind: Literal["call", "calls"], line: int) -> None:
        """The name holds a started call, or a list of them, from here on."""
        before = self.slots.get(name)
        if before is not None and not before.awaited:
            raise refusal(line, "a call in it was never awaited", "await each call", what=name)
        if name in self.bound or name in self.inputs:
            raise refusal(line, "it is the name of a value as well", "use two names", what=name)
        self.variables.discard(name)
        self.unsure.pop(name, None)
        self.slots[name] = Slot(kind, line, self.place)

    def use(self, name: str, kind: Literal["call", "calls"], line: int) -> None:
        """Await the call, or the list of calls, that a name holds."""
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
        """Raise a `Refusal` unless all these names have a value."""
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
    """A refusal at a node, or at a line. `what` is shown instead of the node's own text."""
    line = at if isinstance(at, int) else at.lineno
    return Refusal(NotAGraph(line, what[:SHOWN] if what or isinstance(at, int) else written(at), message, hint))


_NAMING: Final[dict[type[ast.AST], str]] = {
    ast.Name: "id", ast.arg: "arg", ast.alias: "asname",
    ast.FunctionDef: "name", ast.AsyncFunctionDef: "name", ast.ClassDef: "name",
}  # fmt: skip
"""The field of each type of node that gives a name a meaning; a `Name` does it unless it is read."""


def stored_names(nodes: Iterable[ast.AST]) -> dict[str, int]:
    """Names that one of these nodes itself gives a meaning, and the first line where it does."""
    found: dict[str, int] = {}
    for node in nodes:
        field = _NAMING.get(type(node))
        if field is not None and (field != "id" or type(node.ctx) is not ast.Load):  # type: ignore[attr-defined]
            name = getattr(node, field)
            if name is None:  # an import without `as`
                continue
            line = getattr(node, "lineno", 1)
            found[name] = min(found.get(name, line), line)
    return found
