"""By which form a task is done: the rules, as a table, in order. The first whose condition holds is the one.

The conditions are few and read from a `TaskProfile`. Where the figures in them come from stands beside them; what the
forms gain and lose, workload by workload, is in docs/benchmarks.md. `rules_table` makes the table of the docs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from .profile import TaskProfile

__all__ = ["BELOW", "FEW", "RULES", "Form", "Rule", "rules_table"]

Form = Literal["direct", "plan", "code"]
"""How tools are called: one by one by the model, in a plan, in a program."""

FEW = 4
"""Calls that need nothing of each other and that a model makes in one turn. Two are the planning guide's figure
("simple, 1-2 tool calls"); models call in parallel, and for three cities direct calls were 1.34 times as fast as the
best plan or program of the benchmarks."""

BELOW: dict[Form, Form | None] = {"code": "plan", "plan": "direct", "direct": None}
"""What takes a form's place where it is not there, or fails: always one that asks less of the model."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A condition, and the form that it speaks for.

    Attributes:
        name: of the rule.
        form: that it chooses.
        when: the condition.
        condition: it in words.
        reason: why that form, in words for people and models.
    """

    name: str
    form: Form
    when: Callable[[TaskProfile], bool]
    condition: str
    reason: str


RULES: tuple[Rule, ...] = (
    Rule(
        "no tools", "direct", lambda task: task.tools == 0 and not task.certain,
        "there are no tools",
        "there is nothing to call",
    ),
    Rule(
        "judgement", "direct", lambda task: task.judgement,
        "what to do next is decided by reading what came back",
        "a plan or a program cannot think between its steps: after each call the model has to come back anyway",
    ),
    Rule(
        "computing", "code", lambda task: task.computing,
        "the work is an algorithm of its own",
        "a program computes; no model should do that in its head, and plans have no loops",
    ),
    Rule(
        "many and sums", "code",
        lambda task: (task.repetition or task.selection or task.volume) and task.arithmetic,
        "many items are gone through, and their results counted, added up, compared or put in order",
        "a program goes through any number of results, and the model sees what came of it alone",
    ),
    Rule(
        "large results", "code", lambda task: task.volume,
        "results are large, and little of them is wanted",
        "a program keeps what it does not need out of the model's context",
    ),
    Rule(
        "filter", "code", lambda task: task.repetition and task.selection,
        "some of many items are picked by a property",
        "a program filters without showing the model what it drops",
    ),
    Rule(
        "many", "plan", lambda task: task.repetition,
        "the same is done for each of many items",
        "one step with for_each makes as many calls as there are items, in one turn and side by side",
    ),
    Rule(
        "one call", "direct", lambda task: task.calls <= 1 and not task.dependent,
        "one call is enough, or nothing says that it is not",
        "writing a plan costs more than making the call",
    ),
    Rule(
        "chain", "plan", lambda task: task.dependent,
        "calls need what other calls gave, and nobody has to think in between",
        "a plan hands results on by reference: two turns instead of one for each call",
    ),
    Rule(
        "few calls", "direct", lambda task: task.calls <= FEW,
        f"up to {FEW} calls that need nothing of each other",
        "a model makes a few calls in one turn, and sees their results as they are",
    ),
    Rule(
        "many calls", "plan", lambda task: True,
        f"more than {FEW} calls that need nothing of each other",
        "a plan makes them side by side, and gives back only what is asked for",
    ),
)  # fmt: skip


def rules_table() -> str:
    """The rules as a table of Markdown, for the docs."""
    lines = ["| rule | where | form | because |", "|---|---|---|---|"]
    lines += [f"| {rule.name} | {rule.condition} | {rule.form} | {rule.reason} |" for rule in RULES]
    return "\n".join(lines)
