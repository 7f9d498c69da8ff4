"""Words for a wrong value: its place, what was expected, what was given, which name was probably meant.

Knows JSON values and the paths into them. Every text is bounded, because the other side may be hostile. The only file
that imports `rapidfuzz`, which measures how similar two words are: twice the letters that both have in the same order,
divided by all letters of both, ignoring case.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from callgate.errors import InvalidArguments

__all__ = [
    "MAX_FAULTS",
    "MAX_LOOKED_AT",
    "Fault",
    "described",
    "did_you_mean",
    "near",
    "path_text",
    "printable",
    "refusal",
    "sentence",
    "unknown_argument",
]

MAX_FAULTS = 10
"""Faults that are spelled out; further ones are counted."""
MAX_LOOKED_AT = 100
"""Faults that are looked at; a guest may send a million wrong arguments."""

_MAX_SHOWN = 60
_MAX_WORD = 64
_MOST_NAMES = 100
_MOST_LOOKED_AT = 10_000
"""Names that are compared with a word, in about 2 ms; further names are ignored."""
_CLOSE = 0.6
"""Similarity (see `near`) from which a name is suggested; `difflib.get_close_matches` has the same bound."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong with the arguments.

    Attributes:
        argument: path of the value, e.g. ``"filters.tags[0]"``.
        problem: what was expected and what was given, in words.
    """

    argument: str
    problem: str


def near(word: str, known: Iterable[str], share: float, limit: int = 1) -> list[str]:
    """The names most similar to a word, the best first.

    Args:
        word: the word that was written.
        known: the names, of which the first 10,000 are compared; equally similar names keep their order.
        share: the least similarity, from 0 to 1.
        limit: the most names to return.
    """
    from rapidfuzz import fuzz, process  # imported only once something is wrong

    names = list(islice(known, _MOST_LOOKED_AT))
    lowered = [name.lower() for name in names]
    found = process.extract(word.lower(), lowered, scorer=fuzz.ratio, score_cutoff=100 * share, limit=limit)
    return [names[place] for _, _, place in found]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``"; did you mean get_weather?"``, or an empty text when no name is similar. Bounded in time (see `near`)."""
    close = [] if len(word) > _MAX_WORD else near(word, known, _CLOSE)
    return f"; did you mean {close[0]}?" if close else ""


def unknown_argument(name: str, names: Sequence[str]) -> str:
    """The problem text for an argument that the tool does not have."""
    return f"unknown argument {name!r}{did_you_mean(name, names) or _names_of_all(names)}"


def _names_of_all(names: Sequence[str]) -> str:
    """``"; the arguments are: a, b"``, at most the first 100."""
    if not names:
        return "; the tool takes no arguments"
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"; the arguments are: {', '.join(names[:_MOST_NAMES])}{more}"


def described(value: Any) -> str:
    """A JSON value in a few words: ``'"5" (a string)'``, ``"an array of 3 items"``."""
    match value:
        case None:
            return "null"
        case bool():
            return "true (a boolean)" if value else "false (a boolean)"
        case int():
            return f"{value:d} (a number)" if value.bit_length() < 200 else f"a number of {value.bit_length()} bits"
        case float():
            return f"{value!r} (a number)"
        case str():
            if len(value) > _MAX_SHOWN:
                return f"{json.dumps(value[:_MAX_SHOWN])}... (a string of {len(value)} characters)"
            return f"{json.dumps(value)} (a string)"
        case dict():
            return "an object"
        case list() | tuple():
            return f"an array of {len(value)} item{'' if len(value) == 1 else 's'}"
        case _:
            return f"a {type(value).__name__}"


def path_text(path: Sequence[str | int], root: str = "") -> str:
    """``("a", 0, "b c")`` as ``a[0]["b c"]``."""
    text = root
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part.isidentifier():
            text += f".{part}" if text else part
        else:
            text += f"[{json.dumps(part[:_MAX_SHOWN])}]" if text else part[:_MAX_SHOWN]
    return text


def sentence(faults: Sequence[Fault]) -> str:
    """All faults in one line, at most `MAX_FAULTS` of them spelled out."""
    text = "; ".join(fault.problem for fault in faults[:MAX_FAULTS])
    more = len(faults) - MAX_FAULTS
    return f"{text}; and {more} more" if more > 0 else text


def refusal(tool: str, faults: Sequence[Fault], more: str = "") -> InvalidArguments:
    """The error for arguments with these faults; `more` follows them in the message."""
    listed = [{"argument": fault.argument, "problem": fault.problem} for fault in faults[:MAX_FAULTS]]
    return InvalidArguments(f"tool {tool!r}: {sentence(faults)}{more}", data={"faults": listed}, tool=tool)


def printable(line: str) -> str:
    """The line with escapes in place of control characters and invisible ones."""
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in line)
