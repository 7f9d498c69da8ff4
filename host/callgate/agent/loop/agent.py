"""`Agent`: a model, a runtime, and a task between them. Checks options, opens transcripts; the work is `TaskRun`'s."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Literal

from callgate.agent.events import AgentEvent, Finished, Resumed, TaskBegan
from callgate.agent.models.model import Message, Model, ToolReplies
from callgate.agent.react.turn_planner import TurnPlanner
from callgate.agent.routing.offers import mode_of
from callgate.errors import ConfigurationError
from callgate.limits import Limits
from callgate.runtime import Runtime
from callgate.runtime.discovery.loading import Loader
from callgate.runtime.model.meta import MetaTool

from .budget import Budget
from .event_log import EventLog
from .prices import Prices
from .result import AgentResult
from .resume import answer_unknown, rebuilt, seconds_of
from .setup import Answerer, Discovery, Setup
from .task_run import TaskRun, result_of
from .task_state import TaskState
from .transcript import Transcript

__all__ = ["Agent"]


class Agent:
    """Solves tasks with a model that calls tools: directly, as a plan, or as a program. May solve several at a time;
    works under asyncio and trio. The runtime has to be open, and neither it nor the model is closed.

    Args:
        model: who decides.
        runtime: the tools, and the gate that every call passes.
        mode: ``"direct"`` (or ``"individual"``): the model calls tools one by one; ``"plan"`` (or ``"declarative"``):
            or it hands over a plan; ``"code"``: or a program; ``"auto"``: or either, and rules recommend one. Whichever
            it is, the model chooses. A form that fails again and again is not offered any more.
        system: the operator's part of the system text.
        budget: what a task may spend.
        planner: asks the model in its own way, `ReActPlanner` for instance. It offers what it describes; there is no
            discovery, and no recommendation.
        answerer: first tries to answer the task by a plan made beforehand: `PlannedAnswerer`. Where that gives no
            answer, the model goes on with what was found.
        strategic_plan: what the task is part of, a JSON value: ``{"phases": [{"worker": "...", "goals": "..."}]}``. The
            model is told its first 1,500 characters.
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
        stream: whether, where somebody listens, the model's words are told as they come.
        max_parallel_tool_calls: so many calls of a turn run at the same time; more of them wait. 8 by default. With 1
            the model is asked for one call at a time. A planner has its own.
        temperature: None for the provider's default.
        max_output_tokens: of a reply; None for the model's own limit.
        max_result_characters: of a result as the model is told of it; of a longer one the middle is left out.
        limits: what a call, a plan or a program may spend, instead of the runtime's own.
        price: ``(input, output)`` in US dollars for a million tokens, instead of the list's.
        texts: descriptions of meta-tools instead of callgate's own.

    Raises:
        ConfigurationError: an option is wrong, or `budget` has a cost and the model's price is not known. What belongs
            to the runtime (names of tools, limits, texts) is looked at by `run`.
    """

    def __init__(
        self,
        model: Model,
        runtime: Runtime,
        *,
        mode: str = "auto",
        system: str = "",
        budget: Budget | None = None,
        planner: TurnPlanner | None = None,
        answerer: Answerer | None = None,
        strategic_plan: Any = None,
        discovery: Discovery = "filter",
        loader: Loader | None = None,
        tools: Collection[str] | None = None,
        direct: Collection[str] | Literal["all"] | None = None,
        tool_choice: str = "auto",
        transcript: str | os.PathLike[str] | None = None,
        on_event: Callable[[AgentEvent], None] | None = None,
        stream: bool = True,
        max_parallel_tool_calls: int | None = None,
        temperature: float | None = None,
        max_output_tokens: int | None = None,
        max_result_characters: int = 40_000,
        limits: Limits | None = None,
        price: tuple[float, float] | None = None,
        texts: Mapping[MetaTool, str] | None = None,
    ) -> None:
        self._setup = Setup(
            model=model,
            runtime=runtime,
            mode=mode_of(mode),
            system=system,
            budget=budget or Budget(),
            planner=planner,
            answerer=answerer,
            strategic_plan=strategic_plan,
            discovery=discovery,
            loader=loader,
            tools=tools,
            direct=direct,
            tool_choice=tool_choice,
            transcript=transcript,
            on_event=on_event,
            stream=stream,
            max_parallel_tool_calls=8 if max_parallel_tool_calls is None else max_parallel_tool_calls,
            temperature=temperature,
            max_output_tokens=max_output_tokens,
            max_result_characters=max_result_characters,
            limits=limits,
            prices=Prices(price),
            texts={str(name): text for name, text in (texts or {}).items()},
        )

    async def run(self, task: str) -> AgentResult:
        """Solve a task.

        Args:
            task: what is to be done, in words.

        Returns:
            What came of it, failures of the model and of tools included: see `Outcome`.

        Raises:
            ConfigurationError: an option is wrong, or the transcript cannot be written.
            SandboxError: the mode is ``code``, and no guest can be had.
        """
        setup = self._setup
        words = setup.checked_task(task)
        began = TaskBegan(
            task=words,
            mode=setup.mode,
            model=setup.model.name,
            system=setup.system,
            tools=tuple(setup.runtime.registry.names() if setup.tools is None else setup.tools),
            strategic_plan=setup.strategic_plan,
        )
        with ExitStack() as stack:
            transcript = None
            if setup.transcript is not None:
                transcript = Transcript.create(setup.transcript)
                stack.callback(transcript.close)
            log = EventLog(TaskState(self._tell), transcript, setup.on_event)
            log.add(began)
            return await TaskRun(setup, log).run()

    async def resume(self, source: str | os.PathLike[str] | AgentResult) -> AgentResult:
        """Go on with a task where it stopped: after an interruption, a spent budget, an endpoint that was not there, a
        killed process. The agent may have another model, and a larger budget: what was spent before counts.

        The task, its system text, its strategic plan and its mode are those of the transcript; tools, model and budget
        are this agent's. Calls that had begun and not ended are made again only where that can do no harm; the model is
        told of the others that they may have happened.

        Args:
            source: a transcript, which is appended to; or a result, whose transcript is, if it has one.

        Returns:
            What came of it. A task that was answered gives its answer again, and nothing is done or written.

        Raises:
            ConfigurationError: it is no transcript, is being written by another run, or as for `run`.
            SandboxError: as for `run`.
        """
        setup = self._setup
        with ExitStack() as stack:
            if isinstance(source, AgentResult) and source.transcript is None:
                state = rebuilt(source.events, self._tell, lambda place: f"the result, event {place + 1}")
                before = source.seconds
                transcript = None
                if setup.transcript is not None and source.outcome != "answered":
                    transcript = Transcript.create(setup.transcript)
                    stack.callback(transcript.close)
                    for event in source.events:
                        transcript.write(event)
            else:
                path = source.transcript if isinstance(source, AgentResult) else source
                assert path is not None
                transcript, lines = Transcript.resume(path)
                stack.callback(transcript.close)
                state = rebuilt([line.event for line in lines], self._tell, lambda place: f"{path}, line {place + 1}")
                before = seconds_of(lines)
            log = EventLog(state, transcript, setup.on_event)
            end = state.finished
            if end is not None and end.outcome == "answered":
                return result_of(log)
            began = state.began
            assert began is not None
            if setup.budget.cost is not None and state.cost is None:
                raise ConfigurationError(
                    "what this task has cost so far is not known, since the price of a model that it asked is not: a "
                    "budget in dollars cannot hold; bound tokens instead"
                )
            reason = end.outcome if isinstance(end, Finished) else "the run did not end"
            log.add(Resumed(turns=state.turns, model=setup.model.name, reason=reason))
            answer_unknown(log, setup.runtime, setup.tools, loads=setup.loader is not None)
            return await TaskRun(replace(setup, mode=began.mode), log, before).run()

    def _tell(self, replies: ToolReplies) -> Message:
        planner = self._setup.planner
        return replies if planner is None else planner.tell(replies)
