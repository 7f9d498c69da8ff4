"""`Agent`: a model, a runtime, and a task between them. Opens transcripts; the work is `TaskRun`'s."""

from __future__ import annotations

import os
import secrets
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any, Unpack

from callgate.agent.events import Resumed, TaskBegan
from callgate.agent.models.fitting import MAX_PICTURES
from callgate.agent.models.messages_json import pictures_in
from callgate.agent.models.model import Message, ToolReplies
from callgate.agent.routing.offers import mode_of
from callgate.errors import ConfigurationError
from callgate.runtime.pictures import pictures_of
from callgate.runtime.sync.elsewhere import wait_for
from callgate.tools import Tool
from callgate.tools.tool import ToolOptions

from .as_tool import tool_of
from .budget import Budget
from .event_log import CallHere, EventLog
from .options import MAX_TASK_CHARACTERS, AgentOptions
from .redacted import RedactedEvents
from .repairs import answer_lost
from .result import AgentResult, result_of
from .resume import answer_redacted, answer_unknown, rebuilt, seconds_of
from .task_run import TaskRun
from .task_state import TaskState
from .transcript import Line, Transcript

__all__ = ["Agent"]


class Agent(AgentOptions):
    """Solves tasks with a model that calls tools: directly, as a plan, or as a program. May solve several at a time;
    works under asyncio and trio, and without either (`run_sync`). The runtime has to be open, except for `run_sync`;
    neither it nor the model is closed.

    Args:
        model: who decides.
        runtime: the tools, and the gate that every call passes: a `Runtime` or a `SyncRuntime`.
        mode: ``"direct"`` (or ``"individual"``): the model calls tools one by one; ``"plan"`` (or ``"declarative"``):
            or it hands over a plan; ``"code"``: or a program; ``"auto"``: or either. In each, the model chooses.
            A form that fails again and again is withdrawn.
        system: the operator's part of the system text.
        budget: what a task may spend.
        planner: asks the model in its own way, `ReActPlanner` for instance. It offers the tools that it describes,
            without discovery.
        answerer: first tries to answer the task by a plan made beforehand: `PlannedAnswerer`. Where that gives no
            answer, the model goes on with what was found.
        strategic_plan: what the task is part of, a JSON value: ``{"phases": [{"worker": "...", "goals": "..."}]}``. The
            model receives its first 1,500 characters.
        discovery: ``"filter"``: where there are more than 30 tools, or with `direct` or `loader`, the model searches,
            and sees what it found from its next turn on. ``"interrupt"``: it begins with the search alone, and where it
            finds tools the task ends as ``interrupted``: `resume` it, with an agent made anew if need be.
            ``"none"``: it sees all tools.
        loader: gives tools from elsewhere to searches, see `Runtime.conversation`.
        tools: names of the tools that there are for the model; None for all.
        direct: names of the tools that it sees from the beginning, where it searches; ``"all"`` for all.
        tool_choice: ``"auto"``, ``"required"``, ``"none"``, or the name of a tool: until a tool was called, then
            ``auto``.
        transcript: a file that is not there yet, or a folder for files named by the time. None keeps none.
        on_event: called with each event, in the event loop and in order: it should be quick. What it raises is logged.
        stream: whether the model's replies are taken as they come: `on_event` receives the words, and programs begin
            their reads while the model writes them.
        max_parallel_tool_calls: calls of a turn that run at the same time; more of them wait. With 1 the model is asked
            for one call at a time. A planner has its own.
        temperature: None for the provider's default.
        max_output_tokens: of a reply; None for the model's own limit.
        max_result_characters: of a result as the model receives it; of a longer one the middle is left out.
        limits: what a call, a plan or a program may spend, instead of the runtime's own.
        price: ``(input, output)`` in US dollars for a million tokens, instead of the list's.
        texts: descriptions of meta-tools instead of callgate's own.
        pictures: whether the model receives the pictures that its programs, plans and tools make: the newest 20 of the
            conversation, scaled down. A model whose endpoint refuses them goes on without.
        output_type: the type of the answer, any annotation of a tool's parameter: `AgentResult.output` has a value of
            it. The model answers in JSON of the type. If the JSON does not fit, the model reads why and is asked again,
            twice at most.
        answer_checks: functions of the answer, sync or async, that raise `ValueError` with words for the model to
            refuse the answer: see `AnswerCheck`.
        one_turn: whether a program may end the task with ``final_answer(value)``, and a plan with its ``answer``:
            ``"offer"``; ``"require"`` also sends back an answer in words, twice at most; ``"off"``. The model looks
            again all the same if the program or a step failed, a call in it failed or was denied or its outcome is
            unknown, the program called a tool with effects after its answer, the answer is longer than
            `max_result_characters`, or there are other calls in the same turn.
        background: whether the model may start programs in the background, where it has programs: ``start_code``,
            ``wait_run`` and ``stop_run``. They end with the task; where the runtime is durable, they go on, and a task
            that is resumed finds them again.

    Raises:
        ConfigurationError: an option is wrong, or `budget` has a cost and the model's price is not known. What belongs
            to the runtime (names of tools, limits) is looked at by `run`.
    """

    async def run(self, task: str) -> AgentResult:
        """Solve a task.

        Args:
            task: what is to be done, in words.

        Returns:
            The result, failures of the model and of tools included: see `Outcome`.

        Raises:
            ConfigurationError: an option is wrong, or the transcript cannot be written.
            SandboxError: the mode is ``code``, and no guest can be had.
        """
        given: Any = task
        if not isinstance(given, str) or not given.strip():
            raise ConfigurationError("the task is what the model is to do, in words: await agent.run('...')")
        if len(task) > MAX_TASK_CHARACTERS:
            raise ConfigurationError(f"a task has at most {MAX_TASK_CHARACTERS} characters; this has {len(task)}")
        return await self._solved("callgate", task)

    async def _solved(
        self, name: str, task: str, outer: CallHere | None = None, budget: Budget | None = None
    ) -> AgentResult:
        began = TaskBegan(
            task=task,
            mode=mode_of(self.mode),
            model=self.model.name,
            system=self.system,
            tools=tuple(self.runtime.registry.names() if self.tools is None else self.tools),
            strategic_plan=self.strategic_plan,
            id=f"task_{secrets.token_hex(16)}",
        )
        with ExitStack() as stack:
            state = TaskState(self._message_of)
            log = EventLog(self, state, self._created(stack), name=name, outer=outer, budget=budget)
            log.add(began)
            return await TaskRun(log).run()

    def run_sync(self, task: str) -> AgentResult:
        """`run` for code without ``await``, notebooks included: waits for the result. Ctrl-C cancels the task.

        The task is solved in a background thread: in the one of a `SyncRuntime`, or in the event loop of another thread
        in which the runtime is open. A runtime that is closed is open for as long as the task takes.

        Raises:
            ConfigurationError: as for `run`; or the runtime is open in the event loop that this call would block.
            SandboxError: as for `run`.
        """
        return wait_for(self.runtime, lambda: self.run(task), "await agent.run(...)")

    def resume_sync(self, source: str | os.PathLike[str] | AgentResult) -> AgentResult:
        """`resume` for code without ``await``: see `run_sync`."""
        return wait_for(self.runtime, lambda: self.resume(source), "await agent.resume(...)")

    async def resume(self, source: str | os.PathLike[str] | AgentResult) -> AgentResult:
        """Go on with a task where it stopped: after an interruption, a spent budget, an endpoint that was not there, a
        killed process. The agent may have another model, and a larger budget: what was spent before counts.

        The task, its system text, its strategic plan and its mode are those of the transcript; tools, model and budget
        are this agent's. Calls that had begun and not ended are made again only where that can do no harm; of the
        others, the model reads that they may have happened.

        Args:
            source: a transcript, which is appended to; or a result, whose transcript is, if it has one.

        Returns:
            The result. A task that was answered gives its answer again, and nothing is done or written.

        Raises:
            ConfigurationError: it is not a transcript, is being written by another run, or as for `run`.
            SandboxError: as for `run`.
        """
        lines: list[Line] = []
        known = RedactedEvents(self.runtime)
        if isinstance(source, AgentResult) and source.redactor is not None:
            known.learn_from(RedactedEvents(source.redactor()))
        with ExitStack() as stack:
            if isinstance(source, AgentResult) and source.transcript is None:
                state = rebuilt(source.events, self._message_of, lambda place: f"the result, event {place + 1}")
                seconds = source.seconds
                transcript = None if source.ok else self._created(stack)
                if transcript is not None:
                    for event in source.events:
                        transcript.write(known.of(event))
            else:
                path = source.transcript if isinstance(source, AgentResult) else source
                assert path is not None
                transcript, lines = Transcript.resume(path)
                stack.callback(transcript.close)
                events = [line.event for line in lines]
                state = rebuilt(events, self._message_of, lambda place: f"{path}, line {place + 1}")
                seconds = seconds_of(lines)
            end = state.finished
            if end is not None and end.outcome == "answered":
                return result_of(state, transcript, self, known)
            if self.budget.cost is not None and state.cost is None:
                raise ConfigurationError(
                    "what this task has cost so far is not known, since the price of a model that it asked is not: a "
                    "budget in dollars cannot hold; bound tokens instead"
                )
            log = EventLog(replace(self, mode=state.task.mode), state, transcript, seconds, agent=self)
            log.redacted.learn_from(known)
            reason = "the run did not end" if end is None else end.outcome
            if isinstance(source, AgentResult) and self.pictures:
                await _show_again(source, log)
            log.add(Resumed(turns=state.turns, model=self.model.name, reason=reason))
            answer_unknown(log)
            answer_lost(log)
            if lines:
                answer_redacted(log)
            return await TaskRun(log).run()

    def as_tool(self, name: str, description: str, **options: Unpack[ToolOptions]) -> Tool:
        """A tool that hands a task to this agent: for the runtime of another agent, whose model, programs and plans
        call it with the task in words. It returns the agent's answer: a value of `output_type`, else a text.

        Inside a task of another agent, it runs on a part of that task's budget, which is reserved before it begins: its
        own budget, where nine tenths of what is left suffice for it, else half of what is left. What it does not use is
        free again. Its tokens, dollars and turns count in the outer task, and its events come to the outer `on_event`
        and transcript as `InnerEvent`. It is cancelled with its call. An agent cannot be called inside its own task.

        Its runtime may be that of the outer agent, or another one that is open in the same event loop.

        Args:
            name: of the tool.
            description: for the model: what the agent can do, and what a task has to say.
            options: of the tool: see `Tool`. With `read_only`, its calls may be repeated and cached, and never begin
                early. `timeout_seconds` is a little more than the seconds of the agent's budget, unless it is given.

        Raises:
            ConfigurationError: an option is wrong.
        """
        return tool_of(self, name, description, options, partial(self._solved, name))

    def _created(self, stack: ExitStack) -> Transcript | None:
        """Create the transcript that the options name; the stack closes it."""
        if self.transcript is None:
            return None
        made = Transcript.create(self.transcript)
        stack.callback(made.close)
        return made

    def _message_of(self, replies: ToolReplies) -> Message:
        return replies if self.planner is None else self.planner.tell(replies)


async def _show_again(source: AgentResult, log: EventLog) -> None:
    """Keep the newest pictures of the conversation whose artifacts the result still has."""
    there = {artifact.sha256: artifact for artifact in source.artifacts}
    shown = [each.sha256 for message in log.state.messages for each in pictures_in(message)]
    again = [there[each] for each in dict.fromkeys(reversed(shown)) if each in there][:MAX_PICTURES]
    log.keep((await pictures_of(again[::-1], MAX_PICTURES)).shown)
