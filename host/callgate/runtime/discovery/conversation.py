"""One model's conversation: shows the model the tools that it has found and no others, and loads more tools.

1. *Filter*: every tool is registered. The model sees the meta-tools, `direct`, and the tools that `search_tools` and
   `describe_tools` found in this conversation. It cannot call another tool by itself.
2. *Interrupt*: a search first asks `loader` for tools from elsewhere, which only this conversation has. If the list of
   tools has changed, the answer says so (`Answer.tools_changed`). The loop then makes new `tool_definitions`, or ends
   its agent, keeps `state()`, and resumes with another agent.
3. Conversations share nothing, artifacts included. Only the lessons of searches (words of queries, names of tools)
   belong to the runtime, which serves one tenant. A state from outside teaches only what is found again.
4. Visible is not allowed: `tools` says which tools the conversation has, and the gate says who may call them.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

import anyio

from callgate.artifacts import Shelf
from callgate.errors import ConfigurationError, ToolError
from callgate.limits import Limits
from callgate.runtime.answer import Answer
from callgate.runtime.answers import Answers, CallOptions, ModelCall
from callgate.runtime.final_answer import AnswerType
from callgate.runtime.gate.events import Event
from callgate.runtime.model.decoding import decoded
from callgate.runtime.model.definitions import Beside, ModelTools
from callgate.runtime.model.meta import ALL_META_TOOLS, META_TOOLS, DefinitionOptions, MetaTool, checked_options
from callgate.runtime.model.providers import Provider
from callgate.runtime.result import CodeResult
from callgate.runtime.session import Session
from callgate.runtime.writing import Writing

from .found import SearchResult, entry
from .loading import LoadedTools, Loader
from .memory import ConversationState, credit, queries_of, teach

if TYPE_CHECKING:
    from callgate.runtime.plans.writing import PlanWriting
    from callgate.runtime.runtime import Runtime

__all__ = ["Conversation", "Loader"]

MAX_LOADED_SHOWN = 20
"""Most loaded tools that one search makes visible; further ones can be searched for."""

_FIXED = ("tools", "direct", "meta")
"""Options that say what the model has, and so what it may call."""
_FIND: dict[str, str] = {"search_tools": "finds", "describe_tools": "describes"}
"""The meta-tools that make tools visible, and their verbs."""


class Conversation:
    """One conversation of one model; made by `Runtime.conversation`.

    An async context manager, which has to be entered if it has a `loader` or a `session`. Leaving it ends its session
    and those of its runs in the background that are not durable, and forgets its artifacts.
    """

    def __init__(
        self,
        runtime: Runtime,
        options: DefinitionOptions,
        *,
        state: Mapping[str, Any] | None,
        loader: Loader | None,
        loader_seconds: float,
        session: bool,
        grows: bool,
        limits: Limits | None,
        artifacts: Shelf | None = None,
        final_answer: AnswerType | None = None,
        owner: str | None = None,
    ) -> None:
        checked_options(options)
        if limits is not None and not isinstance(limits, Limits):
            raise ConfigurationError("limits must be Limits, for instance Limits(wall_seconds=10)")
        if loader is not None and not callable(loader):
            raise ConfigurationError("loader must be an async function of a search's words: async def load(query)")
        self.runtime = runtime
        """The `Runtime` of the conversation."""
        self._options = options
        self._final_answer = final_answer
        self._state = ConversationState.from_json(state)
        self._loaded = None if loader is None else LoadedTools(runtime.registry, loader, loader_seconds)
        self._own_runs = owner is None
        self._owner = f"conversation_{secrets.token_hex(16)}" if owner is None else owner
        self._own_artifacts = artifacts is None
        self.artifacts = runtime.artifacts.shelf() if artifacts is None else artifacts
        """Files and pictures that its programs and tools produced. No other conversation can use their handles."""
        own = runtime if self._loaded is None else runtime._over(self._loaded.registry)
        self._over = own._for(self.artifacts)
        """A runtime with the tools and the artifacts of this conversation."""
        self._limits = runtime.limits if limits is None else limits
        changed = own is not runtime or self._limits != runtime.limits
        self._answers = Answers(self._over, self._limits) if changed else runtime._answers.over(self._over)
        self._definitions = self._answers.definitions
        self._has_session = session
        self._session: Session | None = None
        self._exits = contextlib.AsyncExitStack()
        self._opening = anyio.Lock()
        self._meta: Collection[MetaTool] = options.get("meta", META_TOOLS)
        self._finds = next((name for name in _FIND if name in self._meta), None)
        self._grows = grows and self._finds is not None
        self._may_read = grows and "read_artifact" not in self._meta
        self._reads = self._may_read and len(self.artifacts) > 0
        """Whether the model's list has `read_artifact`, which comes with the first artifact."""
        self._entered = self._left = False

    async def __aenter__(self) -> Conversation:
        if self._entered:
            raise ConfigurationError("this conversation was entered already; make a new one")
        self.runtime._contexts.must_be_open()
        self._entered = True
        for search in self._state.searches:
            if search.loaded and self._loaded is not None:
                await self._loaded.load(search.query)
        return self

    async def __aexit__(self, *error: Any) -> None:
        self._left = True
        await self._end_session()
        if self._loaded is not None:
            await self._over._close()
        if self._own_runs and "start_code" in self._meta:
            from callgate.runtime.background import end_runs

            await end_runs(self.runtime, self._owner)
        if self._own_artifacts:
            self.artifacts.clear()

    # what the model sees

    @property
    def found(self) -> tuple[str, ...]:
        """Names of the found tools that the model can call, in the order of their definitions."""
        shown = self._shown()
        return tuple(name for name in self._state.found if name in shown)

    def tool_definitions(self, provider: Provider, **options: Unpack[DefinitionOptions]) -> list[dict[str, Any]]:
        """The definitions for the model's next turn: see `Runtime.tool_definitions`. Found tools come last.

        Args:
            provider: whose form.
            options: replace options of the conversation; `tools`, `direct` and `meta` cannot change.
        """
        for name in _FIXED:
            if name in options:
                raise ConfigurationError(f"a conversation keeps its {name}: pass {name}=... to Runtime.conversation")
        merged: DefinitionOptions = {**self._now(), **options}
        return self._definitions.make(provider, merged, self._beside)

    def tool_choice(self, provider: Provider, choice: str, *, parallel: bool | None = None) -> dict[str, Any]:
        """See `Runtime.tool_choice`."""
        return self._tools().choice(provider, choice, parallel)

    def tool_result(self, provider: Provider, answer: Answer, call_id: str) -> dict[str, Any]:
        """See `Runtime.tool_result`."""
        return self._answers.message(provider, answer, call_id, self._now(), self._beside)

    def tool_results(self, provider: Provider, answers: Mapping[str, Answer]) -> list[dict[str, Any]]:
        """See `Runtime.tool_results`."""
        return self._answers.messages(provider, answers, self._now(), self._beside)

    def instructions(self) -> str:
        """See `Runtime.instructions`."""
        return self._tools().instructions()

    def state(self) -> dict[str, Any]:
        """The found tools and the searches, as JSON values, for `Runtime.conversation(state=...)`.

        Variables of a session are not part of it. The state gives no rights, and may be stored anywhere.
        """
        return self._state.to_json()

    # what the model calls

    async def handle(self, name: str, arguments: Mapping[str, Any] | str | None, **options: Any) -> str:
        """Answer a model's call with text: see `answer`, whose text it is."""
        return (await self.answer(name, arguments, **{**options, "pictures": False})).text

    async def answer(
        self, name: str, arguments: Mapping[str, Any] | str | None, **options: Unpack[CallOptions]
    ) -> Answer:
        """Answer a model's call: see `Runtime.answer`.

        A search makes its found tools visible; `Answer.tools_changed` and the text say if some are new. A call of a
        tool that is not visible here is refused, and the refusal says how to find the tool.
        """
        return await self._answer(name, arguments, options)

    async def _answer(
        self,
        name: str,
        arguments: Mapping[str, Any] | str | None,
        options: CallOptions,
        written: Writing | PlanWriting | None = None,
    ) -> Answer:
        """See `answer`. `written`: the program or plan of the call, if it began while the model wrote it."""
        self._must_be_open()
        meta = (*self._meta, "read_artifact") if self._may_read else self._meta
        more: CallOptions = {"limits": options.get("limits") or self._limits, "final_answer": self._final_answer}
        call = replace(ModelCall.of(None, meta, {**options, **more}), written=written, owner=self._owner)
        if self._loaded is not None:
            self._loaded.refresh()
        hidden = self._hidden(str(name))
        if hidden is not None:
            return hidden
        note = ""
        loaded: tuple[str, ...] = ()
        if name == "search_tools" and self._loaded is not None:
            note, loaded = await self._loaded.load(*_queries(arguments))
        elif name == "execute_code" and self._has_session and call.session is None:
            session, note = await self._open_session()
            call = replace(call, session=session)
        answer = await self._answers.answer(name, arguments, replace(call, tools=self._within))
        await self._learn(answer)
        if isinstance(answer.result, SearchResult):
            answer = self._with_loaded(answer, answer.result, loaded)
        return self._noted(answer, note)

    # inside

    def _begins_early(self, name: str) -> bool:
        """Whether what a call of that meta-tool brings can begin while it is written."""
        if name == "execute_tool_plan":
            return self.runtime._approve_plan is None
        return name == "execute_code" and not self._has_session and self.runtime._path != "sandbox"

    def _writing(
        self, name: str, on_event: Callable[[Event], None], after: Sequence[CodeResult] = ()
    ) -> contextlib.AbstractAsyncContextManager[Writing | PlanWriting]:
        """Begin a program or a plan that the model still writes; `_answer` finishes it."""
        self._must_be_open()
        within, limits, answer = self._within, self._limits, self._final_answer
        if name == "execute_tool_plan":
            return self._over._writing_plan(within, limits, on_event, None, answer)
        return self._over._writing(
            tools=within, limits=limits, on_event=on_event, final_answer=answer, after=after or None
        )

    def _must_be_open(self) -> None:
        self.runtime._contexts.must_be_open()
        if self._left:
            raise ConfigurationError("this conversation was left already; make a new one, with state=...")
        if not self._entered and (self._loaded is not None or self._has_session):
            raise ConfigurationError(
                "enter the conversation first: async with runtime.conversation(...) as conversation"
            )

    def _hidden(self, given: str) -> Answer | None:
        """The refusal of a call of a tool that the model does not see; None if the gate decides."""
        if given in ALL_META_TOOLS:
            if given in self._meta or (given == "read_artifact" and self._reads):
                return None
            return Answer(name=given, text=f"Error: {given} is not in your list of tools", ok=False, mistake=True)
        name = self._answers.names.resolve(given)
        if name is None or name in self._shown():
            return None
        tool = self._over.registry.get(name)
        if "direct" not in tool.allowed_callers or not self._allows(name):
            return None  # the gate has better words for it
        way = ""
        if self._grows and self._finds is not None:
            way = f"; {self._finds} makes the tools that it {_FIND[self._finds]} part of your list"
        text = f"Error: the tool {given[:60]!r} is not in your list of tools{way}"
        return Answer(name=name, text=text, ok=False, mistake=True)

    async def _learn(self, answer: Answer) -> None:
        """Teach the search which of its found tools were called with success."""
        among, searches = self._answers.reachable(self._within), self._state.searches
        if answer.name in ALL_META_TOOLS:
            await teach(self._over.search, searches, getattr(answer.result, "calls", ()), among)
        elif answer.ok:
            await credit(self._over.search, searches, answer.name, among)

    def _with_loaded(self, answer: Answer, result: SearchResult, loaded: tuple[str, ...]) -> Answer:
        """The answer to a search with all tools that were loaded for it, whatever their rank."""
        more = [name for name in loaded if name not in answer.found and self._allows(name)][:MAX_LOADED_SHOWN]
        found = (*answer.found, *more)
        words = result.matched is None  # patterns teach nothing
        for query in result.queries:
            by_query = [each.tool.name for each in result.found if each.query == query]
            self._state.add_search(query, (*by_query, *more) if words else (), loaded=bool(loaded))
        if not more:
            return answer
        lines = [answer.text] if answer.found else []
        lines.append("Loaded for this search:")
        registry = self._over.registry
        lines += [entry(registry.get(name), registry.callable_name(name), "signatures") for name in more]
        return replace(answer, text="\n".join(lines), found=found)

    def _noted(self, answer: Answer, note: str) -> Answer:
        """The answer with the tools that became visible, and with a note."""
        lines = [answer.text, note] if note else [answer.text]
        new: list[str] = []
        if answer.found and self._grows:
            direct = self._definitions.of({**self._now(), "direct": "all"}).names()
            shown = self._definitions.of(self._now()).names()
            new = self._state.add_found(name for name in answer.found if name in direct)
            new = [self._answers.names.of(name) for name in new if name not in shown]
        if self._may_read and not self._reads and len(self.artifacts):
            self._reads = True
            new.append("read_artifact")
        if new:
            listed = ", ".join(new)
            lines.append(f"Your list of tools has changed. From your next turn on you can also call: {listed}.")
        return replace(answer, text="\n".join(lines), tools_changed=bool(new))

    def _allows(self, name: str) -> bool:
        within = self._within
        return within is None or name in within

    def _shown(self) -> Collection[str]:
        """Names of the tools with definitions of their own."""
        return self._tools().names()

    def _tools(self) -> ModelTools:
        return self._definitions.of(self._now(), self._beside)

    @property
    def _within(self) -> Collection[str] | None:
        """Names of the tools of this conversation: those in the operator's option `tools`, and the loaded ones."""
        allowed = self._options.get("tools")
        if allowed is None:
            return None
        named = frozenset(self._answers.names.resolve(name) or name for name in allowed)
        return named if self._loaded is None else named.union(self._loaded.own)

    def _now(self) -> DefinitionOptions:
        """The options, with the tools of this moment."""
        if self._loaded is not None:
            self._loaded.refresh()
        now: DefinitionOptions = {**self._options, "tools": self._within}
        return now

    @property
    def _beside(self) -> Beside:
        return Beside(tuple(self._state.found), self._grows, self._has_session, self._reads, self._final_answer)

    async def _open_session(self) -> tuple[Session, str]:
        """The session of programs, opened if there is none or it has ended; and a line for the model in the latter
        case. Raises `SandboxError`."""
        async with self._opening:
            note = ""
            if self._session is not None and not self._session.alive:
                await self._end_session()
                note = "Note: the variables of earlier programs are gone: the process that held them has ended."
            if self._session is None:
                self._session = await self._exits.enter_async_context(self._over.session(limits=self._limits))
                if self._left:  # left while the session was opening
                    await self._end_session()
                    self._must_be_open()
            return self._session, note

    async def _end_session(self) -> None:
        self._session = None
        await self._exits.aclose()


def _queries(arguments: Any) -> list[str]:
    """The queries of a search; none if the arguments have none."""
    try:
        given = decoded("search_tools", arguments, 1 << 20)
    except ToolError:
        return []
    return queries_of(given.get("query") if isinstance(given, Mapping) else None)
