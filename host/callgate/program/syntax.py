"""From source text to a syntax tree, and whether CPython would compile it. Knows nothing of tools or names.

Rules, because the source is hostile and CPython's front end is not bounded by itself:

1. Size comes first: what is too large is never parsed. The parser needs up to 400 times the source in memory.
2. Two shapes cost quadratic time or memory in the parser and are looked for beforehand, by counting: a dotted name of
   many parts (``import a.b.b.b…``: 100,000 parts took 10 GB and 28 s), and, before Python 3.12, one f-string with very
   many fields (80,000 took 3.3 s).
3. The parser holds the interpreter's lock from the first token to the last, and a token takes it 0.3 to 2 us. A
   source of more than `MOST_TOKENS` is not parsed: 64 KiB of standard library have 13,000 to 19,000 of them, 64 KiB of
   ``x`` lines 65,536.
4. One shape crashes the compiler of CPython 3.11 (a comprehension of some 30,000 ``for`` clauses, by its C stack), and
   some cost it quadratic or exponential time. The survey of the tree says so: `compile_fault` is not asked then.
5. Everything else the front end bounds itself, with SyntaxError, RecursionError or MemoryError; all become findings.

Warnings of the compiler (an invalid escape, ``x is 1``) do not matter here, and under ``-W error`` they would
turn into syntax errors that the guest does not see. `warnings.catch_warnings` is not safe among threads, hence the
lock.
"""

from __future__ import annotations

import ast
import keyword
import re
import sys
import warnings
from itertools import islice
from typing import Final

from callgate.plan.expressions.parse import warnings_are_off
from callgate.tools.turns import uncollected

from .findings import Finding

__all__ = ["DEFAULT_MAX_SOURCE_BYTES", "MOST_TOKENS", "compile_fault", "has_many_tokens", "parse_program"]

DEFAULT_MAX_SOURCE_BYTES: Final = 64 * 1024
"""More than a model writes in one answer."""

_NUMBER_AND_WORD: Final = re.compile(r"[0-9]\.?[A-Za-z_]")
_PARSE_FLAGS: Final = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_FAULTS: Final = (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError, SystemError)

_LONGEST_DOTTED_NAME: Final = 250
_MOST_FIELD_BYTES: Final = 20_000_000
_STRINGS: Final = re.compile(
    r'''#[^\n]*+|"""(?:[^"\\]|\\.|"(?!""))*+(?:""")?|\'\'\'(?:[^'\\]|\\.|'(?!''))*+(?:\'\'\')?'''
    r"""|"(?:[^"\\\n]|\\.)*+"?|'(?:[^'\\\n]|\\.)*+'?""",
    re.DOTALL,
)
"""Comments and strings. What is never closed matches as well: else each quote in it would be tried anew."""
MOST_TOKENS: Final = 24_000
"""Words and signs of a source that is parsed, half of that where names may have to be normalised; about 40 ms."""
_TOKENS: Final = re.compile(r"""\w++|#++|={3}=*+|[^\w\s"']|\n\s*+""")


def parse_program(source: str, *, max_source_bytes: int = DEFAULT_MAX_SOURCE_BYTES) -> ast.Module | Finding:
    """The syntax tree of a program, top-level `await` and `return` allowed, or the one finding that says why not.

    Never raises, whatever the text. A tree that comes back may still be refused by the compiler: see `compile_fault`.
    """
    size = len(source)
    if size <= max_source_bytes and not source.isascii():
        size = len(source.encode("utf-8", "surrogatepass"))
    hint = "split it into several programs, or pass large data as inputs instead of writing it into the code"
    if size > max_source_bytes:
        at_least = "" if source.isascii() or len(source) <= max_source_bytes else "at least "
        message = f"the program has {at_least}{size:,} bytes; at most {max_source_bytes:,} are allowed"
        return Finding("too-large", 1, 1, message, hint)
    if has_many_tokens(source):
        most = MOST_TOKENS if source.isascii() else MOST_TOKENS // 2
        return Finding("too-complex", 1, 1, f"the program has more than {most:,} words and signs", hint)
    if (line := _costly_line(source)) is not None:
        return _too_complex(line)
    try:
        with warnings_are_off, warnings.catch_warnings(), uncollected():
            warnings.simplefilter("ignore")
            tree = compile(source, "<program>", "exec", _PARSE_FLAGS, dont_inherit=True)
    except _FAULTS as error:
        return _finding(error, source)
    assert isinstance(tree, ast.Module)
    return tree


def has_many_tokens(source: str) -> bool:
    """Whether a source is not parsed, because it has more than `MOST_TOKENS`; words within texts count as well."""
    most = MOST_TOKENS if source.isascii() else MOST_TOKENS // 2
    return len(source) > most and sum(1 for _ in islice(_TOKENS.finditer(source), most + 1)) > most


def compile_fault(tree: ast.Module, source: str, *, returns_at_top_level: bool = False) -> Finding | None:
    """The fault that CPython's compiler finds in a parsed tree: `break` outside a loop, an argument named twice, …

    Nothing is executed. With `returns_at_top_level` those statements are replaced in `tree`: a program may have them.
    """
    if returns_at_top_level:
        _replace_top_level_returns(tree)
    try:
        with warnings_are_off, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(tree, "<program>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except _FAULTS as error:
        return _finding(error, source)
    return None


def parser_may_warn(source: str) -> bool:
    """Whether the parser, rather than the compiler, may warn of a program: of an escape, or of ``1if x``."""
    return "\\" in source or _NUMBER_AND_WORD.search(source) is not None


def compiler_warning(tree: ast.Module, source: str) -> Finding | None:
    """The first warning of CPython's parser or compiler for a program that it takes; it would come into the logs.

    ``1['a']`` is such a program. Changes `tree` as `compile_fault` does; that comes as a fault, too.
    """
    with warnings_are_off, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        if parser_may_warn(source):
            compile(source, "<program>", "exec", _PARSE_FLAGS, dont_inherit=True)
        _replace_top_level_returns(tree)
        try:
            compile(tree, "<program>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        except _FAULTS as error:
            return _finding(error, source)
    first = next((each for each in warned if issubclass(each.category, SyntaxWarning)), None)
    if first is None:
        return None
    return Finding("syntax", first.lineno, 1, " ".join(str(first.message).split())[:300], "correct this line")


def _costly_line(source: str) -> int | None:
    """The line of a shape that costs the parser quadratic time or memory; None if there is none."""
    if source.count(".") >= _LONGEST_DOTTED_NAME:
        length, offset = 0, 0
        for piece in source.split("."):
            offset += len(piece) + 1
            length = length + 1 if piece.strip(" \t\f\\\r\n").isidentifier() else 0
            if length >= _LONGEST_DOTTED_NAME:
                return source.count("\n", 0, offset) + 1
    if sys.version_info < (3, 12) and source.count("{") * len(source) > _MOST_FIELD_BYTES:
        for string in _STRINGS.finditer(source):
            start, end = string.span()
            if source.count("{", start, end) * (end - start) > _MOST_FIELD_BYTES:
                return source.count("\n", 0, start) + 1
    return None


def _replace_top_level_returns(tree: ast.Module) -> None:
    """Replace each top-level `return` by its value as an expression statement."""
    blocks: list[list[ast.stmt]] = [tree.body]
    while blocks:
        block = blocks.pop()
        for index, statement in enumerate(block):
            if isinstance(statement, ast.Return):
                value = statement.value or ast.copy_location(ast.Constant(None), statement)
                block[index] = ast.copy_location(ast.Expr(value), statement)
            elif not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                for holder in (statement, *getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
                    for field in ("body", "orelse", "finalbody"):
                        inner = getattr(holder, field, None)
                        if isinstance(inner, list):
                            blocks.append(inner)


def _too_complex(line: int, message: str = "the program nests too deeply to be compiled") -> Finding:
    return Finding("too-complex", line, 1, message, "split the expression into several statements, or use a loop")


def _finding(error: BaseException, source: str) -> Finding:
    if isinstance(error, (RecursionError, MemoryError, SystemError)):
        return _too_complex(1)
    if isinstance(error, UnicodeEncodeError):
        line = source.count("\n", 0, error.start) + 1
        half = f"U+{ord(source[error.start]):04X}"
        message = f"character {half} is half of a surrogate pair and cannot stand in source code"
        return Finding("syntax", line, 1, message, "remove it, or write it as an escape inside a string")
    if not isinstance(error, SyntaxError):
        return _finding_of_text(str(error), source)
    line = max(1, min(error.lineno or 1, source.count("\n") + 1))
    message = " ".join((error.msg or "invalid syntax").split())[:300]
    if message.startswith("too many nested") or "too many levels of indentation" in message:
        return _too_complex(line, message)
    return Finding("syntax", line, max(1, error.offset or 1), message, _hint(message, line, source))


def _finding_of_text(message: str, source: str) -> Finding:
    if "\0" in source:
        line = source.count("\n", 0, source.index("\0")) + 1
        hint = "remove it; inside a string write it as `\\0`"
        return Finding("syntax", line, 1, "the source contains a NUL character", hint)
    return Finding("syntax", 1, 1, " ".join(message.split())[:300], "write it so that Python compiles it")


_BEFORE_3_12: Final = (
    f"programs here are read by Python {sys.version_info.major}.{sys.version_info.minor}, and before 3.12 the braces "
    "of an f-string take neither the quotes that are around it nor a backslash: use other quotes, or give the value a "
    "name before"
)
_ARGUMENT: Final = r"(?:[(,]|^(?=.*[,)]\s*$))\s*{}\s*=(?!=)"
_KEYWORD_ARGUMENT: Final = re.compile(_ARGUMENT.format(f"({'|'.join(keyword.kwlist)})"))
_JOINED_ARGUMENT: Final = re.compile(_ARGUMENT.format(r"([^\W\d]\w*(?:-\w+)+)"))
_OTHER_FIELDS: Final = ("f-string: empty", "f-string: single")
_HINTS: Final = (
    *((words, "write an expression between the braces; `{{` and `}}` stand for braces") for words in _OTHER_FIELDS),
    ("null bytes", "remove the NUL character; inside a string write it as `\\0`"),
    ("'break' outside loop", "use `break` only inside `for` or `while`; to end the program, use `return`"),
    ("'continue' not properly in loop", "use `continue` only inside `for` or `while`"),
    ("outside async function", "put it at the top level or into an `async def`"),
    ("'yield' outside function", "put `yield` into a function; to end the program with a value, use `return`"),
    ("'yield from' outside function", "put it into a function"),
    ("was never closed", "close the bracket"),
    ("unterminated", "close the string; a string over several lines needs triple quotes"),
    ("unexpected indent", "indent this line like the statement before it"),
    ("expected an indented block", "indent the lines of the block by four spaces"),
    ("unindent does not match", "indent with four spaces a level, never with tabs"),
    ("nonlocal declaration not allowed at module level", "use `nonlocal` only in a function inside a function"),
    ("nonlocal", "`nonlocal` is for names of an enclosing function; for names of the program write `global`"),
    ("duplicate argument", "give each parameter a name of its own"),
    ("import * only allowed", "import the names one by one"),
    ("Exceeds the limit", "write the number as text, or compute it"),
)


def _of_a_line(message: str, line: str) -> str | None:
    """A hint for syntax that other languages, or other versions of Python, have and this one has not."""
    if sys.version_info < (3, 12) and message.startswith("f-string") and not message.startswith(_OTHER_FIELDS):
        return _BEFORE_3_12
    if "outside async function" in message and "lambda" in line:
        return (
            "a lambda cannot await: get the results first, in a list, and use that; or write an `async def` and "
            "await its calls"
        )
    if message.startswith(("invalid syntax", "expression cannot contain assignment")):
        if (found := _KEYWORD_ARGUMENT.search(line)) is not None:
            name = found.group(1)
            return f'`{name}` is a keyword of Python: a tool takes `{name}_=...`, and anything `**{{"{name}": ...}}`'
        if (found := _JOINED_ARGUMENT.search(line)) is not None:
            name = found.group(1)
            written = name.replace("-", "_")
            return f'`{name}` is not a name: a tool takes `{written}=...`, and anything `**{{"{name}": ...}}`'
    return None


def _hint(message: str, line: int, source: str) -> str:
    if source.lstrip().startswith("```"):
        return "send the code alone, without the ``` fences around it"
    text = source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    written = text[line - 1] if line <= len(text) else ""
    special = _of_a_line(message, written)
    if special is not None:
        return special
    for fragment, hint in _HINTS:
        if fragment in message:
            return hint
    shown = written.strip()
    shown = "".join(character if character.isprintable() else "?" for character in shown[:80])
    return f"correct this line: `{shown}`" if shown else "correct the lines before the end of the program"
