"""Reasons why a program is not certain to be a graph: the line, the construct, and what to write instead."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Final

from callgate.plan.expressions.trees import nodes_of

__all__ = ["CONSTRUCTS", "MOST_REASONS", "SHOWN", "NotAGraph", "Refusal", "written"]

MOST_REASONS = 20
_MOST_WRITTEN = 300
"""Nodes; a larger tree is shown as the name of its class."""
_RENAMED = re.compile(r"\$\d+_")
"""Prefix of renamed variables of comprehensions."""
SHOWN = 60
"""Characters of a construct that are shown."""


@dataclass(frozen=True, slots=True)
class NotAGraph:
    """One thing that keeps a program from the fast path. It is not a fault: the program runs in the sandbox."""

    line: int
    """Line in the source, from 1."""
    construct: str
    """The construct in a few words: ``"while"``, ``"total += …"``."""
    message: str
    """Why the construct is not certain to be part of a graph, in one line."""
    hint: str = ""
    """What to write instead, in one line; empty if there is nothing."""

    def __str__(self) -> str:
        return f"line {self.line}: {self.construct}: {self.message}" + (f"; {self.hint}" if self.hint else "")


class Refusal(Exception):
    """Raised where a reason is found. The reader of statements notes the reason and goes on with the next one."""

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


CONSTRUCTS: Final[dict[type[ast.stmt], tuple[str, str, str]]] = {
    ast.While: ("while", "how often it runs is not known before", "loop over a list, if there is one"),
    ast.Try: ("try", "what happens after an error is not part of a graph", ""),
    ast.TryStar: ("try", "what happens after an error is not part of a graph", ""),
    ast.FunctionDef: ("def", "functions are not part of a graph", "write its body where it is needed"),
    ast.ClassDef: ("class", "classes are not part of a graph", "use dicts"),
    ast.With: ("with", "context managers are not part of a graph", ""),
    ast.AsyncWith: ("async with", "context managers are not part of a graph", "use asyncio.gather"),
    ast.AsyncFor: ("async for", "asynchronous iterators are not part of a graph", "use for"),
    ast.Delete: ("del", "names and items that go away are not part of a graph", ""),
    ast.Global: ("global", "it is not needed at the top level", "leave the function out"),
    ast.Nonlocal: ("nonlocal", "functions are not part of a graph", ""),
    ast.Raise: ("raise", "errors of the program's own are not part of a graph", ""),
    ast.Assert: ("assert", "errors of the program's own are not part of a graph", ""),
    ast.Break: ("break", "how often the loop runs is not known before", "select the items first: [x for x in xs if …]"),
    ast.Continue: ("continue", "something follows the `if` that it stands in", "use if and else"),
    ast.Match: ("match", "patterns are not part of a graph", "use if and elif"),
    ast.Return: ("return", "it is not the last statement", "use if and else"),
}
"""Statements that no graph has: the name of each, why it is not part of a graph, and what to write instead, if
anything."""
