"""Why a program is not certain to be a graph: where, what stands there, and what could be written instead."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from callgate.plan.expressions.trees import nodes_of

__all__ = ["MOST_REASONS", "SHOWN", "NotAGraph", "Refusal", "written"]

MOST_REASONS = 20
_MOST_WRITTEN = 300
"""Nodes; a larger tree is named by what it is."""
_RENAMED = re.compile(r"\$\d+_")
"""What stands before the names of comprehensions that were renamed."""
SHOWN = 60
"""Characters of a construct that are shown."""


@dataclass(frozen=True, slots=True)
class NotAGraph:
    """One thing that keeps a program from the fast path. It is no fault: the program runs in the sandbox."""

    line: int
    """Line in the source, from 1."""
    construct: str
    """What stands there, in a few words: ``"while"``, ``"total += …"``."""
    message: str
    """Why that is not certain to be a graph, in one line."""
    hint: str = ""
    """What to write instead, where there is something; one line."""

    def __str__(self) -> str:
        return f"line {self.line}: {self.construct}: {self.message}" + (f"; {self.hint}" if self.hint else "")


class Refusal(Exception):
    """Raised where a reason is found; whoever reads statements notes it and goes on with the next one."""

    def __init__(self, reason: NotAGraph) -> None:
        super().__init__(str(reason))
        self.reason = reason


def written(node: ast.AST) -> str:
    """The node as text, cut."""
    if len(nodes_of([node], _MOST_WRITTEN)) > _MOST_WRITTEN:
        return f"{type(node).__name__.lower()} …"
    try:
        text = " ".join(ast.unparse(node).split())
    except (RecursionError, ValueError):
        text = type(node).__name__
    text = _RENAMED.sub("", text)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"
