"""Findings about a program, and the shape of a tool that the checks need.

Knows the closed table of finding codes. Refuses to know how findings are made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from keyword import iskeyword
from types import MappingProxyType
from typing import Any, Literal

from callgate.tools.faults import near

__all__ = ["FINDING_CODES", "Finding", "Severity", "ToolShape", "is_name", "nearest", "shown"]

Severity = Literal["error", "warning"]

FINDING_CODES: Mapping[str, str] = MappingProxyType(
    {
        "too-large": "The source has more bytes than a program may have; it was not parsed.",
        "too-complex": "The source nests too deeply, or is shaped so that looking at it would stall the host.",
        "syntax": "It is not Python: the parser or the compiler refuses it.",
        "await-in-def": "`await` inside a plain `def`.",
        "unknown-name": "A name that nothing in the program binds and that no program is given.",
        "unknown-tool": "`tools.x`, `server.x`, `from tools import x` or `tool_call('x')` where x is not a tool.",
        "unknown-argument": "A tool is called with a keyword that it does not have.",
        "missing-argument": "A tool is called without an argument that it requires.",
        "too-many-arguments": "A tool is called with more positional arguments than it has parameters.",
        "repeated-argument": "A tool is given one argument twice, by position and by name.",
        "not-awaited": "A call that must be awaited is thrown away, or used as if it were its result.",
        "already-waited": "A call of a plain `def` that calls a tool is awaited; it has waited by itself.",
        "hidden-field": "A key of a result is read as an attribute that is the dict's own method: `r.items`.",
        "never-called": "A program defines functions, does nothing else, and calls none of them.",
        "not-replayable": "It starts a thread or a timer that sends a signal, in a run that can be replayed.",
        "restricted-import": "policy='restricted': a module, or a way to import, that is not on the allow-list.",
        "restricted-name": "policy='restricted': a name that starts with an underscore, or is reserved.",
        "restricted-attribute": "policy='restricted': an attribute that leads into the interpreter.",
        "restricted-call": "policy='restricted': a function that would step around the policy.",
        "restricted-syntax": "policy='restricted': a statement that the policy does not allow.",
    }
)
"""Every code a `Finding` may carry. Adding one is a decision: the table is pinned by a test and printed in the docs."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing found in a program before it runs, worded for the model that wrote it."""

    code: str
    """A key of `FINDING_CODES`."""
    line: int
    """Line in the source, from 1."""
    column: int
    """Column in that line, in characters, from 1."""
    message: str
    """The fault, with the value, in one line."""
    hint: str
    """What to write instead, in one line."""
    severity: Severity = "error"
    """An error stops the run. A warning does not: it may be meant."""

    @classmethod
    def at(cls, node: Any, code: str, message: str, hint: str, severity: Severity = "error") -> Finding:
        """A finding at the place of a node."""
        return cls(code, node.lineno, node.col_offset + 1, message, hint, severity)

    def __str__(self) -> str:
        return f"line {self.line}: {self.message}; {self.hint}"


def shown(name: str) -> str:
    """A name as a message shows it: on one line, at most 80 characters."""
    text = " ".join(name.split())
    return text if len(text) <= 80 else text[:77] + "..."


def is_name(text: str) -> bool:
    """Whether a text can be written as the name of an argument."""
    return text.isidentifier() and not iskeyword(text)


@dataclass(frozen=True, slots=True)
class ToolShape:
    """A tool as `check` needs to know it; the runtime derives the shape from the tool's schema."""

    name: str
    """The tool's Python name in the program."""
    parameters: tuple[str, ...]
    """Names of its parameters, in the order in which positional arguments fill them."""
    required: frozenset[str]
    """Parameters without a default."""
    accepts_any: bool = False
    """The tool takes arguments beyond `parameters`, so an unknown argument is not a finding."""
    variadic: bool = False
    """Its one parameter takes all positional arguments."""
    output_schema: Mapping[str, Any] | None = None
    """JSON Schema of its result, if known."""
    spellings: Mapping[str, str] = field(default_factory=dict)
    """Parameters whose names are not Python names, by what programs write for them: ``{"from_": "from"}``."""
    listed: bool = True
    """Whether lists of all tools name it; built-in tools are not listed."""

    def keyword(self, parameter: str, value: str = "...") -> str:
        """An argument as it is written in a call; one whose name is not a Python name is written as ``**{...}``."""
        written = next((spelling for spelling, name in self.spellings.items() if name == parameter), parameter)
        return f"{written}={value}" if is_name(written) else f"**{{{written!r}: {value}}}"


_LONGEST = 64
_MOST_NEAR = 10
_MOST_NAMES = 10_000
_FURTHEST = 3
"""Letters by which the lengths may differ."""
_CLOSE = 0.72


def nearest(word: str, *known: Iterable[str]) -> str | None:
    """The known name that is probably meant by `word`, or None if no name is near.

    Args:
        word: a name as the program has it.
        known: the names that exist.
    """
    if len(word) > _LONGEST or len(word) < 2:
        return None
    names = list(islice(chain.from_iterable(known), _MOST_NAMES))
    found = [name for name in near(word, names, _CLOSE, _MOST_NEAR) if abs(len(name) - len(word)) <= _FURTHEST]
    plain = _without_joints(word)
    # of short names, a joint is so large a part that they are not near
    same = (name for name in found or names if _without_joints(name) == plain)
    return next(same, found[0] if found else None)


def _without_joints(name: str) -> str:
    """The name without `_`, `-`, `.` and case: models write ``getWeather`` for ``get_weather``."""
    return name.replace("_", "").replace("-", "").replace(".", "").casefold()
