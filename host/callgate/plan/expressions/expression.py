"""Parse an expression once, evaluate it as often as wanted, and turn its value into JSON.

Rules of the whole room:

1. Nothing is handed to `eval`, `exec` or the compiler; no attribute is looked up by name on any Python object; no value
   is called. An expression can do what the tables list, and nothing else.
2. Every operation is Python's own: same value, same error, same message as CPython. An operation that would differ is
   refused.
3. Every operation is paid for before it begins, by an upper estimate, out of a `Budget`.
4. No given value is changed, and no value of a type outside `kinds.KNOWN` is touched.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from .budget import MOST_DEPTH, Budget, BudgetExceeded, ExpressionError, ExpressionFault
from .compilation import Compilation, Node
from .comprehensions import COMPREHENSION_BUILDERS
from .function_calls import CALL_BUILDERS
from .functions import collected, iterated
from .kinds import DICTS, ITERATORS, KNOWN, SEQUENCES, VIEWS, foreign
from .nodes import PLAIN_BUILDERS
from .parse import DEFAULT_MAX_BYTES, check_nesting, parse, too_deep
from .weight import charge_text

__all__ = ["Expression", "from_node", "guarded", "parse_expression", "to_json"]

_NO_MORE: Final = object()
_BUILDERS: Final = {**PLAIN_BUILDERS, **CALL_BUILDERS, **COMPREHENSION_BUILDERS}


@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    """A compiled expression. Made by `parse_expression` and `from_node`; immutable."""

    source: str
    """The text of the expression; empty if it was made of a node without one."""
    names: frozenset[str]
    """The free names, whose values `evaluate` needs; without variables of comprehensions and functions."""
    functions: frozenset[str]
    """Names used as functions: ``"len"``, ``"json"``. They mean Python's own, whatever `values` holds."""
    _size: int
    _root: Node

    def __repr__(self) -> str:
        return f"Expression({self.source!r})"

    def evaluate(self, values: Mapping[str, Any], budget: Budget | None = None) -> Any:
        """Evaluate for these values of the names. The values are not changed; the result may share parts with them.

        Args:
            values: name to JSON value; tuples, sets, ranges and `Record` may stand in them too.
            budget: what may be spent; a default `Budget` otherwise. The rest stays in it.

        Raises:
            ExpressionError: Python would raise this error here.
            ExpressionFault: an operation is not supported for values of these types.
            BudgetExceeded: an operation would cost more than is left.
        """
        spent = Budget() if budget is None else budget
        with_values = [None, values]

        def run() -> Any:
            spent.work(self._size)
            value = self._root(spent, with_values)
            if type(value) in ITERATORS:
                kind = type(value).__name__
                raise ExpressionFault(f"the value is a {kind} object, which can be read only once", "write list(...)")
            return value

        return guarded(spent, run)

    def items(self, values: Mapping[str, Any], budget: Budget) -> Iterator[Any]:
        """Return the items of the value one by one, as a `for` statement takes them: lazily where Python is lazy.

        Raises, also from `next`, what `evaluate` raises; `ExpressionError` for a value that cannot be iterated over.
        """
        with_values = [None, values]

        def begin() -> Iterator[Any]:
            budget.work(self._size)
            return iter(iterated(budget, self._root(budget, with_values)))

        items = guarded(budget, begin)
        while (item := guarded(budget, lambda: next(items, _NO_MORE))) is not _NO_MORE:
            yield item


def parse_expression(source: str, *, max_bytes: int = DEFAULT_MAX_BYTES, records_only: bool = False) -> Expression:
    """Parse a text. Raises `ExpressionFault`, with a hint and a column, for a text that is not such an expression.

    Args:
        source: one Python expression; spaces and line ends around it are ignored.
        max_bytes: UTF-8 bytes of the text.
        records_only: see `from_node`.
    """
    return _expression(parse(source, max_bytes), source, records_only)


def from_node(node: ast.expr, *, source: str = "", records_only: bool = False, is_shallow: bool = False) -> Expression:
    """Compile a tree, which is only read. Raises `ExpressionFault` as `parse_expression` does.

    Args:
        node: an expression from `ast.parse`; its fields are trusted.
        source: the text, where it begins with the node; columns in faults need it.
        records_only: True for Python's own meaning of ``value.name``: only a `Record` answers with a field, a plain
            dict has none, and ``value.items`` without a call is refused. False: every dict answers, and
            ``value.items`` is the field of that name.
        is_shallow: the tree is known to be shallow enough to be walked by recursion.
    """
    if not is_shallow:
        check_nesting(node, source)
    return _expression(node, source, records_only)


def _expression(node: ast.expr, source: str, records_only: bool) -> Expression:
    compilation = Compilation(source, _BUILDERS, records_only=records_only)
    try:
        root = compilation.build(node)
    except RecursionError:
        raise too_deep() from None
    return Expression(source, frozenset(compilation.names), frozenset(compilation.functions), compilation.size, root)


def guarded(budget: Budget, run: Callable[[], Any]) -> Any:
    """Run an evaluation. Any exception that Python raises in it becomes an `ExpressionError`."""
    try:
        try:
            return run()
        except (ExpressionFault, BudgetExceeded, ExpressionError, RecursionError, MemoryError):
            raise
        except Exception as error:
            if type(error) is KeyError:
                for key in error.args:
                    charge_text(budget, key)  # its message is the key, written out
            raise ExpressionError(type(error).__name__, str(error), tuple(getattr(error, "__notes__", ()))) from None
    except RecursionError:
        raise BudgetExceeded("depth", MOST_DEPTH) from None
    except MemoryError:
        raise BudgetExceeded("bytes", budget.bytes_allowed) from None


def to_json(value: Any, budget: Budget | None = None) -> Any:
    """Copy a value to dict, list, str, int, float, bool and None alone: tuples, ranges and views become lists.

    Raises:
        ExpressionError: a set, NaN, an infinity or a key that is not text, none of which JSON has.
        ExpressionFault: a value of an unknown type, or one that can be read only once.
        BudgetExceeded: the value is larger or deeper, as a tree, than the budget allows.
    """
    spent = Budget() if budget is None else budget
    return guarded(spent, lambda: _copy(spent, value, MOST_DEPTH))


def _copy(budget: Budget, value: Any, depth: int) -> Any:
    kind = type(value)
    if value is None or kind is str or kind is int or kind is bool:
        return value
    if kind is float:
        if not math.isfinite(value):
            raise ExpressionError("ValueError", f"{value!r} is not a JSON number; write a condition that avoids it")
        return value
    if not depth:
        raise BudgetExceeded("depth", MOST_DEPTH)
    if kind in SEQUENCES or kind in VIEWS or kind is range:
        values = collected(budget, value)
        budget.work(len(value))
        return [_copy(budget, item, depth - 1) for item in values]
    if kind in DICTS:
        budget.work(len(value))
        budget.make(200 + 100 * len(value))
        return {_key(key): _copy(budget, item, depth - 1) for key, item in value.items()}
    if kind is set:
        raise ExpressionError("TypeError", "a set is not a JSON value; write sorted(...) or list(...)")
    if kind in ITERATORS:
        raise ExpressionFault(f"a {kind.__name__} object is not a JSON value", "write list(...) around it")
    if kind in KNOWN:
        raise ExpressionError("TypeError", f"a {kind.__name__} is not a JSON value; use its parts")
    raise foreign(value)


def _key(key: Any) -> str:
    if type(key) is not str:
        kind = type(key).__name__
        raise ExpressionError("TypeError", f"a key of a JSON object is text, not {kind}; write str(...) for the key")
    return key
