"""What a workload is: a task, tools to do it with, what a model would do about it in each form, and the right answer.

The standard library alone: peers import this in environments of their own. What a model would do is in `scripts`.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Busy", "Call", "CallScript", "Function", "PlanScript", "ProgramScript", "ScriptFailed", "Workload", "plain"]

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
        about: what it shows, and where direct calls should win; what its data are, and how long the tools take, where
            that is simulated; what a reader of its row has to know, such as arithmetic that a real model gets wrong.
        task: what the user says, with the form of the answer. A real model needs nothing more.
        answer: the right one.
        tools: the functions; all of them only read.
        calls: the script of a model that calls the tools directly; None where no model could do it so.
        plans: the script of a model that writes plans; None where no plan can do it.
        programs: the script of a model that writes programs.
        said: the answer that a plan can give itself: the member ``answer`` of the plan; None where it cannot.
        why_no_calls: where there is no script of calls, why.
        why_no_plan: where there is no plan, why.
        retries: names of tools that fail at times, with `Busy`, and may be called again. What tries failed calls
            again by itself should do so for these, without long waits.
    """

    name: str
    title: str
    about: str
    task: str
    answer: str
    tools: tuple[Function, ...]
    programs: ProgramScript
    calls: CallScript | None = None
    plans: PlanScript | None = None
    said: Any = None
    why_no_calls: str = ""
    why_no_plan: str = ""
    retries: frozenset[str] = frozenset()

    def wrong(self, answer: str) -> str:
        """What is wrong with an answer; empty where its last line is the right one.

        Agents that give the answer themselves give what their program gave, with the mark ``answer:`` before it.
        """
        last = plain(answer.strip().rpartition("\n")[2]).removeprefix("answer: ")
        return "" if last == plain(self.answer) else f"the last line of the answer is not: {self.answer}"


def plain(text: str) -> str:
    """Lower case, one space between words, no separators within numbers, no marks of Markdown, one kind of dash."""
    text = re.sub(r"[\u2010-\u2015\u2212]", "-", text.replace("*", "").replace("`", ""))
    text = re.sub(r"(?<=\d)[,_\u202f\u00a0](?=\d{3})", "", text)
    return re.sub(r"\s+", " ", text).strip(" .").lower()
