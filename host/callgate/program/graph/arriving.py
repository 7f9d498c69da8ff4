"""A program that is still being written: ever longer beginnings of it as flows. Runs nothing, never raises.

1. A beginning ends with a whole statement. A statement on one line is whole when its line has ended; a block is whole
   when a further statement follows it. One block is read before its end: the ``async def`` that holds the program.
2. A beginning ends before the first statement that is not part of a graph: what follows it is not certain to happen.
3. Reading costs time, so a beginning is read when a new statement in it names a tool, and only so often.
4. All of this is provisional. The finished program is read afresh, and that reading decides.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection
from typing import Final

from callgate.program.findings import Finding
from callgate.program.syntax import parse_program

from .compile import MOST_SOURCE_BYTES, Flow, GraphTools, compile_beginning, first_lines

__all__ = ["ArrivingProgram"]

_MOST_READ: Final = 256 * 1024
"""Characters that are parsed or read for one program, all its beginnings together: a second of work at most."""
_NAME: Final = re.compile(r"[^\W\d]\w*")
_BLOCKS: Final = (
    ast.AsyncFor, ast.AsyncFunctionDef, ast.AsyncWith, ast.ClassDef, ast.For, ast.FunctionDef, ast.If, ast.Match,
    ast.Try, ast.TryStar, ast.While, ast.With,
)  # fmt: skip


class ArrivingProgram:
    """Turns the text of a program, as far as it is written, into flows.

    Args:
        tools: the tools that the program may call.
        inputs: names of the variables that the run binds.

    Attributes:
        over: nothing that is written from here on can add to the flow.
    """

    def __init__(self, tools: GraphTools, inputs: Collection[str] = ()) -> None:
        self.over = False
        self._tools = tools
        self._names = {"tool_call", "tools", *tools.tools, *tools.namespaces}
        self._inputs = inputs
        self._whole = 0
        """Characters of whole statements at the start of the text."""
        self._taken = 0
        """Characters of the last beginning that was looked at."""
        self._seen = 0
        self._read = 0

    def read(self, text: str) -> Flow | None:
        """Read the beginning of a program.

        Args:
            text: all that is written so far, without a byte order mark; it continues the text of the call before.

        Returns:
            The flow of a longer beginning; None if there is none.
        """
        end = text.rfind("\n") + 1
        if self.over or end <= self._seen:
            return None
        self._seen = end
        open_text = text[self._whole : end]
        is_paid = self._pays_for(len(open_text))
        tree = parse_program(open_text, max_source_bytes=MOST_SOURCE_BYTES)
        if isinstance(tree, Finding):
            self.over = not is_paid or tree.code != "syntax"
            return None
        whole, taken = _ends(tree, open_text)
        taken += self._whole
        self._whole += whole
        if taken <= self._taken:
            return None
        new = _NAME.findall(text, self._taken, taken)
        self._taken = taken
        if self._names.isdisjoint(new):
            return None
        if not (is_paid and self._pays_for(taken)):
            self.over = True
            return None
        flow, goes_on = compile_beginning(text[:taken], self._tools, inputs=self._inputs)
        self.over = not goes_on
        return flow

    def _pays_for(self, characters: int) -> bool:
        self._read += characters
        return self._read <= _MOST_READ


def _ends(tree: ast.Module, source: str) -> tuple[int, int]:
    """Where the whole statements of a text end, and where the beginning ends that can be read: it may have whole
    statements of the last function, too."""
    if not tree.body or not isinstance(tree.body[-1], _BLOCKS):
        return len(source), len(source)
    last = tree.body[-1]
    end = len(first_lines(source, _first_line(last) - 1))
    if not isinstance(last, ast.AsyncFunctionDef) or not isinstance(last.body[-1], _BLOCKS):
        return end, len(source) if isinstance(last, ast.AsyncFunctionDef) else end
    if len(last.body) == 1:
        return end, end
    return end, len(first_lines(source, _first_line(last.body[-1]) - 1))


def _first_line(statement: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(each.lineno for each in decorators)])
