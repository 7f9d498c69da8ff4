"""What a look at a program can find, and what a look needs to know of a tool.

Knows the closed table of finding codes. Refuses to know how any of them is found: it holds values, not judgement.
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
        "unknown-tool": "`tools.x`, `server.x`, `from tools import x` or `tool_call('x')` with an x that is no tool.",
        "unknown-argument": "A tool is called with a keyword that it does not have.",
        "missing-argument": "A tool is called without an argument that it requires.",
        "too-many-arguments": "A tool is called with more positional arguments than it has parameters.",
        "repeated-argument": "A tool is given one argument twice, by position and by name.",
        "not-awaited": "A call that must be awaited is thrown away, or used as if it were its result.",
        "already-waited": "A call of a plain `def` that calls a tool is awaited; it has waited by itself.",
        "hidden-field": "A key of a result is read as an attribute that is the dict's own method: `r.items`.",
        "never-called": "A program defines functions, does nothing else, and calls none of them.",
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
    """What is wrong, with the value, in one line."""
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
    """A name that a program has, on one line, cut."""
    text = " ".join(name.split())
    return text if len(text) <= 80 else text[:77] + "..."


def is_name(text: str) -> bool:
    """Whether Python takes a text for the name of an argument."""
    return text.isidentifier() and not iskeyword(text)


@dataclass(frozen=True, slots=True)
class ToolShape:
    """What `check` needs to know of a tool; the runtime derives it from the tool's schema."""

    name: str
    """The tool's Python name in the program."""
    parameters: tuple[str, ...]
    """Names of its parameters, in the order in which positional arguments fill them."""
    required: frozenset[str]
    """Those without a default."""
    accepts_any: bool = False
    """It takes arguments beyond `parameters`, so an unknown one is no finding."""
    variadic: bool = False
    """Its one parameter takes all positional arguments."""
    output_schema: Mapping[str, Any] | None = None
    """JSON Schema of its result, where that is known."""
    spellings: Mapping[str, str] = field(default_factory=dict)
    """What programs write for parameters that are no Python names: ``{"from_": "from"}``."""
    listed: bool = True
    """It is named where all tools are listed; built-in ones are not."""

    def keyword(self, parameter: str, value: str = "...") -> str:
        """How an argument is written in a call, whatever its name is."""
        written = next((spelling for spelling, name in self.spellings.items() if name == parameter), parameter)
        return f"{written}={value}" if is_name(written) else f"**{{{written!r}: {value}}}"


_LONGEST = 64
_MOST_NEAR = 10
_MOST_NAMES = 10_000
_FURTHEST = 3
"""Letters by which the length may differ."""
_CLOSE = 0.72


def nearest(word: str, *known: Iterable[str]) -> str | None:
    """The name that `word` was probably meant to be, or None where that would be a guess.

    Args:
        word: what was written.
        known: the names there are.
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
    """``getWeather`` and ``get_weather`` are one name to a model."""
    return name.replace("_", "").replace("-", "").replace(".", "").casefold()
