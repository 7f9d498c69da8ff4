"""The offer of tools to a model during a task: a conversation of the runtime in the current mode, with discovery.

*Filter*: the tools are the runtime's, and visible are those that the mode shows and those that were found. *Interrupt*
and a loader begin with the search alone. Where the mode changes, the conversation is made anew, with what was found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import anyio

from callgate.agent.events import Mode
from callgate.agent.routing.offers import offer_of
from callgate.agent.routing.way_back import META_OF
from callgate.errors import ConfigurationError
from callgate.runtime import Conversation
from callgate.runtime.model.foreign import ModelNames
from callgate.runtime.model.meta import BACKGROUND, META_TOOLS, DefinitionOptions

from .options import AgentOptions

__all__ = ["Offering", "names_of"]


class Offering:
    """The offer of one run. `open` it, and `close` it.

    Args:
        options: of the agent.
        owner: whose the runs in the background are.
    """

    def __init__(self, options: AgentOptions, owner: str) -> None:
        self._options = options
        self._owner = owner
        self._conversation: Conversation | None = None
        self.artifacts = options.runtime.artifacts.shelf()
        """Files and pictures that the task's programs and tools produced."""
        self.meta: tuple[str, ...] = ()
        """The meta-tools that are offered now."""

    @property
    def conversation(self) -> Conversation:
        """The current conversation."""
        assert self._conversation is not None
        return self._conversation

    @property
    def requires_program(self) -> bool:
        """Whether the answer has to come from a program or a plan: the agent requires it, and the model has one."""
        return self._options.one_turn == "require" and not set(META_OF.values()).isdisjoint(self.meta)

    async def open(self, mode: Mode, state: Mapping[str, Any] | None) -> None:
        """Offer the tools of a mode; close the earlier offer.

        Raises:
            ConfigurationError: an option of the agent is wrong.
        """
        if self._conversation is not None:
            state = self._conversation.state()
            await self._leave()
        options = self._options
        offer = self._offer(mode)
        made = options.runtime.conversation(
            state=state, loader=options.loader, limits=options.limits, artifacts=self.artifacts,
            final_answer=None if options.one_turn == "off" else options.answer_type, owner=self._owner, **offer
        )  # fmt: skip
        self.meta = tuple(offer["meta"])
        self._conversation = made  # to be closed, also where it is cancelled while it loads tools again
        await made.__aenter__()

    async def close(self) -> None:
        """Close the conversation and end its runs, also where the run is cancelled."""
        await self._leave()
        if self._options.background:
            from callgate.runtime.background import end_runs

            await end_runs(self._options.runtime, self._owner)

    async def _leave(self) -> None:
        open_one, self._conversation = self._conversation, None
        if open_one is not None:
            with anyio.CancelScope(shield=True):
                await open_one.__aexit__(None, None, None)

    def definitions(self) -> list[dict[str, Any]]:
        """Definitions of everything that is offered, in the form of the model's provider."""
        return self.conversation.tool_definitions(self._options.model.provider)

    def _offer(self, mode: Mode) -> DefinitionOptions:
        options = self._options
        if options.planner is not None:
            offer = self._described(options.planner.tool_names)
        else:
            names = options.runtime.registry.names() if options.tools is None else options.tools
            search = {"none": False, "interrupt": True}.get(options.discovery, None if options.loader is None else True)
            if options.direct is not None and options.discovery != "none":
                search = options.direct != "all"
            offer = offer_of(mode, tools=len(names), sandbox=self._has_sandbox(), search=search)
            if options.direct is not None:
                offer["direct"] = options.direct
        if options.tools is not None:
            offer["tools"] = options.tools
        if options.background and "execute_code" in offer["meta"]:
            offer["meta"] = (*offer["meta"], *BACKGROUND)
        if texts := {name: text for name, text in options.texts.items() if name in offer["meta"]}:
            offer["texts"] = texts
        return offer

    def _has_sandbox(self) -> bool:
        try:
            return self._options.runtime.backend is not None
        except ConfigurationError:
            return False

    def _described(self, names: Sequence[str]) -> DefinitionOptions:
        """The meta-tools among these names, and the tools among them that exist and that a model may call itself."""
        registry, tools = self._options.runtime.registry, self._options.tools
        resolve = ModelNames(registry).resolve
        within = None if tools is None else {resolve(name) or name for name in tools}
        there = dict.fromkeys(name for each in names if (name := resolve(each)) is not None)
        direct = tuple(
            name
            for name in there
            if "direct" in registry.get(name).allowed_callers and (within is None or name in within)
        )
        return {"meta": tuple(name for name in META_TOOLS if name in names), "direct": direct}


def names_of(definitions: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Names of the tools that are defined, in order, whatever the provider's form."""
    return tuple(str(each.get("function", each).get("name", "")) for each in definitions)
