"""What an agent is made of: its options, checked. Runs nothing."""

from __future__ import annotations

import inspect
import json
import math
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from callgate.agent.events import AgentEvent, Mode
from callgate.agent.models.model import Model
from callgate.agent.react.turn_planner import TurnPlanner
from callgate.errors import ConfigurationError
from callgate.limits import Limits
from callgate.runtime import Runtime
from callgate.runtime.discovery.loading import Loader

from .budget import Budget
from .prices import Prices

__all__ = ["Answerer", "Discovery", "Setup"]

Discovery = Literal["filter", "interrupt", "none"]
"""How a model comes to see tools: those that it finds become visible in the next turn; the task is interrupted, for an
agent made anew; or it sees all from the beginning."""
_DISCOVERIES = ("filter", "interrupt", "none")
_PLANNERS = (
    ("planner", "request", "ReActPlanner(read_config('agent.yaml'), model, runtime.registry)"),
    ("answerer", "answer", "PlannedAnswerer(ToolPlanner(runtime, model), ToolOrchestrator(runtime), model)"),
)
"""Who may plan, the method that tells them, and one that has it."""
_MOST_PARALLEL = 1_000
MAX_TASK_CHARACTERS = 1_000_000
MAX_RESULT_CHARACTERS = 1_000_000


class Answerer(Protocol):
    """Answers a query by a plan of tool calls made beforehand: `callgate.agent.PlannedAnswerer`."""

    @property
    def answer(self) -> Callable[..., Any]:
        """See there."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Setup:
    """The options of an agent; see `Agent`."""

    model: Model
    runtime: Runtime
    mode: Mode
    system: str = ""
    budget: Budget = field(default_factory=Budget)
    planner: TurnPlanner | None = None
    answerer: Answerer | None = None
    strategic_plan: Any = None
    discovery: Discovery = "filter"
    loader: Loader | None = None
    tools: Collection[str] | None = None
    direct: Collection[str] | Literal["all"] | None = None
    tool_choice: str = "auto"
    transcript: str | os.PathLike[str] | None = None
    on_event: Callable[[AgentEvent], None] | None = None
    stream: bool = True
    max_parallel_tool_calls: int = 8
    temperature: float | None = None
    max_output_tokens: int | None = None
    max_result_characters: int = 40_000
    limits: Limits | None = None
    prices: Prices = field(default_factory=Prices)
    texts: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not callable(getattr(self.model, "ask", None)):
            raise ConfigurationError(
                f"model must be a model, for instance model_named('openai:gpt-5'), not {self.model!r}"
            )
        if not isinstance(self.runtime, Runtime):
            raise ConfigurationError(f"runtime must be a callgate.Runtime, not {self.runtime!r:.100}")
        if not isinstance(self.budget, Budget):
            raise ConfigurationError("budget must be a Budget, for instance Budget(turns=10)")
        if self.discovery not in _DISCOVERIES:
            raise ConfigurationError(f"there is no discovery {self.discovery!r}; there are: {', '.join(_DISCOVERIES)}")
        if self.loader is not None and self.discovery == "none":
            raise ConfigurationError("a loader is asked by searches: it needs discovery='filter' or 'interrupt'")
        parallel: Any = self.max_parallel_tool_calls
        if isinstance(parallel, bool) or not isinstance(parallel, int) or not 1 <= parallel <= _MOST_PARALLEL:
            raise ConfigurationError(
                f"max_parallel_tool_calls is a whole number from 1 to {_MOST_PARALLEL}, not {parallel!r}"
            )
        self._check_numbers()
        self._check_values()
        if self.budget.cost is not None:
            self.prices.must_know(self.model.provider, self.model.name)

    def _check_numbers(self) -> None:
        most: Any = self.max_result_characters
        if isinstance(most, bool) or not isinstance(most, int) or not 200 <= most <= MAX_RESULT_CHARACTERS:
            raise ConfigurationError(
                f"max_result_characters is a whole number from 200 to {MAX_RESULT_CHARACTERS}, not {most!r}"
            )
        out: Any = self.max_output_tokens
        if out is not None and (isinstance(out, bool) or not isinstance(out, int) or out < 1):
            raise ConfigurationError(f"max_output_tokens is a whole number above 0, or None, not {out!r}")
        heat: Any = self.temperature
        if heat is not None and (
            isinstance(heat, bool) or not isinstance(heat, (int, float)) or not (math.isfinite(heat) and heat >= 0)
        ):
            raise ConfigurationError(f"temperature is a number of 0 or more, or None, not {heat!r}")

    def _check_values(self) -> None:
        for name in ("system", "tool_choice"):
            if not isinstance(getattr(self, name), str):
                raise ConfigurationError(f"{name} must be text, not {getattr(self, name)!r:.60}")
        for name in ("tools", "direct"):
            given = getattr(self, name)
            if given is None or (name == "direct" and given == "all"):
                continue
            names = isinstance(given, Collection) and all(isinstance(each, str) for each in given)
            if isinstance(given, str) or not names:
                raise ConfigurationError(f"{name} must be names of tools, not {given!r:.60}")
        for name in ("on_event", "loader"):
            if getattr(self, name) is not None and not callable(getattr(self, name)):
                raise ConfigurationError(f"{name} must be a function, not {getattr(self, name)!r:.60}")
        if inspect.iscoroutinefunction(self.on_event):
            raise ConfigurationError("on_event is called and not awaited: it must not be an async function")
        for name, method, instance in _PLANNERS:
            given = getattr(self, name)
            if given is not None and not callable(getattr(given, method, None)):
                said = f"{name} has to have a method {method}, as {instance} has; {type(given).__name__} has none"
                raise ConfigurationError(said)
        try:
            length = len(json.dumps(self.strategic_plan, allow_nan=False))
        except (TypeError, ValueError, RecursionError) as error:
            raise ConfigurationError(f"strategic_plan must be a JSON value: {str(error)[:200]}") from None
        if length > MAX_TASK_CHARACTERS or len(self.system) > MAX_TASK_CHARACTERS:
            raise ConfigurationError(f"system and strategic_plan have at most {MAX_TASK_CHARACTERS} characters each")

    def checked_task(self, task: Any) -> str:
        """The task, if it is one. Raises `ConfigurationError`."""
        if not isinstance(task, str) or not task.strip():
            raise ConfigurationError("the task is what the model is to do, in words: await agent.run('...')")
        if len(task) > MAX_TASK_CHARACTERS:
            raise ConfigurationError(f"a task has at most {MAX_TASK_CHARACTERS} characters; this has {len(task)}")
        return task
