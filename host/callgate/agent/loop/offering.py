"""What a model is offered during a task: a conversation of the runtime in the mode of the moment, and discovery.

*Filter*: the tools are the runtime's, and visible are those that the mode shows and those that were found. *Interrupt*
and a loader begin with the search alone. Where the mode changes, the conversation is made anew, with what was found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import anyio

from callgate.agent.events import Mode
from callgate.agent.routing.offers import offer_of
from callgate.errors import ConfigurationError
from callgate.runtime import Conversation
from callgate.runtime.model.foreign import ModelNames
from callgate.runtime.model.meta import META_TOOLS, DefinitionOptions, MetaTool

from .setup import Setup

__all__ = ["Offering", "has_sandbox", "names_of"]


def has_sandbox(setup: Setup) -> bool:
    """Whether programs can run in a sandbox."""
    try:
        return setup.runtime.backend is not None
    except ConfigurationError:
        return False


class Offering:
    """The offer of one run. `open` it, and `close` it."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._conversation: Conversation | None = None
        self._mode: Mode | None = None
        self.meta: tuple[str, ...] = ()
        """The meta-tools that are offered now."""

    @property
    def conversation(self) -> Conversation:
        """The conversation of now."""
        assert self._conversation is not None
        return self._conversation

    async def open(self, mode: Mode, state: Mapping[str, Any] | None) -> None:
        """Offer what belongs to the mode; what was offered before is closed. Nothing happens where that is the mode
        already.

        Raises:
            ConfigurationError: an option of the agent is wrong.
        """
        if mode == self._mode:
            return
        if self._conversation is not None:
            state = self._conversation.state()
            await self.close()
        setup = self._setup
        options = self._options(mode)
        made = setup.runtime.conversation(state=state, loader=setup.loader, limits=setup.limits, **options)
        self.meta = tuple(options["meta"])
        self._conversation = made  # to be closed, also where it is cancelled while it loads tools again
        await made.__aenter__()
        self._mode = mode

    async def close(self) -> None:
        """Close the conversation, whoever is cancelled."""
        open_one, self._conversation, self._mode = self._conversation, None, None
        if open_one is not None:
            with anyio.CancelScope(shield=True):
                await open_one.__aexit__(None, None, None)

    def definitions(self) -> list[dict[str, Any]]:
        """Of all that is offered, in the form of the model's provider."""
        return self.conversation.tool_definitions(self._setup.model.provider)

    def _options(self, mode: Mode) -> DefinitionOptions:
        setup = self._setup
        names = setup.runtime.registry.names() if setup.tools is None else setup.tools
        search: bool | None = None
        if setup.discovery == "none" or setup.planner is not None:
            search = False
        elif setup.discovery == "interrupt" or setup.loader is not None:
            search = True
        if setup.direct is not None and setup.discovery != "none" and setup.planner is None:
            search = setup.direct != "all"
        offer = offer_of(mode, tools=len(names), sandbox=has_sandbox(setup), search=search)
        if setup.planner is not None:
            offer["meta"], offer["direct"] = self._described(setup.planner.tool_names)
        elif setup.direct is not None:
            offer["direct"] = setup.direct
        if setup.tools is not None:
            offer["tools"] = setup.tools
        if unknown := [name for name in setup.texts if name not in META_TOOLS]:
            raise ConfigurationError(f"there is no meta-tool {unknown[0][:60]!r}; there are: {', '.join(META_TOOLS)}")
        if setup.texts:
            offer["texts"] = {name: text for name, text in setup.texts.items() if name in offer["meta"]}  # type: ignore[misc]
        return offer

    def _described(self, names: Sequence[str]) -> tuple[tuple[MetaTool, ...], tuple[str, ...]]:
        """The meta-tools among them, and the tools that there are and that a model may call itself."""
        registry = self._setup.runtime.registry
        resolve = ModelNames(registry).resolve
        there = dict.fromkeys(name for each in names if (name := resolve(each)) is not None)
        within = None if self._setup.tools is None else {resolve(name) or name for name in self._setup.tools}
        direct = tuple(
            name
            for name in there
            if "direct" in registry.get(name).allowed_callers and (within is None or name in within)
        )
        return tuple(name for name in META_TOOLS if name in names), direct


def names_of(definitions: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Names of the tools that are defined, in order, whatever the provider's form."""
    return tuple(str(_named(each).get("name", "")) for each in definitions)


def _named(definition: Mapping[str, Any]) -> Mapping[str, Any]:
    function = definition.get("function")
    named: Mapping[str, Any] = function if isinstance(function, Mapping) else definition
    return named
