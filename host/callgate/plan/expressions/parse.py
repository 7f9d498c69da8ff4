"""Parse a text to the syntax tree of one expression, small and shallow enough to be walked by recursion.

The nodes have no meaning here. Only `ast.parse` of CPython's front end is used: no code object is ever made. A text
that the parser cannot take (a NUL, half a surrogate pair, thousands of brackets) becomes an `ExpressionFault`.

The parser's warnings (an invalid escape, ``1if x else y``) are off: under ``-W error`` they would be syntax errors.
`warnings.catch_warnings` is not safe among threads, so it runs under a lock, and only for texts that can warn. The
parser of CPython 3.11 may raise SystemError if two threads use it at once (gh-106905), so it runs under that lock too.
"""

from __future__ import annotations

import ast
import contextlib
import re
import threading
import warnings
from collections.abc import Iterator
from typing import Final

from .budget import ExpressionFault
from .trees import children_of

__all__ = ["DEFAULT_MAX_BYTES", "MOST_NESTING", "check_nesting", "column_of", "parse", "too_deep", "warnings_are_off"]

DEFAULT_MAX_BYTES: Final = 8192
MOST_NESTING: Final = 100
"""Levels of nodes. ``a + b + c`` nests one level for each operator; ``a and b and c``, a list or an f-string do not."""

_FAULTS: Final = (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError, SystemError)
_MAY_WARN: Final = re.compile(r"\\|[0-9]\.?[A-Za-z_]")
warnings_are_off = threading.Lock()
"""Held around every call of the parser or the compiler, here and in `callgate.program`."""

_HINTS: Final = (
    ("f-string", "check the braces of the f-string; a brace as text is written {{ or }}"),
    ("was never closed", "close the bracket"),
    ("unterminated", "close the string"),
    ("unmatched", "remove the bracket, or open it before"),
    ("Exceeds the limit", "write the number as text, or compute it"),
    ("too many digits", "write the number as text, or compute it"),
)
_PLAIN_HINT: Final = "write one Python expression: no statement, no assignment, like temp['oslo'].c * 9 / 5 + 32"
_TOO_DEEP_HINT: Final = "split it: give a part a step of its own, or use sum([...]), ''.join([...]) or an f-string"


def parse(source: str, max_bytes: int) -> ast.expr:
    """Return the tree of an expression. Raises `ExpressionFault` and nothing else, for any text."""
    size = len(source) if source.isascii() else len(source.encode("utf-8", "surrogatepass"))
    if size > max_bytes:
        message = f"the expression has {size:,} bytes; at most {max_bytes:,} are allowed"
        raise ExpressionFault(message, "split it into several steps, or pass the data as a step's result")
    text = source.strip()
    if not text:
        raise ExpressionFault("the expression is empty", _PLAIN_HINT, 1)
    try:
        with _no_warnings(text):
            tree = ast.parse(text, "<expression>", mode="eval")
    except _FAULTS as error:
        raise _fault(error, text, len(source) - len(source.lstrip())) from None
    check_nesting(tree.body, source)
    return tree.body


def too_deep() -> ExpressionFault:
    """Return the refusal of a text that CPython itself cannot parse."""
    return ExpressionFault("the expression nests too deeply", _TOO_DEEP_HINT)


def check_nesting(node: ast.AST, source: str) -> None:
    """Refuse a tree that is too deep to be walked by recursion. Works in a loop."""
    level: list[ast.AST] = [node]
    for _ in range(MOST_NESTING):
        level = [child for parent in level for child in children_of(parent)]
        if not level:
            return
    column = next((column_of(child, source) for child in level if isinstance(child, ast.expr)), None)
    raise ExpressionFault(f"the expression nests deeper than {MOST_NESTING} levels", _TOO_DEEP_HINT, column)


def column_of(node: ast.AST, source: str) -> int:
    """Return where a node begins in the source, in characters, from 1. The tree counts bytes of a line."""
    line, offset = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
    start = len(source) - len(source.lstrip())
    lines = source.strip().split("\n")
    if not 0 < line <= len(lines):
        return offset + 1
    before = sum(len(text) + 1 for text in lines[: line - 1])
    inside = lines[line - 1].encode("utf-8", "surrogatepass")[:offset].decode("utf-8", "ignore")
    return start + before + len(inside) + 1


@contextlib.contextmanager
def _no_warnings(text: str) -> Iterator[None]:
    with warnings_are_off:
        if _MAY_WARN.search(text):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield
        else:
            yield


def _fault(error: BaseException, text: str, start: int) -> ExpressionFault:
    if isinstance(error, UnicodeEncodeError):
        message = f"character U+{ord(text[error.start]):04X} is half of a surrogate pair"
        hint = "remove it, or write it as an escape inside a string"
        return ExpressionFault(message, hint, start + error.start + 1)
    if "\0" in text:
        hint = "remove it; inside a string write it as \\0"
        return ExpressionFault("the expression contains a NUL character", hint, start + text.index("\0") + 1)
    if not isinstance(error, SyntaxError):
        return too_deep()
    message = " ".join((error.msg or "invalid syntax").split())
    if message.startswith("too many nested"):
        return too_deep()
    if message.startswith("Exceeds the limit"):
        message = "a number has too many digits"
    lines = text.split("\n")
    line = max(1, min(error.lineno or 1, len(lines)))
    column = sum(len(before) + 1 for before in lines[: line - 1]) + (error.offset or len(lines[line - 1]) + 1)
    hint = next((hint for fragment, hint in _HINTS if fragment in message), _PLAIN_HINT)
    column = start + min(column, len(text) + 1)
    return ExpressionFault(f"the expression is not Python: {message[:200]}", hint, column)
