"""Expressions with calls of tools in them, taken apart into operations in CPython's order of evaluation.

Each part that CPython evaluates before a call becomes a variable of its own, unless it is a constant or a plain
variable: neither can fail, and nothing can change a variable in the middle of an expression. A conditional expression,
`and` and `or` become branches; a comprehension that makes calls becomes a loop.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from callgate.plan.expressions import ExpressionFault, from_node
from callgate.plan.expressions.trees import children_of, nodes_of
from callgate.program.graph.flow import Assign, Has, Operation, Pure, Site, Target
from callgate.program.graph.reasons import SHOWN

from .renaming import with_lambdas
from .scope import Scope, namespace_of, refusal, written

__all__ = ["Lifter"]

_MOST_TARGETS: Final = 6
_MOST_COPIED: Final = 40_000
"""Nodes of comprehensions that are copied to rename their variables."""
_NOTE: Final = "_callgate_calls"


class Lifter:
    """Reads expressions; operations are added to `block`.

    Args:
        scope: the meaning of the names.
        take_apart: the reader of each type of node that has calls in it; see `apart`.
    """

    def __init__(self, scope: Scope, take_apart: Mapping[type[ast.expr], Any]) -> None:
        self.scope = scope
        self._take_apart = take_apart
        self.block: list[Operation] = []
        self.sites: list[Site] = []
        self.lines: list[str] = []
        """The program's lines, as its nodes count them."""
        self._copied = 0
        self.is_shallow = False
        """No expression can nest too deeply, with all that is put around it here."""
        self.has_sets = False
        """The program may make sets: errors then depend on an order that differs between processes."""

    def text_of(self, node: ast.expr) -> str:
        """The text of a node in the program, cut."""
        line = self.lines[node.lineno - 1] if node.lineno <= len(self.lines) else ""
        if node.end_lineno != node.lineno or not line.isascii():
            return written(node)
        text = line[node.col_offset : node.end_col_offset]
        return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"

    # blocks

    @contextmanager
    def nested(self, line: int) -> Iterator[list[Operation]]:
        """Collect the operations made inside this context in a block of their own."""
        place = self.scope.enter(line)
        outer, self.block = self.block, []
        try:
            yield self.block
        finally:
            self.scope.leave(place)
            self.block = outer

    # values

    def pure(self, node: ast.expr, *, original: ast.expr | None = None) -> Pure:
        """Check an expression without calls. `original` is the node of the program that `node` was made from."""
        at = node if original is None else original
        try:
            try:
                expression = from_node(node, records_only=True, is_shallow=self.is_shallow)
            except ExpressionFault:
                spelled, holders = with_lambdas(node)
                if not holders:
                    raise
                for holder in holders:  # Python looks the method up once, before
                    self.block.append(Has(self.pure(holder), "get", at.lineno))
                node, expression = spelled, from_node(spelled, records_only=True)
        except ExpressionFault as fault:
            hint = "" if "it changes its object" in fault.hint or fault.message.startswith("the method") else fault.hint
            raise refusal(at, fault.message, hint) from None
        self.scope.check_names(expression.names, at.lineno)
        missing = {"json"} & expression.functions - self.scope.modules
        if missing:
            raise refusal(at, "it is used before it is imported", "write `import json` at the top", what="json")
        return Pure(node, expression, at.lineno, at.lineno == at.end_lineno and not self.has_sets)

    def value(self, node: ast.expr) -> Pure:
        """Any expression; its calls become operations before it."""
        return self.pure(self.lift(node), original=node)

    def lift(self, node: ast.expr) -> ast.expr:
        """The expression with variables in place of its calls."""
        if not self.calls(node):
            return node
        take_apart = self._take_apart.get(type(node))
        if take_apart is None:
            raise refusal(node, "a call stands where it cannot be taken out", "give it a line of its own")
        made: ast.expr = take_apart(self, node)
        return made if made is node else ast.copy_location(made, node)

    def calls(self, node: ast.AST) -> bool:
        """Whether a node calls a tool or awaits anything inside it. The answer is noted on each node, so that a tree is
        walked only once."""
        known = node.__dict__.get(_NOTE)
        if known is None:
            nodes = nodes_of([node])
            self.note(nodes, map(children_of, reversed(nodes)))
            known = node.__dict__[_NOTE]
        return bool(known)

    def note(self, nodes: Sequence[ast.AST], below: Iterable[Iterable[ast.AST]]) -> None:
        """Note on nodes whether they have calls in them. Parents stand before their children.

        Args:
            nodes: the nodes.
            below: the nodes below each, from the last of `nodes` to the first.
        """
        for node, inside in zip(reversed(nodes), below, strict=True):
            own = node.__dict__
            if _NOTE not in own:
                known = isinstance(node, ast.Await) or (isinstance(node, ast.Call) and self.is_call(node))
                own[_NOTE] = known or any(each.__dict__[_NOTE] for each in inside)

    def pay(self, node: ast.expr) -> None:
        """Count the nodes of a tree before it is copied, for a comprehension once for each one around it. Raises
        `Refusal`."""
        self._copied += len(nodes_of([node]))
        if self._copied > _MOST_COPIED:
            raise refusal(node, "its comprehensions are too large", "write loops", what="the program")

    def is_call(self, node: ast.Call) -> bool:
        """Whether a call is not for the evaluator: of a tool, `print`, or asyncio."""
        function = node.func
        if isinstance(function, ast.Name):
            return function.id in self.scope.tools or function.id in ("tool_call", "print")
        if not isinstance(function, ast.Attribute):
            return False
        holder = function.value
        return (isinstance(holder, ast.Name) and holder.id == "asyncio") or namespace_of(self.scope, holder) is not None

    def keep(self, node: ast.expr) -> ast.expr:
        """Keep the present value of an expression in a variable, unless it is constant."""
        if isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and node.id in self.scope.variables):
            return node
        if isinstance(node, ast.Starred):
            inner = ast.copy_location(ast.List([node], ast.Load()), node)
            return ast.copy_location(ast.Starred(self.keep(inner), ast.Load()), node)
        pure = self.value(node)
        name = self.scope.fresh()
        self.block.append(Assign(name, pure, node.lineno))
        return ast.copy_location(ast.Name(name, ast.Load()), node)

    def in_order(self, nodes: Sequence[ast.expr]) -> list[ast.expr]:
        """Read expressions that are evaluated one after the other."""
        last = max((index for index, node in enumerate(nodes) if self.calls(node)), default=-1)
        made = []
        for index, node in enumerate(nodes):
            if index < last:
                made.append(self.keep(node))
            elif isinstance(node, ast.Starred):
                made.append(ast.copy_location(ast.Starred(self.lift(node.value), ast.Load()), node))
            else:
                made.append(self.lift(node))
        return made

    def target(self, node: ast.expr) -> Target:
        """Bind the variables of a loop or an unpacking; they have a value from here on."""
        if isinstance(node, ast.Name):
            self.scope.bind(node.id, node.lineno)
            return node.id
        names = [each.id for each in nodes_of([node]) if isinstance(each, ast.Name)]
        if len(set(names)) < len(names):
            raise refusal(node, "a name stands in it twice", "use a name of its own for each")
        if isinstance(node, ast.Tuple | ast.List) and 1 <= len(node.elts) <= _MOST_TARGETS:
            return tuple(self.target(element) for element in node.elts)
        hint = (
            f'write {written(node.value)}["{node.attr}"] = …' if isinstance(node, ast.Attribute) else "use plain names"
        )
        raise refusal(node, "this cannot be a target here", hint)
