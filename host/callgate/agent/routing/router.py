"""The router: which form a task is done in, and what follows when a form fails. Pure; asks no model.

A route is advice where the model has several forms (mode ``auto``): its own choice wins for as long as it works. It is
binding in what it takes away: a form that failed too often is not offered again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from callgate.agent.planning.tool_plan import Selection, ToolPlan

from .failures import Failure, FailureKind
from .profile import TaskProfile, profile_of_plan, profile_of_selection, profile_of_words
from .rules import BELOW, RULES, Form, Rule

__all__ = ["PATIENCE", "Route", "Router"]

PATIENCE: dict[FailureKind, int | None] = {"refused": 3, "failed": 3, "limit": 2, "sandbox": 1, "tool": None}
"""After how many turns with failures of a form, since it last worked, it is given up. A refused or failed plan comes
back with what is wrong, and is corrected once or twice by models that can write one; who has not got it right the third
time will not. What spent all it was given may be written smaller once. A sandbox that is not there does not come back.
Failures of tools are not counted: another form would call the same tools."""

DIRECT_PATIENCE = 8
"""Turns with refused direct calls, since one was made, after which a model calls no tool that there is: there is no
form below."""

_DID: dict[FailureKind, str] = {
    "refused": "was refused",
    "failed": "failed",
    "limit": "spent all it was given",
    "sandbox": "found no sandbox",
    "tool": "met a failing tool",
}
_NAMES: dict[Form, tuple[str, str]] = {
    "code": ("Programs are", "execute_code"),
    "plan": ("Plans are", "execute_tool_plan"),
    "direct": ("Direct calls are", ""),
}
_INSTEAD: dict[Form, str] = {
    "plan": "Use execute_tool_plan, or call the tools yourself",
    "direct": "Call the tools yourself, one after the other, and use what each of them gives for the next",
    "code": "",
}


@dataclass(frozen=True, slots=True)
class Route:
    """The form in which tools are called from here on.

    Attributes:
        mode: the form.
        rule: name of the rule that chose: of `RULES`, or ``fallback`` or ``again``.
        reason: in words, for people and the transcript.
        words: for the model; empty where it need not be told anything.
    """

    mode: Form
    rule: str
    reason: str
    words: str = ""


class Router:
    """Chooses forms by a table of rules.

    Args:
        rules: the first whose condition holds is the one; the last should hold always.
    """

    def __init__(self, rules: Sequence[Rule] = RULES) -> None:
        self._rules = tuple(rules)

    def profile(self, task: str | ToolPlan | Selection, tools: Sequence[object] = ()) -> TaskProfile:
        """What a task is like.

        Args:
            task: its words; or a plan or a selection for it, which say more, and for certain.
            tools: those that there are; their number counts.
        """
        match task:
            case ToolPlan():
                return profile_of_plan(task, tools)
            case Selection():
                return profile_of_selection(task, tools)
            case _:
                return profile_of_words(task, tools)

    def route(self, profile: TaskProfile, offered: Collection[str] = ("direct", "plan", "code")) -> Route:
        """The form for a task. Where nothing says what it is like (its words may be of another language), the model is
        told nothing: the rule is a guess then.

        Args:
            profile: what it is like.
            offered: forms that there are; without a sandbox, for instance, there is no ``code``. Where the right one is
                not among them, it is the one below it; ``direct`` is always there.
        """
        rule = next((each for each in self._rules if each.when(profile)), RULES[-1])
        form: Form = rule.form
        reason = rule.reason
        while form not in offered and (below := BELOW[form]) is not None:
            reason = f"{reason}; {form} is not there, and {below} takes its place"
            form = below
        if profile.signs:
            reason = f"{rule.condition} (seen: {', '.join(profile.signs[:8])}): {reason}"
        else:
            reason = f"{rule.condition}: {reason}"
        known = profile.certain or profile.signs or profile.calls or not profile.tools
        return Route(form, rule.name, reason, _advice(form, rule) if known else "")

    def after_failure(
        self, mode: str, failures: Sequence[Failure], offered: Collection[str] = ("direct", "plan", "code")
    ) -> Route | None:
        """What follows when a call failed.

        Args:
            mode: the form of the call, ``direct``, ``plan`` or ``code``.
            failures: all since that form last worked, of this form or others, oldest first.
            offered: forms that there still are.

        Returns:
            The same form (rule ``again``) while the model may correct itself, or the failures are not the form's fault;
            the next form that is there below it (rule ``fallback``) when its patience has run out; None when there is
            none: stop.
        """
        form: Form = "plan" if mode == "plan" else "code" if mode == "code" else "direct"
        own = [each for each in failures if each.form == form]
        spent = next((kind for kind, most in PATIENCE.items() if _spent(form, own, kind, most)), None)
        if spent is None:
            return Route(form, "again", "the model has the error, and may correct itself")
        below = BELOW[form]
        while below is not None and below not in offered and below != "direct":
            below = BELOW[below]
        if below is None:
            return None
        times = _times(own, spent)
        last = next(each.detail for each in reversed(own) if each.kind == spent)
        reason = f"{form} {_DID[spent]} {times} time{'' if times == 1 else 's'}: {below} takes its place"
        return Route(below, "fallback", f"{reason} ({last[:200]})" if last else reason, _given_up(form, below, spent))


def _spent(form: Form, own: Sequence[Failure], kind: FailureKind, most: int | None) -> bool:
    if most is None:
        return False
    if form == "direct":
        most = DIRECT_PATIENCE
    return _times(own, kind) >= most


def _times(own: Sequence[Failure], kind: FailureKind) -> int:
    """In how many turns."""
    of_kind = [each for each in own if each.kind == kind]
    return len({each.turn for each in of_kind if each.turn is not None}) + sum(each.turn is None for each in of_kind)


def _advice(form: Form, rule: Rule) -> str:
    match form:
        case "code":
            return f"For this task a program with execute_code may be best: {rule.reason}."
        case "plan":
            return f"For this task one plan with execute_tool_plan may be best: {rule.reason}."
        case _:
            return "For this task it may be best to call the tools directly" + (
                f": {rule.reason}." if rule.form == "direct" else "."
            )


def _given_up(form: Form, below: Form, kind: FailureKind) -> str:
    what, name = _NAMES[form]
    return f"{what} no longer offered: {name} {_DID[kind]}. {_INSTEAD[below]}."
