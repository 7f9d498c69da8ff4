"""What a task is like: how many calls, whether they need each other, whether somebody has to think in between. From its
words, which are signs; from a plan or a selection, which are facts. Chooses nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from callgate.agent.planning.tool_plan import Selection, ToolPlan

from .words import acts_in, items_in, signs_in

__all__ = ["TaskProfile", "profile_of_plan", "profile_of_selection", "profile_of_words"]


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskProfile:
    """What a task is like.

    Attributes:
        calls: how many calls it takes, about; 0 where nothing says.
        dependent: a call needs what another one gave.
        judgement: what to do next is decided by reading what came back.
        repetition: the same is done for each of many.
        selection: some of many are picked by a property.
        arithmetic: results are counted, added up or put in order.
        computing: the work is an algorithm of its own.
        volume: results are large, and little of them is wanted.
        tools: how many there are to call.
        certain: from a plan, not from words.
        signs: names of the word rules that matched; of a plan, what it shows.
    """

    calls: int = 0
    dependent: bool = False
    judgement: bool = False
    repetition: bool = False
    selection: bool = False
    arithmetic: bool = False
    computing: bool = False
    volume: bool = False
    tools: int = 0
    certain: bool = False
    signs: tuple[str, ...] = ()


def profile_of_words(task: str, tools: Sequence[object]) -> TaskProfile:
    """What the words of a task say: see `WORD_RULES`.

    Args:
        task: what the user says.
        tools: those that there are; their number counts.
    """
    rules = signs_in(task)
    found = {rule.sign for rule in rules}
    return TaskProfile(
        calls=max(acts_in(task), items_in(task)),
        dependent="dependent" in found,
        judgement="judgement" in found,
        repetition="repetition" in found,
        selection="selection" in found,
        arithmetic="arithmetic" in found,
        computing="computing" in found,
        volume="volume" in found,
        tools=len(tools),
        signs=tuple(rule.name for rule in rules),
    )


def profile_of_plan(plan: ToolPlan, tools: Sequence[object] = ()) -> TaskProfile:
    """What a plan shows of its task: its calls, and whether they need each other. No word is read."""
    dependent = any(step.dependencies for step in plan.steps)
    return _certain(len(plan.steps), dependent, len({step.tool for step in plan.steps}), tools)


def profile_of_selection(selection: Selection, tools: Sequence[object] = ()) -> TaskProfile:
    """What a selection of tools shows of its task."""
    chain = selection.chain
    dependent = any(each.depends_on or _refers(each.parameters) for each in chain)
    return _certain(len(chain), dependent, len({each.tool for each in chain}), tools)


def _certain(calls: int, dependent: bool, different: int, tools: Sequence[object]) -> TaskProfile:
    signs = [f"{calls} call{'' if calls == 1 else 's'}"]
    if dependent:
        signs.append("references")
    repetition = different == 1 and calls >= REPEATED and not dependent
    if repetition:
        signs.append("one tool for all")
    return TaskProfile(
        calls=calls,
        dependent=dependent,
        repetition=repetition,
        tools=len(tools),
        certain=True,
        signs=tuple(signs),
    )


REPEATED = 6
"""So many calls of one tool are a repetition, and fewer a handful."""


def _refers(value: object) -> bool:
    """Whether a reference stands anywhere in arguments; no recursion, they may be deep."""
    rest = [value]
    while rest:
        match rest.pop():
            case str() as text if text.startswith("$ref:"):
                return True
            case dict() as inner:
                if "$ref" in inner or "$expr" in inner:
                    return True
                rest.extend(inner.values())
            case list() | tuple() as inner:
                rest.extend(inner)
            case _:
                pass
    return False
