"""Reads a task back from its events, to go on with it, and decides about calls that had begun and not ended.

A call that was under way when its process ended may have happened. Tools that may be repeated (`read_only`,
`idempotent`) are called again, searches too; plans, programs and agents only where all tools that they can call are
`read_only`: a program that reads a value and sets the next one does more the second time, though each of its calls may
be repeated. An agent that is called again begins its task anew; what it had spent before counts. Any other call is not
made again, and the model reads that its outcome is unknown. A call whose arguments had secrets is not made either: the
transcript does not have the secrets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from callgate.agent.events import AgentEvent, CallEnded, Finished, Resumed, TaskBegan
from callgate.agent.models.model import Assistant, Message, ToolCall, ToolReplies, User
from callgate.errors import ConfigurationError

from .as_tool import only_reads
from .event_log import EventLog
from .options import AgentOptions
from .redacted import has_redacted
from .repairs import LOST
from .task_state import TaskState
from .transcript import Line

__all__ = [
    "NOT_MADE",
    "OUTCOME_UNKNOWN",
    "answer_redacted",
    "answer_unknown",
    "rebuilt",
    "seconds_of",
    "words_to_go_on",
]

OUTCOME_UNKNOWN = (
    "Error: this call had begun when the agent was interrupted, and its outcome is unknown: it may have happened. It "
    "was not made again. Find out what became of it before you call it again."
)
NOT_MADE = (
    "Error: this call was not made when the task went on: its arguments have secrets, which are not in the transcript "
    "([redacted] stands in their places). Make it again with the values, if you can get them; otherwise say what is "
    "missing."
)
_GO_ON = "Go on with the task."
_AGAIN = "The task goes on: this is not your last turn any more, and tools can be called again."
_ANOTHER_WAY = "Now it goes on. Try another way, or answer with what you have."
_LOOKING = ("search_tools", "describe_tools")
_RUNS = {"execute_tool_plan": "plan", "execute_code": "code"}


def rebuilt(
    events: Iterable[AgentEvent], message_of: Callable[[ToolReplies], Message], where: Callable[[int], str]
) -> TaskState:
    """The state of a task, folded from its events.

    Args:
        events: of a transcript, in order.
        message_of: see `TaskState`.
        where: names the place of an event, for messages.

    Raises:
        ConfigurationError: there are none, or one cannot follow those before it.
    """
    state = TaskState(message_of)
    for place, event in enumerate(events):
        try:
            state.apply(event)
        except ValueError as error:
            raise ConfigurationError(f"{where(place)}: this cannot come here: {error}") from None
    if state.began is None:
        raise ConfigurationError(f"{where(0)}: there is no task in it")
    return state


def seconds_of(lines: Sequence[Line]) -> float:
    """The seconds that the runs of these lines took: from the first line to the last of each run; or the seconds of the
    last end, if they are more: the lines of a result that was first kept in memory were all written at once."""
    total = 0.0
    for before, line in zip([None, *lines], lines, strict=False):
        if before is not None and not isinstance(line.event, (TaskBegan, Resumed)):
            total += max((line.at - before.at).total_seconds(), 0.0)  # a clock may have been set back
        if isinstance(line.event, Finished):
            total = max(total, line.event.seconds)
    return total


def words_to_go_on(state: TaskState, last_words: str, *, is_last: bool) -> str:
    """The words for the model where a task goes on; empty where the conversation says it.

    Args:
        state: of the task.
        last_words: the words for the model in the last turn that a budget allows.
        is_last: the next one is that.
    """
    words = _words(state, last_words, is_last=is_last) if state.resumed else ""
    return "\n".join(each for each in (LOST if state.lost else "", words) if each)


def _words(state: TaskState, last_words: str, *, is_last: bool) -> str:
    stopped = state.stopped
    if stopped is not None and stopped.outcome == "stuck":
        return f"The task was stopped: {stopped.reason[:500]}. {_ANOTHER_WAY}"
    if not is_last and any(isinstance(each, User) and each.text == last_words for each in state.messages[-2:]):
        return _AGAIN
    return _GO_ON if isinstance(state.messages[-1], Assistant) else ""


def answer_unknown(log: EventLog) -> None:
    """Answer the calls that had begun, had not ended, and may not be made again."""
    state = log.state
    for call in state.unanswered:
        if call.id in state.begun and not call.fault and not _repeatable(call, log.options):
            log.add(
                CallEnded(turn=state.turns, id=call.id, name=call.name, ok=False, text=OUTCOME_UNKNOWN, seconds=0.0)
            )


def answer_redacted(log: EventLog) -> None:
    """Answer the calls whose arguments are not in the transcript as they were."""
    state = log.state
    for call in state.unanswered:
        if has_redacted(call.arguments) and not call.fault:
            log.add(
                CallEnded(
                    turn=state.turns, id=call.id, name=call.name, ok=False, text=NOT_MADE, seconds=0.0,
                    tool_calls=0,
                )
            )  # fmt: skip


def _repeatable(call: ToolCall, options: AgentOptions) -> bool:
    if call.name in _LOOKING:
        return True
    registry = options.runtime.registry
    if caller := _RUNS.get(call.name):
        known = None if options.tools is None else {registry.resolve(name) or name for name in options.tools}
        reach = [tool for tool in registry if caller in tool.allowed_callers and (known is None or tool.name in known)]
        return options.loader is None and all(map(only_reads, reach))
    name = registry.resolve(call.name)
    return name is not None and (registry.get(name).repeatable or only_reads(registry.get(name)))
