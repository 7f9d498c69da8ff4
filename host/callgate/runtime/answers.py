"""Answers a model's calls: of meta-tools and of tools. A mistake of the model is an answer, in words for the model.

1. The mistakes of the model and the failures of tools and programs are answers. Only the operator's mistakes
   (`ConfigurationError`) and the machine's failures (`SandboxError`) are raised.
2. A name may have any form; arguments are an object or its JSON text.
3. Every call of a tool passes the gate, with the caller ``direct``, or ``code`` if the provider's own code made it.
4. `wall_seconds` bounds a call of one tool, as it bounds a program or a plan: with retries, fallbacks and approval.
5. No answer names a meta-tool that the model does not have.
6. A model gets a text that a tool returned as it is; the provider's own code gets all results as JSON, to parse.
7. Pictures come beside the text, and never in it; only the artifacts of the caller's own shelf are looked at.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypedDict

import anyio

from callgate.artifacts import NOT_HERE, Artifact
from callgate.errors import ConfigurationError, LimitReached, ToolError, ToolNotAllowed
from callgate.lazily import imported
from callgate.limits import Limits
from callgate.sandbox.backend import python_here
from callgate.tools import CALLERS, Caller, Tool
from callgate.tools.faults import did_you_mean

from .answer import Answer, artifacts_of, error_text
from .final_answer import AnswerType
from .gate import Approve, RunGate
from .gate.events import Event
from .gate.watches import watched
from .model.decoding import CUT_OFF, as_object, decoded, is_cut_off
from .model.definitions import ALONE, Beside, Definitions
from .model.meta import ALL_META_TOOLS, BACKGROUND, DefinitionOptions, MetaTool, meant, validated
from .model.providers import Provider, picture_message, tool_result
from .model.schemas import own_arguments, promises_object
from .model.texts import Language
from .pictures import pictures_of
from .reading import MODEL_BYTES, part_of, read_by_model
from .repair import After
from .result import CodeResult, Keep
from .session import Session
from .writing import Writing

if TYPE_CHECKING:
    from .plans.result import PlanResult
    from .plans.writing import PlanWriting
    from .runtime import Runtime

__all__ = ["EVERYBODY", "Answers", "CallOptions", "ModelCall", "caller_of"]

EVERYBODY = "everybody"
"""Owner of the runs of callers that cannot be told apart."""
_PROVIDERS_CODE = ("program", "code_execution_")
"""Beginnings of the names that Anthropic and OpenAI give to their own programs as callers."""


def caller_of(caller: str) -> Caller:
    """The kind of a caller in callgate's or a provider's words (``program``, ``code_execution_20260120``).

    Raises:
        ConfigurationError: the kind is unknown.
    """
    if caller in CALLERS:
        return caller
    if caller.startswith(_PROVIDERS_CODE):
        return "code"
    raise ConfigurationError(
        f"there is no caller {caller!r}; the callers are: {', '.join(CALLERS)}, and of a provider's own code "
        "program and code_execution_..., e.g. code_execution_20260120"
    )


class CallOptions(TypedDict, total=False):
    """The options of `Runtime.answer` that `Conversation.answer` has as well."""

    caller: str
    limits: Limits | None
    on_event: Callable[[Event], None] | None
    session: Session | None
    pictures: bool
    final_answer: AnswerType | None
    approve: Approve | None
    as_run: bool
    after: After


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelCall:
    """How to answer one call of a model: see `Runtime.answer`."""

    tools: Collection[str] | None
    meta: Collection[str]
    caller: Caller = "direct"
    limits: Limits | None = None
    on_event: Callable[[Event], None] | None = None
    session: Session | None = None
    pictures: bool = True
    final_answer: AnswerType | None = None
    approve: Approve | None = None
    as_run: bool = False
    owner: str = EVERYBODY
    """Whose its runs in the background are."""
    after: After = None
    written: Writing | PlanWriting | None = None
    """The program or plan of the call, if it began while the model wrote it."""

    @classmethod
    def of(cls, tools: Collection[str] | None, meta: Collection[str], options: CallOptions) -> ModelCall:
        """The call with these options. Raises `ConfigurationError` for an unknown caller."""
        given: dict[str, Any] = {**options, "caller": caller_of(options.get("caller", "direct"))}
        return cls(tools=tools, meta=meta, **given)


class Answers:
    """Answers calls over one set of tools.

    Args:
        runtime: runs calls, programs and plans over the tools.
        limits: the limits that descriptions name.
    """

    def __init__(self, runtime: Runtime, limits: Limits) -> None:
        sandbox, policy = runtime._sandbox, runtime._language.policy
        language: Language = "graphs" if sandbox is None else "full" if policy == "none" else "restricted"
        python = python_here if sandbox is None else lambda: getattr(sandbox[0], "python", "")

        def files() -> bool:
            return sandbox is not None and not getattr(sandbox[0], "no_files", "none")

        self.runtime = runtime
        packages = tuple if sandbox is None else lambda: getattr(sandbox[0], "packages", ())
        self.definitions = Definitions(runtime.registry, limits, language, python, files, packages)
        """The definitions that the model gets."""
        self.names = self.definitions.names

    def over(self, runtime: Runtime) -> Answers:
        """The same answers over a runtime that has the same tools and another shelf for artifacts."""
        other = copy.copy(self)
        other.runtime = runtime
        return other

    async def answer(self, name: str, arguments: Mapping[str, Any] | str | None, call: ModelCall) -> Answer:
        """See `Runtime.answer`."""
        answer = await self._answered(str(name), arguments, call)
        artifacts = answer.artifacts or artifacts_of(answer, self.runtime._shelf)
        if not artifacts:
            return answer
        answer = replace(answer, artifacts=artifacts)
        if not call.pictures:
            return answer
        found = await pictures_of(artifacts)
        return replace(answer, text=found.told(answer.text), pictures=found.shown)

    async def _answered(self, name: str, arguments: Mapping[str, Any] | str | None, call: ModelCall) -> Answer:
        if self.names.resolve(name) is None:
            name = meant(name, call.meta)
        try:
            given = decoded(name, arguments, self.runtime.limits.max_message_bytes)
            if name not in ALL_META_TOOLS:
                return await self._tool(name, given, call)
            if name not in call.meta:
                raise ToolError(f"{name} is not in your list of tools", tool=name)
            if call.caller != "direct":
                raise ToolError(f"{name} may be called by the model itself, and not by a program", tool=name)
            return await self._meta(name, given, call)
        except ToolError as error:
            return Answer(name=name[:256], text=error_text(error.message), ok=False, mistake=True)
        except LimitReached as error:
            return Answer(name=name[:256], text=f"Error: {error}", ok=False)

    async def _meta(self, name: MetaTool, given: Any, call: ModelCall) -> Answer:
        runtime = self.runtime
        if name in BACKGROUND:
            background = await imported("callgate.runtime.background")
            made = await background.answer_background(runtime, name, validated(name, as_object(name, given)), call)
            return made if isinstance(made, Answer) else self._of_run(name, made, call)
        if name == "execute_tool_plan":  # takes more forms than its schema says
            if call.written is not None and not isinstance(call.written, Writing):
                plan = replace(await call.written.finish(given, call.limits), redactor=runtime.redactor)
            elif call.as_run and isinstance(given, Mapping):
                background = await imported("callgate.runtime.background")
                plan = await background.result_of_run(runtime, given, call)
            else:
                plan = await runtime.execute_tool_plan(
                    given, tools=call.tools, limits=call.limits, on_event=call.on_event, final_answer=call.final_answer
                )
            answer = self._of_run(name, plan, call)
            mistake = plan.error is not None and plan.error.kind == "PlanRefused" and not plan.changed
            if mistake and any(fault.code == "not-json" for fault in plan.faults) and is_cut_off(given):
                answer = replace(answer, text=f"{answer.text}\n- {CUT_OFF}.")
            return replace(answer, mistake=mistake)
        arguments = validated(name, as_object(name, given))
        if name == "execute_code":
            code = arguments["code"]
            if isinstance(call.written, Writing):
                run = await call.written.finish(code, call.limits)
            elif call.session is not None:
                if call.after is not None:
                    raise ConfigurationError("after= is for programs without a session, which keeps its variables")
                run = await call.session.execute_code(code, tools=call.tools, on_event=call.on_event)
            elif call.as_run:
                background = await imported("callgate.runtime.background")
                run = await background.result_of_run(runtime, code, call)
            else:
                run = await runtime.execute_code(
                    code, tools=call.tools, limits=call.limits, on_event=call.on_event, final_answer=call.final_answer,
                    after=call.after,
                )  # fmt: skip
            return self._of_run(name, run, call)
        if name == "read_artifact":
            return self._read(arguments)
        among = self.reachable(call.tools)
        if name == "describe_tools":
            names = [self.names.resolve(each) or each for each in arguments["names"]]
            described = runtime.search.describe(names, among=among, hint="search_tools" in call.meta)
            found = tuple(tool.name for tool in described.tools)
            return Answer(name=name, text=described.for_model(), result=described, found=found)
        result = await runtime.search.ask(arguments.pop("query", ""), among=among, **arguments)
        text = result.for_model(describe="describe_tools" in call.meta)
        return Answer(name=name, text=text, result=result, found=tuple(each.tool.name for each in result.found))

    def _of_run(self, name: str, run: CodeResult | PlanResult, call: ModelCall) -> Answer:
        """The answer with the result of a program or a plan."""
        kind = None if run.error is None else run.error.kind
        if kind == "NotEnded":  # it sleeps, which is no failure; its error has the words
            assert run.error is not None
            return Answer(name=name, text=run.error.message, result=run)
        text = run.for_model(keep=self._keep_for(call))
        return Answer(name=name, text=text, ok=run.ok, mistake=kind == "CheckFailed", result=run)

    def _read(self, arguments: dict[str, Any]) -> Answer:
        artifact = self.runtime._shelf.get(arguments["artifact"])
        if artifact is None:
            raise ToolError(f"argument 'artifact' must be {NOT_HERE}", tool="read_artifact")
        offset, limit = arguments.get("offset", 0), min(arguments.get("limit", MODEL_BYTES), MODEL_BYTES)
        part = part_of(artifact, offset, limit)
        part.pop("base64", None)
        text = read_by_model(artifact, offset, limit)
        return Answer(name="read_artifact", text=text, value=part, bare=True, artifacts=(artifact,))

    def _keep_for(self, call: ModelCall) -> Keep | None:
        """Keeps what is too long for the model, where it can read on: by itself, or in its next program."""
        in_programs = "execute_code" in call.meta and len(self.runtime.registry) > 0
        if "read_artifact" not in call.meta and not in_programs:
            return None

        def keep(name: str, text: str) -> str:
            made = Artifact.from_bytes(text.encode("utf-8", "replace"), name)
            return self.runtime._shelf.add(replace(made, source="callgate")).handle

        return keep

    async def _tool(self, given_name: str, given: Any, call: ModelCall) -> Answer:
        name = self.names.resolve(given_name) or given_name
        limits = self.runtime.limits if call.limits is None else call.limits
        gate = self.runtime.gate.open(
            caller=call.caller, limits=limits, allowed=call.tools, on_event=call.on_event, shelf=self.runtime._shelf
        )
        tool = self.runtime.registry.get(name) if name in self.runtime.registry else None
        arguments = as_object(name, given)
        text: str | None = None
        with anyio.move_on_after(limits.wall_seconds) as scope:
            try:
                made = gate.call(name, arguments if tool is None else own_arguments(tool, arguments))
                text = await watched(gate, made, "direct")
            except ToolError as error:
                if not scope.cancel_called:  # else the tool turned the cancellation into an error
                    asked = name in gate.offer.by_name and isinstance(error, ToolNotAllowed)  # a person refused
                    refused = gate.records[-1].status == "refused" and not asked
                    words = error_text(f"{error.message}{_hint(error, given_name, tool, call)}")
                    return Answer(name=name[:256], text=words, ok=False, mistake=refused)
        assert tool is not None
        if text is None:
            return Answer(name=name, text=f"Error: {_out_of_time(tool, gate, limits)}", ok=False)
        value = json.loads(text)
        as_it_is = call.caller != "code" and isinstance(value, str) and value.strip()
        return Answer(name=name, text=value if as_it_is else text, value=value, bare=promises_object(tool))

    def message(
        self, provider: Provider, answer: Answer, call_id: str, options: DefinitionOptions, beside: Beside = ALONE
    ) -> dict[str, Any]:
        """An answer as the message that goes back to the model: see `Runtime.tool_result`."""
        defers = provider == "anthropic" and options.get("defer")
        deferred = self.definitions.of(options, beside, provider).deferred_names() if defers else {}
        references = [deferred[name] for name in answer.found if name in deferred]
        return tool_result(provider, answer.text, answer.ok, call_id, references, answer.pictures)

    def messages(
        self, provider: Provider, answers: Mapping[str, Answer], options: DefinitionOptions, beside: Beside = ALONE
    ) -> list[dict[str, Any]]:
        """The answers of a turn as the messages that go back to the model: see `Runtime.tool_results`."""
        made = [self.message(provider, answer, id, options, beside) for id, answer in answers.items()]
        if provider == "anthropic":
            return [{"role": "user", "content": made}]
        pictures = [(id, picture) for id, answer in answers.items() for picture in answer.pictures]
        last = picture_message(provider, pictures)
        return made if last is None else [*made, last]

    def reachable(self, allowed: Collection[str] | None) -> frozenset[str] | None:
        """Names of the tools that a model can call in any way; None for all tools."""
        tools = self.runtime.registry.tools()
        wanted = None if allowed is None else frozenset(self.names.resolve(name) or name for name in allowed)
        within = frozenset(t.name for t in tools if t.allowed_callers and (wanted is None or t.name in wanted))
        return None if len(within) == len(tools) else within


def _hint(error: ToolError, given: str, tool: Tool | None, call: ModelCall) -> str:
    """What the model can do instead."""
    if tool is None and "did you mean" not in error.message:
        search = "; search_tools finds the tools that there are" if "search_tools" in call.meta else ""
        return did_you_mean(given, call.meta) or search
    if tool is not None and call.caller not in tool.allowed_callers:
        if "code" in tool.allowed_callers and "execute_code" in call.meta:
            return "; call it in a program, with execute_code"
        if "plan" in tool.allowed_callers and "execute_tool_plan" in call.meta:
            return "; make it a step of a plan, with execute_tool_plan"
    return ""


def _out_of_time(tool: Tool, gate: RunGate, limits: Limits) -> str:
    """The message for a call that ran out of time, and what is known of its outcome."""
    over = LimitReached("wall_seconds", limits.wall_seconds)
    last = gate.records[-1]  # of the tool or its fallback
    called = gate.offer.by_name.get(last.tool, tool)
    if called.requires_approval and not last.attempts:
        return f"{over}: tool {called.name!r} was not called, since nobody had approved it by then"
    unknown = "; it may have done its work all the same: the outcome is unknown, find out before you call it again"
    return f"{over}: tool {called.name!r} had not answered by then{'' if called.repeatable else unknown}"
