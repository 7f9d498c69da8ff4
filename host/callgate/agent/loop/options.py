"""The options of an agent, checked, and the prices of models. Runs nothing.

Prices are the operator's own, or those of genai-prices' list, which is offline data: the one door of `genai_prices`.
The list is asked for the model's name at its SDK's own provider. A price that is not known is None, never 0.
"""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Annotated, Any, Literal, Protocol

from pydantic import AfterValidator, Field, SkipValidation
from pydantic_core import CoreSchema, core_schema

from callgate.agent.checked import check, has
from callgate.agent.events import AgentEvent
from callgate.agent.models.model import Message, Model, ModelProvider, Reply, Request, ToolReplies, Usage
from callgate.agent.routing.offers import mode_of
from callgate.errors import ConfigurationError
from callgate.extras import how_to_install
from callgate.limits import Limits
from callgate.runtime import Runtime
from callgate.runtime.discovery.loading import Loader
from callgate.runtime.final_answer import AnswerCheck, AnswerType
from callgate.runtime.model.meta import MetaTool
from callgate.runtime.sync.runtime import SyncRuntime

from .budget import Budget

__all__ = ["AgentOptions", "Answerer", "Discovery", "TurnPlanner", "cost_of"]

Discovery = Literal["filter", "interrupt", "none"]
"""How a model comes to see tools: those that it finds become visible in the next turn; the task is interrupted, for an
agent made anew; or it sees all from the beginning."""

MAX_TASK_CHARACTERS = 1_000_000
_MILLION = 1_000_000


class Answerer(Protocol):
    """Answers a query by a plan of tool calls made beforehand: `callgate.agent.PlannedAnswerer`."""

    @property
    def answer(self) -> Callable[..., Any]:
        """`PlannedAnswerer.answer`, with its arguments."""


class TurnPlanner(Protocol):
    """Plans one turn after the other; keeps nothing between them."""

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The tools that the model has, by the names that it knows. It has no others."""

    @property
    def max_parallel_tool_calls(self) -> int:
        """The most calls of a turn that run at the same time; others wait."""

    def request(self, messages: Sequence[Message], context: Mapping[str, Any]) -> Request:
        """The request for the next turn.

        Args:
            messages: the conversation so far; the first is the task.
            context: what the planner may tell the model besides: ``strategic_plan`` (a JSON value).
        """

    def read(self, reply: Reply) -> Reply:
        """The reply with its calls as calls, however the model wrote them."""

    def tell(self, replies: ToolReplies) -> Message:
        """The results of the calls, as a message of the conversation."""


def _several(names: Any) -> Any:
    if isinstance(names, str) and names != "all":
        raise ValueError("it must be names of tools")
    return names


def _awaits_nothing(given: Any) -> Any:
    if inspect.iscoroutinefunction(given):
        raise ValueError("it is called and not awaited: it must not be an async function")
    return given


def _json(value: Any) -> Any:
    try:
        size = len(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"it must be a JSON value: {str(error)[:100]}") from None
    if size > MAX_TASK_CHARACTERS:
        raise ValueError(f"it has at most {MAX_TASK_CHARACTERS} characters as JSON")
    return value


_Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Names = Annotated[Collection[str], AfterValidator(_several)]
_IS_MODEL = has("ask", "model_named('openai:gpt-5')")
_IS_PLANNER = has("request", "ReActPlanner(read_config('agent.yaml'), model, runtime.registry)")
_IS_ANSWERER = has("answer", "PlannedAnswerer(ToolPlanner(runtime, model), ToolOrchestrator(runtime), model)")


class _RuntimeField:
    """The field `runtime`: also takes a `SyncRuntime`, and is then the `Runtime` inside it."""

    def __get__(self, options: object, owner: type) -> Runtime:
        if options is None:
            raise AttributeError("runtime")  # so dataclasses see no default
        runtime: Runtime = vars(options)["runtime"]
        return runtime

    def __set__(self, options: object, given: Runtime | SyncRuntime) -> None:
        vars(options)["runtime"] = given.runtime if isinstance(given, SyncRuntime) else given

    @classmethod
    def __get_pydantic_core_schema__(cls, kind: Any, handler: Any) -> CoreSchema:
        return core_schema.is_instance_schema(Runtime)


@dataclass(frozen=True, repr=False, eq=False)
class AgentOptions:
    """The options of an agent; see `Agent`."""

    model: Annotated[Model, SkipValidation, _IS_MODEL]
    runtime: _RuntimeField = _RuntimeField()
    _: KW_ONLY
    mode: Annotated[str, AfterValidator(mode_of)] = "auto"
    system: Annotated[str, Field(max_length=MAX_TASK_CHARACTERS)] = ""
    budget: Budget = field(default_factory=Budget)
    planner: Annotated[TurnPlanner | None, SkipValidation, _IS_PLANNER] = None
    answerer: Annotated[Answerer | None, SkipValidation, _IS_ANSWERER] = None
    strategic_plan: Annotated[Any, AfterValidator(_json)] = None
    discovery: Discovery = "filter"
    loader: Loader | None = None
    tools: _Names | None = None
    direct: _Names | Literal["all"] | None = None
    tool_choice: str = "auto"
    transcript: str | os.PathLike[str] | None = None
    on_event: Annotated[Callable[[AgentEvent], None] | None, AfterValidator(_awaits_nothing)] = None
    stream: bool = True
    max_parallel_tool_calls: Annotated[int, Field(ge=1, le=1_000)] = 8
    temperature: _Dollars | None = None
    max_output_tokens: Annotated[int, Field(ge=1)] | None = None
    max_result_characters: Annotated[int, Field(ge=200, le=1_000_000)] = 40_000
    limits: Limits | None = None
    price: tuple[_Dollars, _Dollars] | None = None
    texts: Mapping[MetaTool, str] = field(default_factory=dict)
    pictures: bool = True
    output_type: Annotated[Any, SkipValidation] = None
    answer_checks: Annotated[Sequence[AnswerCheck], SkipValidation] = ()
    one_turn: Literal["offer", "require", "off"] = "off"
    background: bool = False

    def __post_init__(self) -> None:
        check(self)
        _ = self.answer_type  # raises where the type cannot be described
        if self.loader is not None and self.discovery == "none":
            raise ConfigurationError("a loader is asked by searches: it needs discovery='filter' or 'interrupt'")
        if self.budget.cost is not None and self.cost(Usage(input_tokens=1)) is None:
            raise ConfigurationError(
                f"a budget of cost needs a price, and that of {self.model.name!r} is not known: give "
                "price=(input, output), dollars for a million tokens, or install the list of prices: "
                f"{how_to_install('agent')}"
            )

    @cached_property
    def answer_type(self) -> AnswerType:
        """What an answer must be."""
        return AnswerType(Any if self.output_type is None else self.output_type, self.answer_checks)

    @property
    def is_typed(self) -> bool:
        """Whether the model's own words are looked at."""
        return self.output_type is not None or bool(self.answer_checks)

    def cost(self, usage: Usage, model: tuple[ModelProvider, str] | None = None) -> float | None:
        """Dollars for that usage, of the agent's own model or of another one; None where the price is not known."""
        return cost_of(self.price, *(model or (self.model.provider, self.model.name)), usage)


def cost_of(
    price: tuple[float, float] | None, provider: ModelProvider, model: str, usage: Usage
) -> float | None:  # fmt: skip
    """Dollars for that usage; None where the price is not known.

    Args:
        price: ``(input, output)`` in dollars for a million tokens, whatever the model; None: the list's.
        provider: of the model's SDK.
        model: its name.
        usage: by the endpoint's count.
    """
    if price is not None:
        return (usage.input_tokens * price[0] + usage.output_tokens * price[1]) / _MILLION
    try:
        import genai_prices
    except ModuleNotFoundError:
        return None
    counted = genai_prices.Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=min(usage.cached_input_tokens, usage.input_tokens),
    )
    try:
        return float(genai_prices.calc_price(counted, model, provider_id=provider).total_price)
    except LookupError:
        return None
