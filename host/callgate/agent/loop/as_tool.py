"""Agents as tools: a task inside a call of another task, on a part of its budget.

1. An inner task begins only where the outer budget has something left. Its part is computed and reserved without a wait
   in between, so that two that begin at once cannot have the same part; what it has not used is free when it ends.
2. An agent that is at work on a task cannot begin inside it again: neither by itself nor through another agent.
3. An inner task that ends without an answer is a failed call, in words for the model that made it. It runs in the call,
   so whatever cancels the call cancels it.
4. It begins when its caller comes to it, never earlier: with `read_only`, too.
5. Outside of any task, called by a program of `Runtime.execute_code` or an MCP client, an agent has its own budget.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Annotated, Any, Final

import anyio
from pydantic import Field

from callgate.agent.events import MAX_DEPTH
from callgate.agent.models.model import Usage
from callgate.errors import SandboxError, ToolError, ToolNotAllowed
from callgate.runtime.gate.cache import depends_on_the_caller
from callgate.tools import Tool
from callgate.tools.tool import ToolOptions

from .budget import NEARLY, Budget
from .event_log import CallHere, EventLog, call_here
from .options import MAX_TASK_CHARACTERS, AgentOptions
from .result import AgentResult

__all__ = ["Solve", "only_reads", "tool_of"]

logger = logging.getLogger("callgate")

Solve = Callable[[str, CallHere | None, Budget | None], Awaitable[AgentResult]]
"""Solves a task, in a call of another one, with a budget instead of the agent's own."""
_Task = Annotated[
    str,
    Field(
        pattern=r"\S",
        max_length=MAX_TASK_CHARACTERS,
        description="What the agent is to do, in words. It knows nothing but this: say all that it needs.",
    ),
]
_KEY: Final = "callgate_agent"
_SAID: Final = 2_000
"""Characters of the words of an agent that gave no answer."""
_LONGEST_SECONDS: Final = 86_400.0
"""Of a call, where the agent's budget has no seconds: without a timeout, a plan would give it 30."""


def tool_of(agent: AgentOptions, name: str, description: str, options: ToolOptions, solve: Solve) -> Tool:
    """The tool that hands tasks to an agent: see `Agent.as_tool`. Raises `ConfigurationError` for a wrong option."""

    async def ask(task: str) -> Any:
        outer = call_here.get()
        part = None if outer is None else _part(outer, agent, name)
        try:
            result = await solve(task, outer, part)
        except SandboxError as error:
            depends_on_the_caller()
            logger.warning("the agent %r could not go on: %s", name, error)
            raise ToolError(f"the agent {name!r} could not go on: its programs cannot be run here now") from None
        if not result.ok or result.reason:  # with another budget, it might have given another answer
            depends_on_the_caller()
        if not result.ok:
            said = f"; it said so far: {result.answer[:_SAID]}" if result.answer else ""
            raise ToolError(f"the agent {name!r} gave no answer ({result.outcome}): {result.reason[:_SAID]}{said}")
        return result.output if gives_values else result.answer

    gives_values = agent.is_typed or agent.one_turn != "off"
    returned = agent.output_type if agent.output_type is not None else Any if gives_values else str
    ask.__annotations__ = {"task": _Task, "return": returned}
    vars(ask)[_KEY] = agent
    seconds = agent.budget.seconds
    if "timeout_seconds" not in options:
        options["timeout_seconds"] = _LONGEST_SECONDS if seconds is None else seconds / NEARLY
    return replace(Tool.from_function(ask, name=name, description=description, **options), waits_its_turn=True)


def _part(outer: CallHere, agent: AgentOptions, name: str) -> Budget:
    """The agent's part of the budget of the task around it.

    Raises:
        ToolError: it cannot begin there; says why, and what to do instead.
    """
    if outer.is_over:
        raise ToolError(f"the agent {name!r} cannot begin: the call that asked for it is over")
    around = [outer.log, *_around(outer.log)]
    if any(each.agent is agent for each in around):
        depends_on_the_caller()
        raise ToolNotAllowed(
            f"the agent {name!r} is at work on this task already, and cannot be called inside of it, neither by itself "
            "nor by another agent: do this part without it"
        )
    if len(around) >= MAX_DEPTH:
        raise ToolNotAllowed(f"there are {MAX_DEPTH} agents inside each other already: do this part without {name!r}")
    log = outer.log
    rests = [each.budget.rest(each.spent) for each in log.inside]
    seconds = anyio.current_effective_deadline() - anyio.current_time()
    try:
        part = log.budget.part(agent.budget, log.spent, rests, seconds)
        if part.cost is not None and agent.cost(Usage(input_tokens=1)) is None:
            raise ValueError(f"the budget is in dollars, and the price of its model {agent.model.name!r} is not known")
    except ValueError as error:
        depends_on_the_caller()
        raise ToolError(f"the agent {name!r} was not asked: {error}; go on without it") from None
    return part


def _around(log: EventLog) -> Iterator[EventLog]:
    while log.outer is not None:
        log = log.outer.log
        yield log


def only_reads(tool: Tool, known: frozenset[AgentOptions] = frozenset()) -> bool:
    """Whether a call changes nothing: the tool is read-only, or an agent all of whose tools only read.

    Args:
        tool: the tool.
        known: the agents around it.
    """
    agent: AgentOptions | None = getattr(tool.function, _KEY, None)
    if tool.read_only or agent in known:  # an agent that is called inside itself is refused
        return True
    if agent is None or agent.loader is not None:
        return False
    registry = agent.runtime.registry
    names = None if agent.tools is None else {registry.resolve(each) or each for each in agent.tools}
    reach = [each for each in registry if names is None or each.name in names]
    return all(only_reads(each, known | {agent}) for each in reach)
