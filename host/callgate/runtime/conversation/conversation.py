"""A model's conversation. Knows which tools the model has found, shows it these and no others, and loads more.

1. *Filter*: every tool is registered, and the model is shown the meta-tools, `direct`, and what `search_tools` and
   `describe_tools` found in this conversation. A tool that it was not shown it cannot call by itself.
2. *Interrupt*: a search asks `loader` for tools from elsewhere first. They are this conversation's own. When the list
   of tools has changed, the answer says so (`Answer.tools_changed`); the loop goes on with `tool_definitions` made
   anew, or ends its agent, keeps `state()`, and resumes with another one.
3. Nothing here is shared between conversations. What a search taught is the runtime's: words of queries and names of
   tools, of the one tenant that a runtime serves. A state that came back teaches only what is found again.
4. Visible is not allowed: `tools` says which tools there are, and the gate who may call them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Unpack

from callgate.errors import ConfigurationError, ToolError
from callgate.limits import Limits
from callgate.runtime.core import Core
from callgate.runtime.gate.events import Event
from callgate.runtime.model.answer import Answer
from callgate.runtime.model.answers import Answers, Call, caller_of
from callgate.runtime.model.choice import tool_choice
from callgate.runtime.model.clean import one_line, sentence_of
from callgate.runtime.model.decoding import decoded
from callgate.runtime.model.definitions import Definitions
from callgate.runtime.model.messages import tool_result
from callgate.runtime.model.meta import META_TOOLS
from callgate.runtime.model.names import ModelNames
from callgate.runtime.model.options import DefinitionOptions, Provider, checked_options
from callgate.runtime.session import Session
from callgate.tools import Registry

from .kept_session import KeptSession
from .learning import teach
from .loaded import LoadedTools
from .loading import Loader, Loading
from .state import ConversationState

__all__ = ["Conversation", "Loader"]

MAX_LOADED_SHOWN = 20
"""Of the tools that a loader gives for one search, so many become visible at once; the others can be searched for."""

_KEPT = ("tools", "direct", "meta")
"""Options that say what the model has, and so what it may call."""
_FIND: dict[str, str] = {"search_tools": "finds", "describe_tools": "describes"}
"""What makes tools visible, and which."""


@dataclass(frozen=True, kw_only=True, slots=True)
class House:
    """What a runtime gives its conversations."""

    core: Core
    core_over: Callable[[Registry], Core]
    """Another one, over another registry."""
    names: ModelNames
    definitions: Definitions
    must_be_open: Callable[[], None]
    runtime: object
    """The runtime itself, for `Conversation.runtime`."""


class Conversation:
    """One conversation of one model; made by `Runtime.conversation`.

    An async context manager: it has to be entered where it has a `loader` or a `session`. Leaving it ends its session.
    """

    def __init__(
        self,
        house: House,
        options: DefinitionOptions,
        *,
        state: Mapping[str, Any] | None,
        loader: Loader | None,
        loader_seconds: float,
        session: bool,
        grows: bool,
        limits: Limits | None,
    ) -> None:
        checked_options(options)
        if limits is not None and not isinstance(limits, Limits):
            raise ConfigurationError("limits must be Limits, for instance Limits(wall_seconds=10)")
        if loader is not None and not callable(loader):
            raise ConfigurationError("loader must be an async function of a search's words: async def load(query)")
        self._house = house
        self._options = options
        self._allowed = options.get("tools")
        self._state = ConversationState.from_json(state)
        self._loaded = None if loader is None else LoadedTools(house.core.registry)
        self._loading = None
        if loader is not None and self._loaded is not None:
            self._loading = Loading(loader, loader_seconds, self._loaded)
        self._core = house.core if self._loaded is None else house.core_over(self._loaded.registry)
        self._limits = self._core.limits if limits is None else limits
        self._names = house.names if self._loaded is None else ModelNames(self._core.registry)
        self._definitions = house.definitions
        if self._core is not house.core or self._limits != house.core.limits:
            self._definitions = Definitions(
                self._core.registry,
                self._names,
                self._limits,
                self._core.language_of_programs,
                lambda: self._core.python,
            )
        self._answers = Answers(self._core, self._names)
        self._session = KeptSession(self._core, self._limits) if session else None
        self._meta = options.get("meta", META_TOOLS)
        self._finds = next((name for name in _FIND if name in self._meta), None)
        self._grows = grows and self._finds is not None
        self._entered = False
        self._left = False

    async def __aenter__(self) -> Conversation:
        if self._entered:
            raise ConfigurationError("this conversation was entered already; make a new one")
        self._house.must_be_open()
        self._entered = True
        for search in self._state.searches:
            if search.loaded and self._loading is not None:
                await self._loading.load(search.query)
        return self

    async def __aexit__(self, *error: Any) -> None:
        self._left = True
        if self._session is not None:
            await self._session.close()
        if self._loaded is not None:
            await self._core.close()

    @property
    def runtime(self) -> object:
        """The `Runtime` whose conversation this is."""
        return self._house.runtime

    # what the model is told

    @property
    def found(self) -> tuple[str, ...]:
        """Names of the tools that were found, and that the model can call, in the order in which it is shown them."""
        self._refresh()
        chosen = self._definitions.direct(self._now, self._state.found)
        return tuple(name for name in self._state.found if name in chosen)

    def tool_definitions(self, provider: Provider, **options: Unpack[DefinitionOptions]) -> list[dict[str, Any]]:
        """What to hand to the model now: see `Runtime.tool_definitions`. Found tools come last, oldest first.

        Args:
            provider: whose form.
            options: instead of those that the conversation was made with; `tools`, `direct` and `meta` cannot change.
        """
        self._refresh()
        return self._definitions.make(
            provider,
            self._merged(options),
            found=self._state.found,
            grows=self._grows,
            session=self._session is not None,
        )

    def tool_choice(self, provider: Provider, choice: str, *, parallel: bool | None = None) -> dict[str, Any]:
        """See `Runtime.tool_choice`."""
        self._refresh()
        return chosen_tool(self._definitions, self._names, provider, choice, self._now, parallel, self._state.found)

    def tool_result(self, provider: Provider, answer: Answer, call_id: str) -> dict[str, Any]:
        """See `Runtime.tool_result`."""
        deferred = self._definitions.deferred(provider, self._now, self._state.found)
        return tool_result(provider, answer, call_id, references=[deferred[n] for n in answer.found if n in deferred])

    def instructions(self) -> str:
        """See `Runtime.instructions`."""
        self._refresh()
        return self._definitions.instructions(self._now, grows=self._grows, session=self._session is not None)

    def state(self) -> dict[str, Any]:
        """What the conversation knows, as JSON values, for `Runtime.conversation(state=...)`: which tools were found,
        and by which searches. No variables of a session. It gives no rights, and may be kept anywhere."""
        return self._state.to_json()

    # what the model calls

    async def handle(self, name: str, arguments: Mapping[str, Any] | str | None, **options: Any) -> str:
        """Answer a model's call with text: see `answer`, whose text it is."""
        return (await self.answer(name, arguments, **options)).text

    async def answer(
        self,
        name: str,
        arguments: Mapping[str, Any] | str | None,
        *,
        caller: str = "direct",
        limits: Limits | None = None,
        on_event: Callable[[Event], None] | None = None,
        session: Session | None = None,
    ) -> Answer:
        """Answer a model's call: see `Runtime.answer`.

        A search makes what it found visible; `Answer.tools_changed` says whether anything was new, and so does the
        text. A call of a tool that this conversation has not made visible is refused, in words that say how to find it.
        """
        self._must_be_open()
        call = Call(
            caller=caller_of(caller),
            tools=self._within,
            meta=self._meta,
            limits=self._limits if limits is None else limits,
            on_event=on_event,
            session=session,
        )
        self._refresh()
        if (hidden := self._hidden(str(name))) is not None:
            return hidden
        note = ""
        loaded: tuple[str, ...] = ()
        if name == "search_tools" and self._loading is not None:
            note, loaded = await self._loading.load(_query(_given(arguments)))
        elif name == "execute_code" and self._session is not None and session is None:
            own, note = await self._session.open()
            call = replace(call, session=own)
        answer = await self._answers.answer(name, arguments, call)
        await teach(self._core.search, self._core.registry, self._state, answer, self._answers.reachable(self._within))
        if name == "search_tools" and answer.ok:
            answer = self._with_loaded(answer, _given(arguments), loaded)
        return self._noted(answer, note)

    # inside

    def _merged(self, options: DefinitionOptions) -> DefinitionOptions:
        for kept in _KEPT:
            if kept in options:
                raise ConfigurationError(f"a conversation keeps its {kept}: say {kept}=... to Runtime.conversation")
        merged: DefinitionOptions = {**self._now, **options}
        return merged

    def _refresh(self) -> None:
        if self._loaded is not None:
            self._loaded.refresh()

    def _must_be_open(self) -> None:
        self._house.must_be_open()
        if self._left:
            raise ConfigurationError("this conversation was left already; make a new one, with state=...")
        if not self._entered and (self._loading is not None or self._session is not None):
            raise ConfigurationError(
                "enter the conversation first: async with runtime.conversation(...) as conversation"
            )

    def _hidden(self, given: str) -> Answer | None:
        """The refusal of a call of a tool that the model was not shown; None where it may go on to the gate."""
        if given in META_TOOLS:
            if given in self._meta:
                return None
            return Answer(name=given, text=f"Error: {given} is not in your list of tools", ok=False, mistake=True)
        name = self._names.resolve(given)
        if name is None or name in self._definitions.direct(self._now, self._state.found):
            return None
        tool = self._core.registry.get(name)
        if "direct" not in tool.allowed_callers or not self._allows(name):
            return None  # the gate has better words for it
        way = ""
        if self._grows and self._finds is not None:
            way = f"; {self._finds} makes the tools that it {_FIND[self._finds]} part of your list"
        return Answer(
            name=name, text=f"Error: the tool {given[:60]!r} is not in your list of tools{way}", ok=False, mistake=True
        )

    def _with_loaded(self, answer: Answer, given: Mapping[str, Any], loaded: tuple[str, ...]) -> Answer:
        """The answer to a search with what was loaded for it, whatever the ranking thinks of that."""
        more = [name for name in loaded if name not in answer.found and self._allows(name)][:MAX_LOADED_SHOWN]
        found = (*answer.found, *more)
        words = not given.get("regex")  # of a pattern nothing can be learned
        self._state.add_search(_query(given), found if words else (), loaded=bool(loaded))
        lines = [answer.text] if answer.found or not more else []
        if more:
            lines.append("Loaded for this search:")
        names = self._core.registry.callable_names()
        from callgate.tools.stubs import signature

        for name in more:
            tool = self._core.registry.get(name)
            lines.append(f"{one_line(signature(tool, names[name]), 600)}\n    {sentence_of(tool.description, 160)}")
        return replace(answer, text="\n".join(lines), found=found)

    def _allows(self, name: str) -> bool:
        within = self._within
        return within is None or name in within

    @property
    def _within(self) -> Collection[str] | None:
        """Names of the tools that there are here: those that the operator said, and what the operator's loader gave."""
        if self._allowed is None:
            return None
        named = frozenset(self._names.resolve(name) or name for name in self._allowed)
        return named if self._loaded is None else named.union(self._loaded.own)

    @property
    def _now(self) -> DefinitionOptions:
        """The options, with these tools."""
        now: DefinitionOptions = {**self._options, "tools": self._within}
        return now

    def _noted(self, answer: Answer, note: str) -> Answer:
        """The answer, with what has become visible, and with a word on it."""
        lines = [answer.text, note] if note else [answer.text]
        changed = False
        if answer.found and self._grows:
            direct = self._definitions.direct({**self._now, "direct": "all"})
            new = self._state.add_found(name for name in answer.found if name in direct)
            shown = self._definitions.direct(self._now)
            new = [name for name in new if name not in shown]
            if new:
                changed = True
                listed = ", ".join(self._names.of(name) for name in new)
                lines.append(f"Your list of tools has changed. From your next turn on you can also call: {listed}.")
        return replace(answer, text="\n".join(lines), tools_changed=changed)


def chosen_tool(
    definitions: Definitions,
    names: ModelNames,
    provider: Provider,
    choice: str,
    options: DefinitionOptions,
    parallel: bool | None,
    found: Collection[str] = (),
) -> dict[str, Any]:
    """`tool_choice`, with a tool's name in any form. Raises `ConfigurationError` where the model has no such tool."""
    if choice in ("auto", "required", "none", *options.get("meta", META_TOOLS)):
        return tool_choice(provider, choice, parallel=parallel)
    name = names.resolve(choice)
    if name is None or name not in definitions.direct(options, tuple(found)):
        raise ConfigurationError(
            f"the model has no tool {choice!r} to choose; it is auto, required, none, a meta-tool, or a direct tool"
        )
    return tool_choice(provider, names.of(name), parallel=parallel)


def _given(arguments: Any) -> Mapping[str, Any]:
    """The arguments of a search; nothing where they are none."""
    try:
        given = decoded("search_tools", arguments, 1 << 20)
    except ToolError:
        return {}
    return given if isinstance(given, Mapping) else {}


def _query(given: Mapping[str, Any]) -> str:
    query = given.get("query")
    return query if isinstance(query, str) else ""
