"""`ReActPlanner`: which tools to call next, or the answer. One model, one configuration, no state between turns.

1. The model receives the descriptions as definitions, the system prompt with the strategic plan, the history, and the
   task. The descriptions alone decide which tools it can call.
2. There are two ways to use a planner. `plan` takes a task and a history, which it writes in words. As a `TurnPlanner`
   it serves a loop, which keeps the conversation; there calls and results have the provider's own form, with ids.
3. Where `use_function_calling` is false, both are text: see `text_form`.

Calls no tool: the caller makes the calls, through its gate.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from callgate.agent.models.fitting import fit
from callgate.agent.models.model import Assistant, Message, Model, Reply, Request, ToolCall, ToolReplies
from callgate.agent.models.traced import chat
from callgate.errors import ConfigurationError
from callgate.tools import Registry
from callgate.tools.faults import did_you_mean

from .actions import Action, Observation, actions_of, faulty, noted
from .config import DEFAULT_PARALLEL, WORDS, AgentConfig
from .messages import history_messages, system_text
from .schemas import ToolObjects, build_tools_schema, notes_on
from .text_calls import NO_ACTION, read_text, written_calls
from .text_form import as_text, history_as_text, instructions, results_as_text

__all__ = ["ReActPlanner"]


class ReActPlanner:
    """Decides with a model which tools to call, turn by turn.

    Args:
        config: as `read_config` gives it.
        model: that decides.
        registry: the tools that are at hand, for the types of their arguments: a `Registry`, or see `ToolObjects`.
            Without, every argument is a text.

    Raises:
        ConfigurationError: the tool that has to be called is not described, or the schema of a tool cannot be had.
    """

    def __init__(self, config: AgentConfig, model: Model, registry: ToolObjects | None = None) -> None:
        if not isinstance(config, AgentConfig):
            raise ConfigurationError(
                f"config is a {type(config).__name__}: give what read_config('agent.yaml') makes of the file"
            )
        self.config = config
        self.model = model
        self._planner = config.planner
        self._gateway = None if config.gateway is None else config.gateway.config
        self._tools: ToolObjects | None = registry
        if registry is not None and not isinstance(registry, Registry | Mapping):
            self._tools = tuple(registry)
        self._choice = config.tool_choice(model.provider)
        if self._choice not in (*WORDS, *self.tool_names):
            hint = did_you_mean(self._choice, (*self.tool_names, *WORDS))
            raise ConfigurationError(f"tool_choice is {self._choice!r}, and no such tool is described{hint}")
        if self._choice == "required" and not self.tool_names:
            raise ConfigurationError("tool_choice is required, and no tool is described")
        self.tools_schema()

    @property
    def tool_names(self) -> tuple[str, ...]:
        """All tools of the model, in the order of the configuration."""
        return tuple(each.name for each in self._planner.tool_descriptions)

    @property
    def max_parallel_tool_calls(self) -> int:
        """The most calls of a turn that run at the same time; others wait."""
        return self._planner.max_parallel_tool_calls or DEFAULT_PARALLEL

    @property
    def notes(self) -> tuple[str, ...]:
        """A sentence for each description that does not fit its tool."""
        return notes_on(self._planner.tool_descriptions, self._tools)

    def tools_schema(self) -> list[dict[str, Any]]:
        """The definitions that the model is given, in its provider's form."""
        return self._schema(self.model.provider)

    # a task and a history

    async def plan(
        self, task: str, history: Iterable[object] = (), context: Mapping[str, Any] | None = None
    ) -> list[Action] | str:
        """Ask the model what to do next.

        Args:
            task: in the user's words.
            history: `Action`s and `Observation`s so far, oldest first.
            context: what it is part of: ``strategic_plan``, a JSON value.

        Returns:
            The calls to make, all of them: those that cannot be made have a fault. Or the answer, as text.

        Raises:
            ModelError: there was no answer of the model.
        """
        entries = list(history)
        tell = history_messages if self._planner.use_function_calling else history_as_text
        actions = [each for each in entries if isinstance(each, Action)]
        called = any(isinstance(each, Observation) for each in entries) and (
            not actions or any(not each.fault for each in actions)
        )
        request = self._request(tell(task, entries), context or {}, called=called)
        reply = fit(self.read(await chat(self.model, request)), request)
        return actions_of(reply) or reply.turn.text.strip() or reply.refusal

    # a turn of a loop

    def request(self, messages: Sequence[Message], context: Mapping[str, Any]) -> Request:
        """The request for the next turn.

        Args:
            messages: the conversation so far; the first is the task.
            context: what it is part of: ``strategic_plan``, a JSON value.

        Raises:
            ConfigurationError: the strategic plan is not a JSON value.
        """
        called = any(isinstance(each, Assistant) and any(not call.fault for call in each.calls) for each in messages)
        native = self._planner.use_function_calling
        return self._request(tuple(messages) if native else as_text(messages), context, called=called)

    def read(self, reply: Reply) -> Reply:
        """The reply with its calls as calls, however the model wrote them. One that was cut or refused stays."""
        if reply.ended in ("cut", "refused", "empty"):
            return reply
        if reply.turn.calls:
            calls = self._allowed(reply.turn.calls)
            return reply if calls == reply.turn.calls else replace(reply, turn=replace(reply.turn, calls=calls))
        text = reply.turn.text
        known = self._known()
        if self._planner.use_function_calling:
            calls = self._allowed(written_calls(text, known))
            return _calling(reply, calls, "") if calls else reply
        written = read_text(text, known)
        if written.calls:
            return _calling(reply, self._allowed(written.calls), written.kept)
        turn = Assistant(text=written.answer)
        return replace(reply, turn=turn, ended="answered" if written.answer else "empty")

    def tell(self, replies: ToolReplies) -> Message:
        """The results of the calls, as a message of the conversation; with a word on those that had to wait."""
        most = self.max_parallel_tool_calls
        if not self._planner.use_function_calling:
            return results_as_text(replies, most=most)
        return ToolReplies(replies=noted(replies.replies, most))

    # inside

    def _request(self, messages: Sequence[Message], context: Mapping[str, Any], *, called: bool) -> Request:
        choice = self._choice
        gateway = self._gateway
        if choice not in ("auto", "none") and called and (gateway is None or gateway.reset_tool_choice):
            choice = "auto"
        system = system_text(self._planner.system_prompt, context)
        temperature, most_tokens = (None, None) if gateway is None else (gateway.temperature, gateway.max_output_tokens)
        if not self._planner.use_function_calling:
            how = instructions(self._schema("openai"), choice, self.max_parallel_tool_calls)
            system = f"{system}\n\n{how}" if system else how
            return Request(messages=messages, system=system, temperature=temperature, max_output_tokens=most_tokens)
        tools = self.tools_schema()
        return Request(
            messages=messages,
            system=system,
            tools=tools,
            tool_choice=choice if tools else "auto",
            parallel=False if self.max_parallel_tool_calls == 1 and tools else None,
            temperature=temperature,
            max_output_tokens=most_tokens,
        )

    def _schema(self, provider: Any) -> list[dict[str, Any]]:
        return build_tools_schema(self._planner.tool_descriptions, self._tools, provider)

    def _known(self) -> dict[str, Mapping[str, Any]]:
        """Schemas of the arguments, by the names that the model knows."""
        return {each["function"]["name"]: each["function"]["parameters"] for each in self._schema("openai")}

    def _allowed(self, calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
        """The calls; those of tools that the model does not have get a fault."""
        return tuple(map(self._checked, calls))

    def _checked(self, call: ToolCall) -> ToolCall:
        if call.fault and call.name == NO_ACTION:
            return call
        if self._choice == "none":
            return faulty(replace(call, fault=""), "no tool may be called here: answer in words")
        if call.name in self.tool_names:
            return call
        names = self.tool_names
        listed = did_you_mean(call.name, names) or f"; you have: {', '.join(names[:20])}"
        return faulty(replace(call, fault=""), f"you have no tool {call.name[:64]!r}{listed}")


def _calling(reply: Reply, calls: tuple[ToolCall, ...], text: str) -> Reply:
    return replace(reply, turn=Assistant(text=text, calls=calls), ended="calls")
