"""The calls of one turn: made at the same time, at most so many, the others waiting; every one is answered.

1. Every call gets an answer, in words for the model: what it wrote wrongly, what there is not, what failed, what was
   not made because it goes round in circles or the time is over.
2. A call's beginning is told before it is made, and its end before anything is made of it.
3. What is raised is the operator's: `ConfigurationError` and `SandboxError`; then nothing is left under way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import anyio

from callgate.agent.events import CallBegan, CallEnded, CallProgress, CallsQueued, Faulted, FaultKind, ToolsFound
from callgate.agent.models.model import ToolCall, ToolReplies, ToolReply
from callgate.agent.routing.way_back import failure_of
from callgate.errors import ConfigurationError, SandboxError
from callgate.limits import Limits
from callgate.runtime import Answer, CodeResult, Conversation, PlanResult
from callgate.runtime.model.meta import META_TOOLS
from callgate.runtime.result import cut

from .event_log import EventLog

__all__ = ["MAX_MADE", "TurnCalls", "artifact_of"]

MAX_MADE = 64
"""Calls of a turn that are made; those beyond are answered with that."""
_GRACE_SECONDS = 2.0
"""So much longer than its own limit a call may take to be given up: a plan and a program say then what they have
done."""
_SEARCHES = ("search_tools", "describe_tools")
"""They have no limit of their own but the loader's, and nothing to say of a half."""
_BARRED = "no tool can be called in this task. Answer in words."
_TURN_CHARACTERS = 1_000_000
"""Of all results of a turn, about."""


class TurnCalls:
    """Makes the calls of turns.

    Args:
        log: who is told.
        conversation: who answers.
        offered: names of the tools that the model was offered in this turn; empty where it was told in words.
        described: names of the tools that its planner describes; empty without a planner.
        most_at_once: so many run at the same time.
        result_characters: of a result, at most; the rest is cut out of its middle.
        limits: of a call.
        seconds_left: of the budget, now.
        over: what of the budget is spent now, in words; empty where nothing is.
        barred: whether no tool can be called: then every call is answered with that.
        sandbox_may_fail: whether a call that finds no sandbox is answered, and not raised.
    """

    def __init__(
        self,
        log: EventLog,
        conversation: Conversation,
        *,
        offered: Sequence[str],
        described: Sequence[str] = (),
        most_at_once: int,
        result_characters: int,
        limits: Limits,
        seconds_left: Callable[[], float],
        over: Callable[[], str] = str,
        barred: bool = False,
        sandbox_may_fail: bool = False,
    ) -> None:
        self._log = log
        self._state = log.state
        self._conversation = conversation
        self._offered = frozenset(offered)
        self._described = frozenset(described)
        self._most = most_at_once
        self._characters = result_characters
        self._limits = limits
        self._seconds_left = seconds_left
        self._over = over
        self._barred = barred
        self._sandbox_may_fail = sandbox_may_fail
        self._raised: Exception | None = None
        self.tools_changed = False
        self.stopped = ""
        """Why the task is to end, where the guard said so."""

    async def make(self) -> ToolReplies:
        """Make the calls of the last turn that have not ended; the answers to all of its calls.

        Raises:
            ConfigurationError: the operator's mistake.
            SandboxError: no guest can be had.
        """
        state = self._state
        waiting = deque(state.unanswered)
        self._characters = min(self._characters, max(_TURN_CHARACTERS // max(len(state.open_calls), 1), 200))
        if surplus := list(waiting)[MAX_MADE:]:
            names = ", ".join(dict.fromkeys(call.name[:60] for call in surplus))[:500]
            self._fault("surplus", f"{len(surplus)} calls beyond {MAX_MADE}, of {names}", "told the model")
        for call in surplus:
            waiting.remove(call)
            self._end(call, f"Error: this call was not made: a turn has at most {MAX_MADE} calls. Make it in the next.")
        if len(waiting) > self._most:
            queued = tuple(call.id for call in list(waiting)[self._most :])
            self._log.add(CallsQueued(turn=state.turns, running=self._most, queued=queued))
        async with anyio.create_task_group() as group:

            async def work() -> None:
                try:
                    while waiting:
                        await self._one(waiting.popleft())
                except (ConfigurationError, SandboxError) as error:
                    self._raised = self._raised or error
                    group.cancel_scope.cancel()

            for _ in range(min(self._most, len(waiting))):
                group.start_soon(work)
        if self._raised is not None:
            raise self._raised
        return ToolReplies(replies=tuple(map(self._reply, state.open_calls)))

    def _reply(self, call: ToolCall) -> ToolReply:
        ended = self._state.ended[call.id]
        warning = self._state.warnings.get(call.id, "")
        text = f"{ended.text}\n{warning}" if warning else ended.text
        return ToolReply(id=call.id, name=call.name, text=text, ok=ended.ok)

    async def _one(self, call: ToolCall) -> None:
        if why := self._why_not():
            self._end(call, f"Error: this call was not made: {why}.")
            return
        written = call.written if call.fault else call.arguments
        verdict = self._state.repetition.before(call.name, written)
        if verdict.action in ("refuse", "stop"):
            stops = verdict.action == "stop"
            self._fault(verdict.fault or "loop", verdict.words, "ended" if stops else "refused the call")
            self.stopped = verdict.words if stops else ""
            self._end(call, verdict.words if verdict.words.startswith("Error") else f"Error: {verdict.words}")
            return
        started = anyio.current_time()
        self._log.add(CallBegan(turn=self._state.turns, id=call.id, name=call.name, arguments=call.arguments))
        if self._barred:
            text = f"Error: the call of {call.name[:60]!r} was not made: {_BARRED}"
            self._fault("unknown_tool", text, "told the model")
            self._end(call, text, failure="refused")
            return
        if call.fault:
            fault: FaultKind = "arguments" if self._is_known(call.name) else "unknown_tool"
            self._fault(fault, f"{call.name[:60]}: {call.fault[:500]}", "told the model")
            text = (
                f"Error: the arguments of {call.name[:60]!r} cannot be used: {call.fault[:500]}. The call was not made."
            )
            self._end(call, text, failure="refused")
            return
        came = await self._answer(call)
        if isinstance(came, SandboxError):
            answer = Answer(name=call.name[:256], text="Error: programs cannot be run here now.", ok=False)
        else:
            answer = came
            self._tell_faults(call, answer)
        if answer.tools_changed:
            self.tools_changed = True
            found = self._conversation.found
            self._log.add(ToolsFound(turn=self._state.turns, tools=found, state=self._conversation.state()))
        self._end(
            call,
            answer.text,
            ok=answer.ok,
            seconds=anyio.current_time() - started,
            mistake=answer.mistake,
            tool_calls=_tool_calls(answer),
            artifact=artifact_of(call.id, answer),
            failure=failure_of(came) or "",
        )
        verdict = self._state.verdict or verdict
        if verdict.action == "warn":
            self._fault(verdict.fault or "loop", verdict.words, "told the model")

    def _why_not(self) -> str:
        """Why no call is made any more; empty where they are."""
        if self.stopped:
            return "the task ends here"
        if self._seconds_left() <= 0:
            return "the time for this task is over"
        return self._over()

    async def _answer(self, call: ToolCall) -> Answer | SandboxError:
        if self._offered and call.name in META_TOOLS and call.name not in self._offered:
            return _mistake(call, f"Error: {call.name} is not in your list of tools")
        left = self._seconds_left()
        limits = self._limits
        if left < limits.wall_seconds:
            limits = limits.replace(wall_seconds=max(round(left, 3), 0.001))  # the model reads it
        turn = self._state.turns
        grace = 0.0 if call.name in _SEARCHES else _GRACE_SECONDS
        try:
            with anyio.move_on_after(limits.wall_seconds + grace):
                return await self._conversation.answer(
                    call.name,
                    call.arguments,
                    limits=limits,
                    on_event=lambda event: self._log.add(CallProgress(turn=turn, id=call.id, event=event)),
                )
        except SandboxError as error:
            self._fault("sandbox", str(error)[:500], "told the model" if self._sandbox_may_fail else "raised")
            if not self._sandbox_may_fail:
                raise
            return error
        text = "Error: the time was over before the call had ended: its outcome is unknown, it may have happened."
        return Answer(name=call.name[:256], text=text, ok=False)

    def _end(
        self,
        call: ToolCall,
        text: str,
        *,
        ok: bool = False,
        seconds: float = 0.0,
        mistake: bool = True,
        tool_calls: int = 0,
        artifact: Mapping[str, Any] | None = None,
        failure: str = "",
    ) -> None:
        self._log.add(
            CallEnded(
                turn=self._state.turns,
                id=call.id,
                name=call.name,
                ok=ok,
                text=cut(text, self._characters),
                seconds=seconds,
                mistake=mistake,
                tool_calls=tool_calls,
                artifact=artifact,
                failure=failure,
            )
        )

    def _tell_faults(self, call: ToolCall, answer: Answer) -> None:
        if answer.ok:
            return
        detail = f"{call.name[:60]}: {answer.text[:500]}"
        if call.name in META_TOOLS and self._offered and call.name not in self._offered:
            self._fault("unknown_tool", detail, "told the model")
        elif answer.name == "execute_tool_plan":  # a model may call it by another name
            self._fault("plan_failed", detail, "told the model")
        elif call.name == "execute_code":
            self._fault("program_failed", detail, "told the model")
        elif answer.mistake:
            self._fault("arguments" if self._is_known(call.name) else "unknown_tool", detail, "told the model")

    def _is_known(self, name: str) -> bool:
        return name in self._offered or name in self._described or (not self._described and name in META_TOOLS)

    def _fault(self, fault: FaultKind, detail: str, action: str) -> None:
        self._log.add(Faulted(turn=self._state.turns, fault=fault, detail=detail, action=action))


def artifact_of(id: str, answer: Answer) -> dict[str, Any] | None:
    """What people may want to see of a plan or a program, and the model need not; None of anything else."""
    match answer.result:
        case PlanResult() as run:
            return {"kind": "plan", "id": id, **run.to_dict()}
        case CodeResult() as run:
            return {"kind": "code", "id": id, **run.to_dict()}
        case _:
            return None


def _tool_calls(answer: Answer) -> int:
    match answer.result:
        case PlanResult() | CodeResult() as run:
            return len(run.calls)
        case None:
            return 0 if answer.mistake else 1
        case _:
            return 0


def _mistake(call: ToolCall, text: str) -> Answer:
    return Answer(name=call.name[:256], text=text, ok=False, mistake=True)
