"""What a workload is: a task, tools to do it with, what a model would do about it in each form, and the right answer.

The standard library alone: peers import this in environments of their own. What a model would do is in `scripts`.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = [
    "Busy",
    "Call",
    "CallScript",
    "Fact",
    "Function",
    "Pattern",
    "PlanScript",
    "ProgramScript",
    "ScriptFailed",
    "Workload",
    "plain",
]

_NEAR = 80
"""Characters between two of a tuple, at most."""

Function = Callable[..., Awaitable[Any]]
"""A tool: an async function with annotations of JSON types and a docstring with `Args:`. It only reads, and gives an
object: some peers wrap anything else."""


class Busy(ConnectionError):
    """What a tool raises that fails at times: the same call may do well when it is made again."""


class ScriptFailed(Exception):
    """What came back is not what a model could go on with; the text says what it was."""


@dataclass(frozen=True, slots=True)
class Call:
    """The model calls a tool."""

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A fact that a regular expression finds in an answer, after `plain`; and the words for it where it is missing."""

    words: str
    expression: str


Fact = str | tuple[str, ...] | Pattern
"""What an answer may contain. A text stands there as whole words. Those of a tuple stand near each other in this order,
such as a name before its amount, and no other tuple's first one stands between them."""

CallScript = Callable[[], Generator[list[Call], list[str], str]]
"""Gives calls that do not need each other's results; is sent their texts, in the order of the calls."""
PlanScript = Callable[[], Generator[dict[str, Any], str, str]]
"""Gives plans; is sent the text of each plan's result."""
ProgramScript = Callable[[], Generator[str, str, str]]
"""Gives programs; is sent the text of each program's result.

Programs call tools by their names with keyword arguments, `await` each call, and have the text ``answer: ...`` as the
value of their last expression, or ``note: ...`` where the model has to read on; `dialects` rewrites them for peers that
want it otherwise.
"""


@dataclass(frozen=True, kw_only=True)
class Workload:
    """One task, and its forms.

    Attributes:
        name: as `--only` takes it.
        title: a few words, for headings.
        about: what it shows, in a sentence or two; where direct calls should win, it says so.
        data: what the tools' data are, and where they are from; how long the tools take, where that is simulated.
        task: what the user says. A real model needs nothing more.
        tools: the functions; all of them only read.
        calls: the script of a model that calls the tools directly; None where no model could do it so.
        plans: the script of a model that writes plans; None where no plan can do it.
        programs: the script of a model that writes programs.
        facts: what a right answer contains, all of it.
        never: what a right answer does not contain, none of it.
        why_no_calls: where there is no script of calls, why.
        why_no_plan: where there is no plan, why.
        note: what a reader of its row has to know, such as that the scripted model does arithmetic that
            a real one would get wrong.
        retries: names of tools that fail at times, with `Busy`, and may be called again. What tries failed calls
            again by itself should do so for these, without long waits.
    """

    name: str
    title: str
    about: str
    data: str
    task: str
    tools: tuple[Function, ...]
    calls: CallScript | None
    plans: PlanScript | None
    programs: ProgramScript
    facts: tuple[Fact, ...]
    never: tuple[Fact, ...] = ()
    why_no_calls: str = ""
    why_no_plan: str = ""
    note: str = ""
    retries: frozenset[str] = frozenset()

    def wrong(self, answer: str) -> str:
        """What is wrong with an answer; empty where nothing is."""
        said = plain(answer)
        first = [fact[0] for fact in self.facts if isinstance(fact, tuple)]
        missing = [_words(fact) for fact in self.facts if not _found(said, fact, first)]
        if missing:
            return f"not in the answer: {', '.join(missing)}"
        surplus = [_words(fact) for fact in self.never if _found(said, fact, first)]
        return f"should not be in the answer: {', '.join(surplus)}" if surplus else ""


def plain(text: str) -> str:
    """Lower case, one space between words, no separators within numbers, no marks of Markdown, one kind of dash."""
    text = re.sub(r"[\u2010-\u2015\u2212]", "-", text.replace("*", "").replace("`", ""))
    text = re.sub(r"(?<=\d)[,_\u202f\u00a0](?=\d{3})", "", text)
    return re.sub(r"\s+", " ", text).strip().lower()


def _words(fact: Fact) -> str:
    if isinstance(fact, Pattern):
        return fact.words
    return " … ".join(map(plain, (fact,) if isinstance(fact, str) else fact))


def _found(said: str, fact: Fact, first: Sequence[str]) -> bool:
    if isinstance(fact, Pattern):
        return re.search(fact.expression, said) is not None
    parts = (fact,) if isinstance(fact, str) else fact
    others = "|".join(_whole(each) for each in first if each != parts[0])
    between = f"(?:(?!{others}).)" if others else "."
    return re.search(f"{between}{{0,{_NEAR}}}?".join(map(_whole, parts)), said) is not None


def _whole(fact: str) -> str:
    """An expression for it; "72.5" is not in "172.5", "0.72.5" or "72.53", nor is 5 in " -5", nor "ana" in "banana"."""
    before = r"(?<!\w)(?<!\d\.)(?<!\s-)(?<!\(-)" if fact[0].isdigit() else r"(?<!\w)"
    return rf"{before}{re.escape(plain(fact))}(?!\w|\.\d)"
