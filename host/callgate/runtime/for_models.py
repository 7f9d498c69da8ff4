"""The methods of a runtime for a model's host: definitions, stubs, prompts, search, answers, conversations."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Unpack, cast

from callgate.limits import Limits
from callgate.tools import Registry, Tool

if TYPE_CHECKING:  # imported at first use: a host that only runs programs needs none of them
    from callgate.artifacts import Shelf
    from callgate.sandbox.backend import Backend
    from callgate.sandbox.pool import WarmPool
    from callgate.search.learned import Learned

    from .answer import Answer
    from .answers import Answers, CallOptions
    from .context_task import ContextTask
    from .discovery.conversation import Conversation
    from .discovery.found import Described, SearchResult
    from .discovery.loading import Loader
    from .discovery.meaning import Meaning
    from .discovery.search import FindOptions, Query, ToolSearch
    from .final_answer import AnswerType
    from .model.meta import DefinitionOptions, MetaTool
    from .model.providers import Provider
    from .run import Language
    from .runtime import Runtime

__all__ = ["ForModels"]


class ForModels:
    """The methods of a `Runtime` for hosts of models."""

    registry: Registry
    limits: Limits
    _contexts: ContextTask
    _learned: Learned
    _meaning: Meaning | None
    _language: Language
    _sandbox: tuple[Backend, WarmPool] | None

    @cached_property
    def _answers(self) -> Answers:
        from .answers import Answers

        return Answers(cast("Runtime", self), self.limits)

    @cached_property
    def search(self) -> ToolSearch:
        """The search over the runtime's tools, with what it has learned and with the embedder."""
        from .discovery.search import ToolSearch

        return ToolSearch(self.registry, self._learned, self._meaning)

    def tool_definitions(self, provider: Provider, **options: Unpack[DefinitionOptions]) -> list[dict[str, Any]]:
        """The definitions for a model's request: the meta-tools, and the tools that the model may call itself.

        The same tools and options give the same bytes. The runtime need not be open, but only an open runtime has the
        tools of `sources`.

        Args:
            provider: ``"anthropic"``, ``"openai"`` (Chat Completions), ``"openai-responses"`` or ``"mcp"``.
            options: `direct`, `meta`, `tools`, `texts`, `inline_characters`, `strict`, `plan_as_text`, `defer`,
                `programmatic`: see `DefinitionOptions`.

        Returns:
            The value of the request's `tools`, or of MCP's ``tools/list``, as a copy.

        Raises:
            ConfigurationError: a provider, option or tool does not exist, or the provider does not support an option.
        """
        return self._answers.definitions.make(provider, options)

    def tool_choice(
        self, provider: Provider, choice: str, *, parallel: bool | None = None, **options: Unpack[DefinitionOptions]
    ) -> dict[str, Any]:
        """Which tools the model may or must call, as keyword arguments of the provider's request:
        ``create(tools=..., **runtime.tool_choice("openai", "required"))``.

        Args:
            provider: as for `tool_definitions`, except ``"mcp"``, which has no tool choice.
            choice: ``"auto"`` (the model decides), ``"required"`` (some tool), ``"none"``, or the name of a tool.
            parallel: whether several calls may come in one turn; None leaves it to the provider.
            options: as given to `tool_definitions`: which tools the model has.

        Raises:
            ConfigurationError: the model does not have the tool, or the provider has no tool choice.
        """
        return self._answers.definitions.of(options).choice(provider, choice, parallel)

    def instructions(self, **options: Unpack[DefinitionOptions]) -> str:
        """A few lines for a system prompt: when to call a tool, when to write a plan, when to write a program.

        Args:
            options: as given to `tool_definitions`.
        """
        return self._answers.definitions.of(options).instructions()

    def stubs(
        self,
        *,
        detail: Literal["names", "signatures", "full"] = "full",
        names: Collection[str] | None = None,
    ) -> str:
        """Typed Python stubs of the tools: an importable module that passes a type checker; the same tools give the
        same bytes.

        Args:
            detail: how much to say about each tool.
            names: only these tools; None for all.
        """
        from callgate.tools.stubs import stubs

        return stubs(self.registry, detail=detail, names=names)

    def search_tools(self, query: Query = "", **options: Unpack[FindOptions]) -> SearchResult:
        """Tools by what they do, for one query or a list of them: see `ToolSearch.find`."""
        return self.search.find(query, **options)

    def describe_tools(self, names: Collection[str]) -> Described:
        """Full descriptions of these tools: see `ToolSearch.describe`."""
        return self.search.describe(names)

    def find_by_capability(self, capability: str) -> tuple[Tool, ...]:
        """The tools that list this capability, sorted by name."""
        return self.registry.by_capability(capability)

    async def handle(self, name: str, arguments: Mapping[str, Any] | str | None, **options: Any) -> str:
        """Answer a model's call with text for the model: see `answer`, whose text it is."""
        return (await self.answer(name, arguments, **{**options, "pictures": False})).text

    async def answer(
        self,
        name: str,
        arguments: Mapping[str, Any] | str | None,
        *,
        tools: Collection[str] | None = None,
        meta: Collection[MetaTool] | None = None,
        **options: Unpack[CallOptions],
    ) -> Answer:
        """Answer a model's call: of ``search_tools``, ``describe_tools``, ``execute_code``, ``execute_tool_plan``,
        ``read_artifact``, or of a tool; and, where `meta` has them, of ``start_code``, ``wait_run`` and ``stop_run``.

        A mistake of the model raises nothing: the answer explains it to the model.

        Args:
            name: as the model wrote it: the name in `tool_definitions`, the tool's own, ``server.tool``.
            arguments: as the model gave them: an object, or its JSON as text.
            tools: names of the tools that this model has; None: all. Give `tool_definitions` the same names.
            meta: the meta-tools that this model has; None: all but those for the background. Give `tool_definitions`
                the same names. Other meta-tools are refused, and no answer names them.
            options: `caller`: ``"direct"`` (the default) for the model itself; ``"code"`` for the provider's own code
                execution, or the type of the call's `caller` as the provider writes it (``"program"``,
                ``"code_execution_20260120"``). `limits`: what a program, a plan or a call may spend, instead of the
                runtime's own; a session has its own; `wall_seconds` bounds a call of one tool, too: retries, fallbacks
                and approval included. `on_event`: called with prints, steps, call starts and call ends as they happen.
                `session`: where ``execute_code`` runs; None: each program in a guest of its own. `pictures`: False
                makes no `Answer.pictures`. `final_answer`: what a program or a plan may give as the task's answer: see
                `Runtime.execute_code`; programs of a session give none. `as_run`: whether a program or a plan is a run
                of `Runtime.start`, which an approval may put to sleep; the answer then has its id. `approve`: asked
                about the calls for which such a run, or the one of ``wait_run``, waits. `after`: the result of the
                program that an ``execute_code`` corrects: see there; not in a session.

        Raises:
            SandboxError: no guest could be started, or the session is over.
            ConfigurationError: a name in `tools` or `meta`, or the caller, does not exist.
        """
        from .answers import ModelCall
        from .model.meta import ALL_META_TOOLS, BACKGROUND, checked_options

        self._contexts.must_be_open()
        if meta is None:
            meta = [name for name in ALL_META_TOOLS if name not in BACKGROUND]
        checked_options({"meta": meta})
        return await self._answers.answer(name, arguments, ModelCall.of(tools, meta, options))

    def tool_result(
        self, provider: Provider, answer: Answer, call_id: str, **options: Unpack[DefinitionOptions]
    ) -> dict[str, Any]:
        """An answer as the message that goes back to the model: Anthropic's ``tool_result`` block, OpenAI's message of
        the role ``tool``, or its ``function_call_output``.

        Pictures are in it, except for ``"openai"``, which takes none in messages of the role ``tool``: there
        `tool_results` has them.

        Where a search found tools that are deferred, Anthropic gets references to them and nothing else, and loads
        their definitions.

        Args:
            provider: as for `tool_definitions`, except ``"mcp"``.
            answer: the result of `answer`.
            call_id: the id of the call: of the ``tool_use`` block, of the tool call, the ``call_id``.
            options: as given to `tool_definitions`; only `defer` matters.

        Raises:
            ConfigurationError: the provider or an option does not exist, or the provider is ``"mcp"``.
        """
        return self._answers.message(provider, answer, call_id, options)

    def tool_results(
        self, provider: Provider, answers: Mapping[str, Answer], **options: Unpack[DefinitionOptions]
    ) -> list[dict[str, Any]]:
        """The answers to all calls of a turn as the messages that go back to the model, pictures included:
        ``messages += runtime.tool_results("openai", {call.id: answer})``.

        For Anthropic it is one message of the user with the ``tool_result`` blocks; for OpenAI's Chat Completions the
        messages of the role ``tool``, and one of the user with the pictures; for its Responses the
        ``function_call_output`` items.

        Args:
            provider: as for `tool_result`.
            answers: by the ids of their calls, in the order of the calls.
            options: as for `tool_result`.

        Raises:
            ConfigurationError: as `tool_result`.
        """
        return self._answers.messages(provider, answers, options)

    def conversation(
        self,
        *,
        state: Mapping[str, Any] | None = None,
        loader: Loader | None = None,
        loader_seconds: float = 30.0,
        session: bool = False,
        grows: bool = True,
        limits: Limits | None = None,
        artifacts: Shelf | None = None,
        final_answer: AnswerType | None = None,
        owner: str | None = None,
        **options: Unpack[DefinitionOptions],
    ) -> Conversation:
        """One model's conversation. The tools that the model finds become visible in this conversation alone.

        ``async with runtime.conversation() as conversation``; without `loader` and `session` it need not be entered.

        Args:
            state: an earlier result of `Conversation.state`, to continue that conversation.
            loader: loads more tools for each search, by its words: ``async def load(query) -> tools``. Only this
                conversation has these tools.
            loader_seconds: longest time for the loader; then the search continues without it.
            session: whether the programs of the conversation share a guest, and see each other's variables.
            grows: whether tools that the model finds are added to its list. If not, searches only teach the ranking.
            limits: limits of its programs, plans and calls, instead of the runtime's own.
            artifacts: where its files and pictures are: a ``runtime.artifacts.shelf()`` that outlives it. By default it
                has one of its own, which is cleared when it is left.
            final_answer: what a program or a plan may give as the task's answer; the definitions say how.
            owner: whose its runs in the background are, a name of yours: conversations with the same one see each
                other's runs, also in another process with the same `durable`. By default it has its own, and leaving
                the conversation ends those of its runs that are not durable.
            options: `direct`, `meta`, `tools` and the others: see `DefinitionOptions`.

        Raises:
            ConfigurationError: an option is wrong, or `state` is not a state.
        """
        from .discovery.conversation import Conversation

        return Conversation(
            cast("Runtime", self),
            options,
            state=state,
            loader=loader,
            loader_seconds=loader_seconds,
            session=session,
            grows=grows,
            limits=limits,
            artifacts=artifacts,
            final_answer=final_answer,
            owner=owner,
        )
