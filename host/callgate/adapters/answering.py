"""The part of callgate that an adapter needs: definitions to show, and answers to give. A `Runtime` has both, and so
has a `Conversation`, which shows more tools as they are found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from callgate.errors import ConfigurationError
from callgate.runtime import Answer, Conversation, Event, Run, Runtime, SyncRuntime
from callgate.runtime.answers import CallOptions
from callgate.runtime.model import META_TOOLS, DefinitionOptions, Provider
from callgate.runtime.opening import in_its_loop, open_while

__all__ = ["Answering"]


class Answering:
    """A runtime, or a conversation, with the options that the operator gave.

    Args:
        source: who answers.
        options: what to define; those of a conversation are its own.
        provider: whose form definitions have.
        on_event: receives prints, steps, call starts and call ends as they happen.
        pictures: whether answers have pictures.

    Raises:
        ConfigurationError: an option is wrong, or comes with a conversation, which has its own.
    """

    def __init__(
        self,
        source: Runtime | Conversation,
        options: DefinitionOptions,
        provider: Provider,
        on_event: Callable[[Event], None] | None,
        *,
        pictures: bool = False,
    ) -> None:
        if isinstance(source, Conversation) and options:
            raise ConfigurationError(
                f"a conversation has its options: say {next(iter(options))}=... to runtime.conversation(...)"
            )
        given: Any = source
        if isinstance(given, SyncRuntime):
            raise ConfigurationError("frameworks take the Runtime of a SyncRuntime: pass runtime.runtime")
        if not isinstance(given, Runtime | Conversation):
            raise ConfigurationError(f"this is neither a Runtime nor a Conversation: {given!r}")
        runtime = source if isinstance(source, Runtime) else source.runtime
        assert isinstance(runtime, Runtime)
        self.runtime = runtime
        """The one that answers."""
        self._source = source
        self._options = options
        self._provider = provider
        self._on_event = on_event
        self._pictures = pictures
        self.definitions()

    def for_one(self) -> Answering:
        """An `Answering` for one conversation: tools that its searches find are shown to this conversation alone."""
        if isinstance(self._source, Conversation):
            return self
        conversation = self._source.conversation(**self._options)
        return Answering(conversation, {}, self._provider, self._on_event, pictures=self._pictures)

    def definitions(self) -> list[dict[str, Any]]:
        """The definitions to show the model now."""
        return self._source.tool_definitions(self._provider, **self._options)

    def instructions(self) -> str:
        """Instructions for choosing among the definitions."""
        if isinstance(self._source, Conversation):
            return self._source.instructions()
        return self._source.instructions(**self._options)

    async def answer(self, name: str, arguments: Mapping[str, Any] | str, *, caller: str = "direct") -> Answer:
        """Answer a call, in the event loop in which the runtime is open; one that is not open is opened for the call.

        Raises:
            CallgateError: the runtime cannot be entered.
        """
        async with open_while(self.runtime):
            return await in_its_loop(self.runtime, lambda: self._answer(name, arguments, caller))

    async def start(self, given: str | Mapping[str, Any], key: str) -> Run[Any]:
        """The durable run of that key, with the tools and limits of the source; made if there is none. Its approvals
        wait in `Runtime.runs`. To be called in the runtime's event loop.

        Raises:
            ConfigurationError: another program or plan has the key.
        """
        if isinstance(self._source, Conversation):
            tools, limits = self._source._within, self._source._limits
        else:
            tools, limits = self._options.get("tools"), None
        known = None if tools is None else sorted(name for name in tools if name in self.runtime.registry)
        return await self.runtime.runs.start(given, key=key, tools=known, limits=limits, asks_later=True)

    async def _answer(self, name: str, arguments: Mapping[str, Any] | str, caller: str) -> Answer:
        given: CallOptions = {"caller": caller, "on_event": self._on_event, "pictures": self._pictures}
        if isinstance(self._source, Conversation):
            return await self._source.answer(name, arguments, **given)
        tools, meta = self._options.get("tools"), self._options.get("meta", META_TOOLS)
        return await self._source.answer(name, arguments, tools=tools, meta=meta, **given)
