"""From a program's tree to a `Flow`, or to every reason why it is not certain to be one. Runs nothing, never raises.

Statements only; `lift` reads expressions. After a reason the reading goes on with the next statement, so that the
caller gets all reasons. Names that the refused statement would have bound then count as bound.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, Final, TypeVar

from callgate.plan.expressions import ExpressionFault
from callgate.plan.expressions.parse import MOST_NESTING, check_nesting
from callgate.plan.expressions.trees import Walked, nodes_of
from callgate.program.graph.flow import (
    CallTool,
    Flow,
    For,
    If,
    Pure,
    Return,
    operations_of,
)
from callgate.program.graph.reasons import CONSTRUCTS, MOST_REASONS, NotAGraph, Refusal

from .apart import TAKE_APART
from .awaits import need_asyncio, starts
from .lift import Lifter
from .scope import GIVEN, GraphTools, Scope, refusal, stored_names, written
from .statements import Statements, name_of, plain_type
from .unordered import may_have_sets, visible_orders

__all__ = ["MOST_NODES", "read_flow"]

_Read = TypeVar("_Read")
_Statement = TypeVar("_Statement", bound=ast.stmt)

MOST_NODES: Final = 20_000
_FEW_LEVELS: Final = MOST_NESTING // 4
"""Levels of a tree whose expressions cannot nest too deeply: the reader puts at most three nodes around a node."""
_MODULES: Final = ("json", "asyncio")


def read_flow(
    tree: Walked, source: str, tools: GraphTools, inputs: Collection[str] = (), *, whole: bool = True
) -> Flow | list[NotAGraph]:
    """The operations of a program.

    Args:
        tree: the tree of `source`; it is only read.
        source: the program.
        tools: the tools that the program may call.
        inputs: names of the variables that the run binds.
        whole: False for the beginning of a program: its calls may be awaited, and its function be called, in the rest.
    """
    if len(tree.nodes) > MOST_NODES:
        return [NotAGraph(1, "the program", f"it has more than {MOST_NODES:,} elements", "split it")]
    reader = _Reader(tools, inputs, whole=whole)
    reader.lifter.lines = source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    reader.lifter.is_shallow = tree.levels <= _FEW_LEVELS
    return reader.read(tree)


class _Reader(Statements):
    def __init__(self, tools: GraphTools, inputs: Collection[str], *, whole: bool = True) -> None:
        self.whole = whole
        self.scope = Scope(tools.tools, frozenset(inputs), tools.namespaces, resolve=tools.resolve)
        self.lifter = Lifter(self.scope, TAKE_APART)
        self.reasons: list[NotAGraph] = []
        self.main: ast.AsyncFunctionDef | None = None
        self.main_called: int | None = None
        self.in_main = False
        self.lists_of_calls: frozenset[str] = frozenset()
        self.module_names: dict[str, int] = {}

    def read(self, tree: Walked) -> Flow | list[NotAGraph]:
        """The whole program."""
        nodes, below, kinds, _ = tree
        stored = stored_names(nodes)
        for name, line in stored.items():
            what = "a tool" if name in self.scope.tools else "a function of Python's"
            self._check_meaning(name, line, f"the name of {what} gets another meaning", "it is", "use another name")
        for name in sorted(self.scope.inputs):
            self._check_meaning(
                name, 1, "an input has the name of a function", "an input has", "name the input otherwise"
            )
        if self.scope.namespaces:  # a name that is bound means what the program says, and nothing before it is bound
            self.scope.hidden = GIVEN.union(stored, self.scope.inputs).intersection(self.scope.namespaces)
        self.lifter.note(nodes, reversed(below))
        for node in nodes if ast.UnaryOp in kinds else ():
            if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):  # of a bool, Python warns in the logs
                self._note(node.lineno, written(node), "`~` is not part of a graph", "write -x - 1")
        if may_have_sets(nodes, kinds):
            self.lifter.has_sets = True
            self.reasons += islice(visible_orders(nodes), MOST_REASONS)
        module = nodes[0]
        assert isinstance(module, ast.Module)
        functions = [node for node in module.body if isinstance(node, ast.AsyncFunctionDef)]
        self.module_names = (
            stored_names(nodes_of(node for node in module.body if node not in functions)) if functions else stored
        )
        if ast.Attribute in kinds:
            self.lists_of_calls = self._lists_of_calls(nodes)
        body, value = module.body, None
        if self.whole and body and isinstance(body[-1], ast.Expr | ast.Return):
            self._statements(body[:-1])
            value = self._noting(body[-1], self._last)
        else:
            self._statements(body)
        main = self.main
        if main is not None and self.main_called is None and not self.reasons:
            if self.whole:
                self._note(main.lineno, f"async def {main.name}", "it is never called")
            else:
                self._noting(_call_of(main), self._statement)
        if self.whole:
            self.reasons += self.scope.never_awaited()
        if self.reasons:
            return sorted(self.reasons, key=lambda reason: reason.line)[:MOST_REASONS]
        end = value or self.lifter.pure(ast.Constant(None, lineno=1, col_offset=0, end_lineno=1, end_col_offset=0))
        return Flow(
            (*self.lifter.block, Return(end, end.line)),
            tuple(self.lifter.sites),
            frozenset(self.scope.used_inputs),
            None if main is None else main.name,
            (0, 0) if main is None else (main.lineno, main.end_lineno or 0),
            self.main_called,
        )

    def _note(self, line: int, construct: str, message: str, hint: str = "") -> None:
        self.reasons.append(NotAGraph(line, construct, message, hint))

    def _check_meaning(self, name: str, line: int, taken: str, who: str, hint: str) -> None:
        if name in self.scope.tools or name in GIVEN:
            self._note(line, name, taken, hint)
        elif name.startswith("__"):
            self._note(line, name, f"{who} one of the interpreter's own names", hint)

    def _lists_of_calls(self, nodes: list[ast.AST]) -> frozenset[str]:
        """Names of lists that take calls which are not awaited yet."""
        found = set()
        for node in nodes:
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[call]):
                    with suppress(Refusal):
                        if starts(self.lifter, call):
                            found.add(name)
        return frozenset(found)

    # statements

    def _statements(self, statements: Sequence[ast.stmt], *, of_loop: bool = False) -> None:
        """Read a block. With `of_loop` the block ends a round of a loop. Then the statements behind an `if` that ends
        with `continue` belong to its other branch."""
        for index, statement in enumerate(statements):
            if len(self.reasons) > MOST_REASONS or (of_loop and isinstance(statement, ast.Continue)):
                return
            rest = statements[index + 1 :]
            if of_loop and isinstance(statement, ast.If) and (not rest or _skips(statement)):
                body, orelse = _with_the_rest(statement, rest)
                self._noting(statement, partial(self._branches, body=body, orelse=orelse, of_loop=True))
                return
            self._noting(statement, self._statement)

    def _noting(self, statement: ast.stmt, read: Callable[[Any], _Read]) -> _Read | None:
        """Read a statement. If it is refused, note the reason and treat the names that it binds as bound."""
        try:
            for each in () if self.lifter.is_shallow else ast.iter_child_nodes(statement):
                if isinstance(each, ast.expr):
                    check_nesting(each, "")
            return read(statement)
        except Refusal as refused:
            self.reasons.append(refused.reason)
        except ExpressionFault as fault:
            self._note(statement.lineno, "an expression", fault.message, fault.hint)
        for name in stored_names(nodes_of([statement])):
            self.scope.suppose(name)
        return None

    def _statement(self, statement: ast.stmt) -> None:
        kind = type(statement)
        read = _STATEMENTS.get(kind)
        if read is None:
            what, why, hint = CONSTRUCTS.get(kind, (kind.__name__.lower(), "it is not part of a graph", ""))
            raise refusal(statement, why, hint, what=what)
        read(self, self._without_main(statement))

    def _last(self, statement: ast.Expr | ast.Return) -> Pure | None:
        """The program's last statement, where it has a value."""
        value = self._without_main(statement).value
        return None if value is None else self._value_of(value)

    # loops and branches

    def _for(self, statement: ast.For) -> None:
        if statement.orelse:
            raise refusal(statement, "it is not part of a graph", "write it after the loop", what="for … else")
        values = self.lifter.value(statement.iter)
        if statement.iter.lineno != statement.lineno:  # Python asks for an iterator in the line of the statement
            values = replace(values, exact=False)
        before = set(self.scope.variables)
        with self.lifter.nested(statement.lineno) as body:
            target = self.lifter.target(statement.target)
            self._statements(statement.body, of_loop=True)
        self._may_have(before, statement.lineno)
        self.lifter.block.append(For(target, values, tuple(body), statement.lineno))

    def _if(self, statement: ast.If) -> None:
        if _is_main_guard(statement.test) and not statement.orelse:
            self._statements(statement.body)
            return
        self._branches(statement, statement.body, statement.orelse)

    def _branches(
        self, statement: ast.If, body: Sequence[ast.stmt], orelse: Sequence[ast.stmt], *, of_loop: bool = False
    ) -> None:
        test = self.lifter.value(statement.test)
        before = set(self.scope.variables)
        after: list[set[str]] = []
        blocks = []
        for statements in (body, orelse):
            self.scope.variables = set(before)
            with self.lifter.nested(statement.lineno) as block:
                self._statements(statements, of_loop=of_loop)
            blocks.append(tuple(block))
            after.append(self.scope.variables)
        self.scope.variables = after[0] & after[1]
        for name in (after[0] | after[1]) - self.scope.variables:
            self.scope.unsure.setdefault(name, statement.lineno)
        self.lifter.block.append(If(test, blocks[0], blocks[1], statement.lineno))

    def _may_have(self, before: set[str], line: int) -> None:
        """After a loop: variables that only its rounds bind may have no value."""
        for name in self.scope.variables - before:
            self.scope.unsure.setdefault(name, line)
        self.scope.variables = self.scope.variables & before

    # modules and main

    def _import(self, statement: ast.Import) -> None:
        if self.scope.place != (0,):
            raise refusal(statement, "an import within a block", "import at the top")
        for alias in statement.names:
            if alias.name not in _MODULES or alias.asname:
                raise refusal(statement, "only json and asyncio are part of a graph")
            if alias.name in self.scope.tools:
                raise refusal(statement, "the name of a tool gets another meaning")
            if self.in_main and alias.name in self.scope.modules:
                raise refusal(statement, "it is imported twice", "import at the top")
            self.scope.modules.add(alias.name)

    def _import_from(self, statement: ast.ImportFrom) -> None:
        scope = self.scope
        known = all(
            (alias.name in scope.tools or scope.is_namespace(alias.name)) and not alias.asname
            for alias in statement.names
        )
        if self.in_main:
            raise refusal(statement, "an import within the function", "import at the top")
        if statement.module != "tools" or statement.level or not known:
            raise refusal(statement, "only json and asyncio are part of a graph")

    def _function(self, statement: ast.AsyncFunctionDef) -> None:
        line, what = statement.lineno, f"async def {statement.name}"
        given = statement.args
        if self.scope.place != (0,) or self.main is not None:
            raise refusal(
                line, "only one async def is part of a graph, at the top level", "write its body in place", what=what
            )
        if statement.decorator_list or any(ast.iter_child_nodes(given)) or getattr(statement, "type_params", None):
            raise refusal(
                line, "only a function without parameters is part of a graph", "write its body in place", what=what
            )
        if statement.returns is not None and not plain_type(statement.returns):
            raise refusal(line, "this annotation is evaluated", "leave it out", what=what)
        uses = sum(isinstance(node, ast.Name) and node.id == statement.name for node in nodes_of([statement]))
        if statement.name in self.module_names or statement.name in self.scope.inputs or uses:
            raise refusal(line, "its name has another meaning as well", "name it main", what=what)
        self.main = statement

    def _without_main(self, statement: _Statement) -> _Statement:
        """Where a statement calls the main function: read its body first, and return the statement with its value."""
        main, node = self.main, getattr(statement, "value", None)
        inner = node.value if isinstance(node, ast.Await) else None
        if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords:
            inner = node.args[0] if written(node.func) == "asyncio.run" else None
        if main is None or not isinstance(inner, ast.Call) or written(inner.func) != main.name:
            return statement
        assert isinstance(node, ast.expr)
        if isinstance(statement, ast.AugAssign) and not isinstance(statement.target, ast.Name):
            raise refusal(node, "what is changed is read before it runs", "give the call a line of its own")
        if isinstance(node, ast.Call):
            need_asyncio(self.lifter, node)
        if inner.args or inner.keywords:
            raise refusal(node, f"{main.name} takes no arguments")
        if self.main_called is not None or self.scope.place != (0,):
            raise refusal(node, "it is called more than once, or within a block", "call it once")
        begun = operations_of(tuple(self.lifter.block))
        if isinstance(node, ast.Call) and any(isinstance(each, CallTool) and each.task for each in begun):
            raise refusal(node, "a task of another loop may be awaited in it", "use await")
        self.main_called = node.lineno
        modules, self.in_main = set(self.scope.modules), True
        local = stored_names(nodes_of(main.body))
        for name in sorted(set(local) & (set(self.module_names) | self.scope.inputs)):
            self._note(local[name], name, "it is a variable of the function and of the program", "use two names")
        *body, last = main.body
        value: ast.expr = ast.Constant(None)
        if not isinstance(last, ast.Return):
            body.append(last)
        elif last.value is not None:
            kept = self.scope.fresh()
            value = name_of(kept, last)
            target = ast.copy_location(ast.Name(kept, ast.Store()), last)
            body.append(ast.copy_location(ast.Assign([target], last.value), last))
        self._statements(body)
        self.scope.variables -= set(local)
        self.scope.modules, self.in_main = modules, False
        fields = {**dict(ast.iter_fields(statement)), "value": ast.copy_location(value, node)}
        return ast.copy_location(type(statement)(**fields), statement)


def _call_of(main: ast.AsyncFunctionDef) -> ast.Expr:
    """``await main()``, where the function ends."""
    call = ast.Await(ast.Call(ast.Name(main.name, ast.Load()), [], []))
    return ast.fix_missing_locations(ast.copy_location(ast.Expr(call), main.body[-1]))


def _skips(statement: ast.If) -> bool:
    """Whether one of its branches ends the round."""
    return any(block and isinstance(block[-1], ast.Continue) for block in (statement.body, statement.orelse))


def _with_the_rest(statement: ast.If, rest: Sequence[ast.stmt]) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """The two branches of an `if`, with the statements behind it in each branch that does not end the round."""
    sides = (statement.body, statement.orelse)
    body, orelse = (
        list(side[:-1]) if side and isinstance(side[-1], ast.Continue) else [*side, *rest] for side in sides
    )
    return body, orelse


def _is_main_guard(node: ast.expr) -> bool:
    return isinstance(node, ast.Compare) and written(node).replace('"', "'") == "__name__ == '__main__'"


_STATEMENTS: Final[dict[type[ast.stmt], Any]] = {
    ast.AnnAssign: _Reader._annotated,
    ast.Assign: _Reader._assign,
    ast.AsyncFunctionDef: _Reader._function,
    ast.AugAssign: _Reader._augmented,
    ast.Expr: _Reader._expression,
    ast.For: _Reader._for,
    ast.If: _Reader._if,
    ast.Import: _Reader._import,
    ast.ImportFrom: _Reader._import_from,
    ast.Pass: lambda reader, statement: None,
}
