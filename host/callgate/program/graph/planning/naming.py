"""Names of a plan's steps and of the variables in its expressions: all of them different.

A step is called like the variable that its result is bound to, where that name is free, else like its tool. A name that
an expression of the program binds itself is never free: nothing that is put into that expression may be taken for it.
"""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Sequence
from typing import Final

from callgate.plan.expressions.functions import FUNCTIONS
from callgate.program.graph.flow import Assign, CallTool, Change, Finish, For, Gather, Hold, Item, Operation

from .mentions import bound_in, pures_of, variables_of

__all__ = ["Naming"]

_RESERVED: Final = frozenset({"item", "index", "steps", "result"}) | frozenset(
    name.partition(".")[0] for name in FUNCTIONS
)
_MADE: Final = re.compile(r"\$[0-9]+_")
_MOST_CHARACTERS: Final = 60


class Naming:
    """The names of one plan.

    Args:
        operations: of the whole program, those within loops and branches included.
    """

    def __init__(self, operations: Sequence[Operation]) -> None:
        self._taken = set(_RESERVED)
        self._numbers: dict[str, int] = {}
        self._taken.update(bound_in(pure.node for operation in operations for pure in pures_of(operation)))
        variables = _Results(operations)
        calls = [operation for operation in operations if isinstance(operation, CallTool)]
        self.steps: dict[int, str] = {}
        """By number of the site."""
        for call in calls:
            name = variables.of(call.slot)
            if name is None or len(name) > _MOST_CHARACTERS or not self._is_free(name):
                name = self.free(call.site.name)
            self._taken.add(name)
            self.steps[call.site.number] = name
        self.each: dict[int, str] = {
            number: self.free(f"one_{step.removeprefix('_')}") for number, step in self.steps.items()
        }
        """The variable that stands for one result of a step that makes several calls."""
        self._rows: dict[tuple[int, str], str] = {}
        for operation in operations:
            if isinstance(operation, For):
                for name in variables_of(operation.target):
                    self._rows[id(operation), name] = self.free(_MADE.sub("", name))
        self.renamed = {name: self.free(f"an_{name}") for name in ("item", "index")}
        """What to call variables of the program's expressions that are called like a plan's own."""

    def row(self, loop: For, variable: str) -> str:
        """What a variable of a loop is called in expressions."""
        return self._rows[id(loop), variable]

    def free(self, wanted: str) -> str:
        """A name like that one; it is taken from here on."""
        wanted = wanted[:_MOST_CHARACTERS] if wanted[:_MOST_CHARACTERS].isidentifier() else "value"
        wanted = wanted.replace("__", "_") or "value"
        name, number = wanted, self._numbers.get(wanted, 1)
        while not self._is_free(name):
            number += 1
            name = f"{wanted.rstrip('_')}_{number}"
        self._numbers[wanted] = number
        self._taken.add(name)
        return name

    def _is_free(self, name: str) -> bool:
        return name.isidentifier() and not keyword.iskeyword(name) and name not in self._taken and name[:2] != "__"


class _Results:
    """To which variable the result of a call goes."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self._next: dict[str, str] = {}
        parts: dict[str, tuple[str, ...]] = {}
        for operation in operations:
            if isinstance(operation, Finish):
                self._next.setdefault(operation.slot, operation.variable)
            elif isinstance(operation, Hold):
                if operation.slot is not None:
                    self._next.setdefault(operation.slot, operation.slots)
            elif isinstance(operation, Gather):
                slots = tuple(part.slot for part in operation.parts)
                if len(slots) == 1 and operation.parts[0].spread:
                    self._next.setdefault(slots[0], operation.variable)
                else:
                    parts[operation.variable] = slots
            elif isinstance(operation, Change):
                given = [pure.node for pure in operation.arguments]
                if operation.method == "append" and len(given) == 1:
                    self._goes(given[0], operation.object.node)
            elif isinstance(operation, Assign):
                self._assigned(operation, parts)

    def of(self, slot: str) -> str | None:
        name: str | None = slot
        for _ in range(8):
            name = self._next.get(name or "")
            if name is None or not name.startswith("$"):
                return name
        return None

    def _goes(self, value: ast.expr, holder: ast.expr) -> None:
        if isinstance(value, ast.Name) and isinstance(holder, ast.Name) and value.id.startswith("$"):
            self._next.setdefault(value.id, holder.id)

    def _assigned(self, operation: Assign, parts: dict[str, tuple[str, ...]]) -> None:
        value, target = operation.value.node, operation.target
        if not isinstance(value, ast.Name) or not value.id.startswith("$") or isinstance(target, Item):
            return
        if isinstance(target, str):
            self._next.setdefault(value.id, target)
            return
        slots = parts.get(value.id, ())
        if len(slots) == len(target):
            for slot, each in zip(slots, target, strict=True):
                if isinstance(each, str):
                    self._next.setdefault(slot, each)
