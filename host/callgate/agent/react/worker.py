"""`ReActWorker`: the smallest whole cycle around a `ReActPlanner`. Plan, call through the gate, observe, plan again.

For use without the loop, which has budgets, transcripts and streaming beside this. Every call is answered: what cannot
be made is an observation as well. What the model's endpoint does ends the run, with all that was done so far.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import anyio

from callgate.agent.models.model import NO_USAGE, Usage
from callgate.errors import ConfigurationError, ContextExceeded, ModelError, ModelRejected, SandboxError
from callgate.runtime import Runtime
from callgate.runtime.model.foreign import ModelNames
from callgate.runtime.model.meta import META_TOOLS

from .actions import Action, HistoryEntry, Observation, surplus_note
from .planner import Decision, ReActPlanner

__all__ = ["ReActWorker", "WorkerOutcome", "WorkerResult"]

WorkerOutcome = Literal["answered", "refused", "empty", "cut", "stuck", "turns", "unavailable", "rejected", "too_long"]
"""How a run ended: with an answer; the model refused; said nothing, again and again; was cut, again and again; made the
same failing calls, again and again; the turns were spent; the endpoint gave nothing; would not take the request; the
input was too long."""

MOST_IN_A_ROW = 3
"""So many empty or cut replies, or turns of the same failing calls, one after the other end a run."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerResult:
    """What came of a task.

    Attributes:
        answer: the model's last words; empty where there are none.
        outcome: how it ended.
        reason: why, where it is not an answer.
        turns: of the model.
        history: what was called, and what came of it.
        usage: tokens.
    """

    answer: str
    outcome: WorkerOutcome
    reason: str
    turns: int
    history: tuple[HistoryEntry, ...]
    usage: Usage


class ReActWorker:
    """Works on tasks with a planner and a runtime.

    Args:
        planner: decides. The model has the tools that its configuration describes, and no others.
        runtime: makes the calls; it has to be open.
        max_turns: so often the model is asked for one task.
        on_entry: told of each entry of the history as it is made; it must be quick.

    Raises:
        ConfigurationError: `max_turns` is below 1.
    """

    def __init__(
        self,
        planner: ReActPlanner,
        runtime: Runtime,
        *,
        max_turns: int = 20,
        on_entry: Callable[[HistoryEntry], None] | None = None,
    ) -> None:
        if max_turns < 1:
            raise ConfigurationError(f"max_turns must be 1 or more, and is {max_turns}")
        self._planner = planner
        self._runtime = runtime
        self._max_turns = max_turns
        self._on_entry = on_entry

    async def run(self, task: str, context: Mapping[str, Any] | None = None) -> WorkerResult:
        """Work on a task until the model answers, or it cannot go on.

        Args:
            task: in the user's words.
            context: what it is part of: ``strategic_plan``, a JSON value.

        Raises:
            ConfigurationError: the strategic plan is no JSON value, or the runtime is not open.
        """
        run = _Run(self._on_entry)
        while run.turns < self._max_turns:
            try:
                decision = await self._planner.decide(task, run.history, context)
            except ModelError as error:
                return run.ended(_of_error(error), reason=str(error))
            run.turns += 1
            run.usage += decision.reply.usage
            if (over := run.take(decision)) is not None:
                return over
            if decision.actions:
                observations = await self._observed(decision.actions)
                run.tell([*decision.actions, *observations])
                if run.circles(decision.actions, observations):
                    return run.ended(
                        "stuck", reason=f"the same calls failed {MOST_IN_A_ROW} times: {observations[0].content}"
                    )
        return run.ended("turns", reason=f"the model was asked {self._max_turns} times, and has not answered")

    async def _observed(self, actions: Sequence[Action]) -> list[Observation]:
        """What comes of the actions, in their order; so many at the same time as the planner says."""
        most = self._planner.max_parallel_tool_calls
        found: dict[int, Observation] = {}
        waiting = iter(list(enumerate(actions)))
        raised: list[ConfigurationError] = []

        async def work() -> None:
            try:
                for place, action in waiting:
                    found[place] = await self._one(action)
            except ConfigurationError as error:
                raised.append(error)
                group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            for _ in range(min(most, len(actions))):
                group.start_soon(work)
        if raised:
            raise raised[0]
        observations = [found[place] for place in range(len(actions))]
        if note := surplus_note([each.tool_name for each in actions], most):
            last = observations[-1]
            observations[-1] = Observation(
                tool_name=last.tool_name, content=f"{last.content}\n\n{note}", ok=last.ok, id=last.id
            )
        return observations

    async def _one(self, action: Action) -> Observation:
        if action.fault:
            text = f"Error: {action.tool_name[:64]}: {action.fault}"
            return Observation(tool_name=action.tool_name, content=text, ok=False, id=action.id)
        described = self._planner.tool_names
        resolve = ModelNames(self._runtime.registry).resolve
        try:
            answer = await self._runtime.answer(
                action.tool_name,
                action.tool_args,
                tools=[name for each in described if (name := resolve(each)) is not None],
                meta=[name for name in META_TOOLS if name in described],
            )
        except SandboxError as error:
            return Observation(tool_name=action.tool_name, content=f"Error: {error}", ok=False, id=action.id)
        return Observation(tool_name=action.tool_name, content=answer.text, ok=answer.ok, id=action.id)


class _Run:
    """One task under way."""

    def __init__(self, on_entry: Callable[[HistoryEntry], None] | None) -> None:
        self._on_entry = on_entry
        self.history: list[HistoryEntry] = []
        self.turns = 0
        self.usage: Usage = NO_USAGE
        self._wordless: list[str] = []
        self._failing: list[tuple[Action, ...]] = []

    def tell(self, entries: Sequence[HistoryEntry]) -> None:
        self.history.extend(entries)
        if self._on_entry is not None:
            for each in entries:
                self._on_entry(each)

    def take(self, decision: Decision) -> WorkerResult | None:
        """What the run came to with this reply; None where it goes on."""
        reply = decision.reply
        if reply.ended == "refused":
            return self.ended("refused", answer=decision.answer, reason=reply.refusal or "the model refused")
        if decision.actions and reply.ended != "cut":
            self._wordless.clear()
            return None
        if reply.ended not in ("cut", "empty") and decision.answer:
            return self.ended("answered", answer=decision.answer)
        self._wordless.append(reply.ended)
        if len(self._wordless) < MOST_IN_A_ROW:
            return None
        if reply.ended == "cut":
            return self.ended("cut", answer=decision.answer, reason="the reply was cut at its limit of tokens")
        return self.ended("empty", reason="the model said nothing")

    def circles(self, actions: Sequence[Action], observations: Sequence[Observation]) -> bool:
        """Whether the same calls failed again and again."""
        if any(each.ok for each in observations):
            self._failing.clear()
            return False
        if self._failing and self._failing[-1] != tuple(actions):
            self._failing.clear()
        self._failing.append(tuple(actions))
        return len(self._failing) >= MOST_IN_A_ROW

    def ended(self, outcome: WorkerOutcome, *, answer: str = "", reason: str = "") -> WorkerResult:
        return WorkerResult(
            answer=answer,
            outcome=outcome,
            reason=reason,
            turns=self.turns,
            history=tuple(self.history),
            usage=self.usage,
        )


def _of_error(error: ModelError) -> WorkerOutcome:
    if isinstance(error, ContextExceeded):
        return "too_long"
    return "rejected" if isinstance(error, ModelRejected) else "unavailable"
