"""Makes tool definitions in a provider's form: the meta-tools first, then the tools that the model may call itself.

1. The same tools and options give the same bytes, in any order of adding. Tools that a conversation finds come last, so
   that a provider's prompt cache of the rest survives.
2. Only a tool that allows ``direct`` callers has a definition of its own. If the provider's own code may call tools as
   well, `allowed_callers` says who may call each.
3. Foreign texts are cleaned and cut (`foreign`), and foreign schemas are brought into a form that the provider takes
   (`schemas`).

Sends nothing, and answers no call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from callgate.errors import ConfigurationError
from callgate.limits import Limits
from callgate.runtime.final_answer import AnswerType
from callgate.tools import Registry, Tool
from callgate.tools.encoding import NotJson, compact_json
from callgate.tools.faults import did_you_mean

from .foreign import ModelNames, clean
from .listing import NOTHING, Listing, listing, listing_beside
from .meta import (
    ALL_META_TOOLS,
    ANSWER,
    DEFAULT_INLINE_CHARACTERS,
    META_TOOLS,
    DefinitionOptions,
    MetaTool,
    checked_options,
    input_schema,
    output_schema,
)
from .providers import MAX_DESCRIPTION, Provider, checked_provider, definition, tool_choice
from .samples import chain_of, sample_of
from .schemas import result_schema, shown_names, shown_schema
from .strict import StrictForms
from .texts import MAX_TEXT, Language, Situation, instructions, text_of

__all__ = ["ALONE", "Beside", "Definitions", "ModelTools"]

Definition = dict[str, Any]

MAX_EXAMPLES = 5
MAX_EXAMPLE_CHARACTERS = 1_000
_MOST_CACHED = 32
_ANTHROPICS_CODE = re.compile(r"code_execution_\d{8}")


@dataclass(frozen=True, slots=True)
class Beside:
    """A conversation's additions to the options."""

    found: tuple[str, ...] = ()
    """Names of more direct tools, in the order of their definitions. Tools that are absent or do not allow direct calls
    are left out."""
    grows: bool = False
    """Whether tools that the model finds are added to its list."""
    session: bool = False
    """Whether programs see each other's variables."""
    reads: bool = False
    """Whether there are artifacts for `read_artifact`."""
    answer: AnswerType | None = None
    """What a program or a plan may give as the answer of the task."""


ALONE = Beside()


class Definitions:
    """Makes definitions of one registry's tools, and keeps them until the tools change.

    Args:
        registry: the tools.
        limits: the limits of runs.
        language: ``"full"`` Python, Python ``"restricted"`` by the policy, or ``"graphs"``: without a sandbox, only
            programs that are graphs of calls.
        python: returns the version of the Python that runs programs, ``3.11``; empty if not known yet.
        files: returns whether programs may have files.
        packages: returns names and versions of what programs can import besides the standard library.
    """

    def __init__(
        self,
        registry: Registry,
        limits: Limits,
        language: Language = "full",
        python: Callable[[], str] = str,
        files: Callable[[], bool] = bool,
        packages: Callable[[], tuple[str, ...]] = tuple,
    ) -> None:
        self.registry = registry
        self.names = ModelNames(registry)
        """The model's names for the tools."""
        self.limits = limits
        self.language = language
        self.python = python
        self.files = files
        self.packages = packages
        self._tools: tuple[Tool, ...] | None = None
        self._made: dict[str, str] = {}

    def make(self, provider: Provider, options: DefinitionOptions, beside: Beside = ALONE) -> list[Definition]:
        """The definitions, as a copy. Raises `ConfigurationError` for a wrong option or an unknown name in one."""
        tools = self.registry.tools()
        if tools is not self._tools or len(self._made) >= _MOST_CACHED:
            self._made.clear()
            self._tools = tools
        now = (self.python(), self.files(), self.packages(), "" if beside.answer is None else beside.answer.stub)
        shown = replace(beside, answer=None)
        key = repr((provider, sorted(options.items(), key=lambda item: item[0]), shown, *now))
        text = self._made.get(key)
        if text is None:
            made = self.of(options, beside, checked_provider(provider)).definitions()
            text = self._made[key] = json.dumps(made, ensure_ascii=False)
        copied: list[Definition] = json.loads(text)
        return copied

    def of(self, options: DefinitionOptions, beside: Beside = ALONE, provider: Provider | None = None) -> ModelTools:
        """What the model has. Without a provider, options that only some providers have are ignored."""
        if provider is None:
            options = {**options, "programmatic": None, "defer": (), "strict": False}
        return ModelTools(self, provider or "anthropic", options, beside)


class ModelTools:
    """What one model has, and its list of definitions. Raises `ConfigurationError` for a wrong option or an unknown
    name in one."""

    def __init__(self, whole: Definitions, provider: Provider, options: DefinitionOptions, beside: Beside) -> None:
        checked_options(options)
        self._whole = whole
        self._registry = whole.registry
        self._provider: Provider = provider
        self._options = options
        self._beside = beside
        self._meta = [name for name in ALL_META_TOOLS if name in options.get("meta", META_TOOLS)]
        self._code = options.get("programmatic")
        self._check_what_the_provider_has()
        self._within = self._named("tools", None)
        self._chosen = self._checked_direct()
        self.deferred = self._named("defer", ()) if options.get("defer") else frozenset[Tool]()
        """The tools that the provider keeps out of the context until a search finds them."""
        self._strict = StrictForms(provider) if options.get("strict") else None

    def definitions(self) -> list[Definition]:
        here = self.situation()
        made = [self._of_meta(name, here) for name in self._meta]
        made += [self._of_tool(tool) for tool in self.direct()]
        if self._beside.reads and "read_artifact" not in self._meta:
            made.append(self._of_meta("read_artifact", here))
        late = [each for each in made if each.get("defer_loading")]
        if self._provider == "openai-responses" and late:
            made.append({"type": "tool_search"})
        if self._provider == "anthropic" and late and len(late) == len(made):
            raise ConfigurationError(
                "Anthropic wants one tool at least that is not deferred: keep search_tools among meta"
            )
        return made

    def situation(self) -> Situation:
        """What the model has, for the texts."""
        names = self._registry.callable_names()
        listed = any(each.complete for each in self._lists.values())
        seen = {*self._chosen, *(self._for("code" if "execute_code" in self._meta else "plan") if listed else ())}
        return Situation(
            meta=frozenset(self._meta),
            directly=bool(self._chosen),
            grows=self._beside.grows,
            session=self._beside.session,
            listed=listed,
            shown=all(tool in seen for tool in self._within if tool.allowed_callers),
            language=self._whole.language,
            python=self._whole.python(),
            files=self._whole.files(),
            packages=self._whole.packages(),
            limits=self._whole.limits,
            sample=sample_of(self._for("code"), names),
            plan_sample=chain_of(self._for("plan"), names),
            plan_as_text=self._options.get("plan_as_text", False),
            answer="" if self._beside.answer is None else self._beside.answer.stub,
        )

    def instructions(self) -> str:
        """How to choose among the tools: see `Runtime.instructions`."""
        return instructions(self.situation())

    def choice(self, provider: Provider, choice: str, parallel: bool | None) -> dict[str, Any]:
        """Tool choice, with a tool's name in any form: see `Runtime.tool_choice`."""
        if choice in ("auto", "required", "none", *self._meta):
            return tool_choice(provider, choice, parallel=parallel)
        name = self._whole.names.resolve(choice)
        if name is None or name not in self.names():
            raise ConfigurationError(
                f"the model has no tool {choice!r} to choose; it is auto, required, none, a meta-tool, or a direct tool"
            )
        return tool_choice(provider, self._whole.names.of(name), parallel=parallel)

    def deferred_names(self) -> dict[str, str]:
        """The provider's names of the deferred tools, by their own names."""
        return {tool.name: self._whole.names.of(tool.name) for tool in self.direct() if tool in self.deferred}

    def names(self) -> tuple[str, ...]:
        """Names of the tools with definitions of their own, in order."""
        return tuple(tool.name for tool in self.direct())

    def direct(self) -> list[Tool]:
        """The chosen tools, sorted, then the found tools, in their order."""
        found = (self._registry.get(name) for name in self._beside.found if name in self._registry)
        more = [tool for tool in found if tool in self._within and self._callable(tool)]
        return list(dict.fromkeys([*self._chosen, *more]))

    # options

    def _check_what_the_provider_has(self) -> None:
        provider, code = self._provider, self._code
        if self._options.get("strict") and provider == "mcp":
            raise ConfigurationError("MCP has no strict definitions: leave strict out")
        if self._options.get("defer") and provider not in ("anthropic", "openai-responses"):
            raise ConfigurationError(f"{provider} does not defer tools; anthropic and openai-responses do")
        anthropics = code is not None and provider == "anthropic" and _ANTHROPICS_CODE.fullmatch(code)
        if code is not None and not anthropics and (provider, code) != ("openai-responses", "programmatic"):
            ways = "'code_execution_20260120' (or another date) for anthropic, 'programmatic' for openai-responses"
            raise ConfigurationError(f"programmatic={code!r} means nothing to {provider}; it is {ways}")

    def _named(self, option: str, default: Collection[str] | None) -> frozenset[Tool]:
        """The tools that an option names; all tools for ``"all"`` and None."""
        asked: Any = self._options.get(option, default)
        if asked is None or asked == "all":
            return frozenset(self._registry.tools())
        named = {name: self._whole.names.resolve(name) for name in asked}
        for name, known in named.items():
            if known is None:
                hint = did_you_mean(name, self._registry.names())
                raise ConfigurationError(f"{option} names the tool {name!r}, which does not exist{hint}")
        return frozenset(self._registry.get(known) for known in named.values() if known is not None)

    def _checked_direct(self) -> list[Tool]:
        chosen = self._named("direct", ())
        for tool in chosen if self._options.get("direct") != "all" else ():
            if tool not in self._within:
                raise ConfigurationError(f"direct names the tool {tool.name!r}, which is not among tools")
            if not self._callable(tool):
                who = f"for: {', '.join(tool.allowed_callers)}" if tool.allowed_callers else "for nobody"
                raise ConfigurationError(
                    f"direct names the tool {tool.name!r}, which the model may not call; it is {who}"
                )
        own = (tool for tool in chosen if tool in self._within and self._callable(tool))
        return sorted(own, key=lambda tool: tool.name)

    def _callable(self, tool: Tool) -> bool:
        return "direct" in tool.allowed_callers or (self._code is not None and "code" in tool.allowed_callers)

    def _for(self, caller: str) -> list[Tool]:
        return [tool for tool in self._registry.tools() if caller in tool.allowed_callers and tool in self._within]

    # meta-tools

    @cached_property
    def _lists(self) -> dict[MetaTool, Listing]:
        """The lists of tools in the descriptions of meta-tools."""
        most = self._options.get("inline_characters", DEFAULT_INLINE_CHARACTERS)
        lists: dict[MetaTool, Listing] = {}
        plans = self._for("plan") if "execute_tool_plan" in self._meta else []
        if "execute_code" in self._meta:
            code = self._for("code")
            lists["execute_code"] = listing(self._registry, code, most, meta=self._meta)
            if plans and lists["execute_code"].complete:
                lists["execute_tool_plan"] = listing_beside(self._registry, plans, code, most, meta=self._meta)
        else:
            lists["execute_tool_plan"] = listing(self._registry, plans, most, meta=self._meta, programs=False)
        return lists

    def _of_meta(self, name: MetaTool, here: Situation) -> Definition:
        text = (self._options.get("texts") or {}).get(name)
        most, openai = MAX_DESCRIPTION[self._provider], self._provider.startswith("openai")
        if text is not None and len(text) > most and openai:
            raise ConfigurationError(
                f"texts[{name!r}] has {len(text):,} characters, and {self._provider} takes {most:,}: shorten it, or "
                "put the rest into the system prompt"
            )
        text = text or text_of(name, here)
        schema = input_schema(name, plan_as_text=here.plan_as_text)
        if here.answer and name == "execute_tool_plan" and not here.plan_as_text:
            schema["properties"]["answer"] = ANSWER
        listed = self._lists.get(name, NOTHING).text
        if listed and openai and len(text) + len(listed) + 2 > most:
            first = "code" if name == "execute_code" else "plan" if here.plan_as_text else "steps"
            below = schema["properties"][first]
            below["description"] = f"{below.get('description', 'The steps.')}\n\n{listed}"
        elif listed:
            text = f"{text}\n\n{listed}"
        runs = name in ("execute_code", "execute_tool_plan", "start_code")
        tools = self._for("plan" if name == "execute_tool_plan" else "code") if runs else []
        annotations = {
            "readOnlyHint": all(tool.read_only for tool in tools),
            "destructiveHint": any(tool.destructive for tool in tools),
            "idempotentHint": all(tool.repeatable for tool in tools),
            "openWorldHint": runs,
        }
        beside = {"annotations": annotations, "outputSchema": output_schema(name)}
        made = self._definition(name, text, schema, beside, strict=True)
        return made if self._code is None else {**made, "allowed_callers": ["direct"]}

    # tools

    def _of_tool(self, tool: Tool) -> Definition:
        examples, most = self._examples(tool), MAX_DESCRIPTION[self._provider]
        anthropic, in_code = self._provider == "anthropic", self._code is not None
        words = [clean(tool.description, most)]
        if tool.limitations:
            words.append("Limitations: " + "; ".join(clean(each, 200) for each in tool.limitations[:10]))
        if tool.requires_approval:
            words.append("A person is asked before each call.")
        if in_code and anthropic and tool.output_schema is not None:
            returned = compact_json(tool.output_schema)
            if len(returned) <= MAX_EXAMPLE_CHARACTERS:
                words.append(f"Returns JSON: {returned}")
        if examples and not anthropic:
            words.append("Examples: " + "; ".join(compact_json(each) for each in examples))
        annotations: dict[str, bool] = {"readOnlyHint": tool.read_only}
        if not tool.read_only:
            annotations |= {"destructiveHint": tool.destructive, "idempotentHint": tool.idempotent}
        beside: dict[str, Any] = {"annotations": annotations}
        if self._provider == "mcp" and (schema := result_schema(tool)) is not None:
            beside["outputSchema"] = schema
        made = self._definition(
            self._whole.names.of(tool.name),
            clean("\n".join(filter(None, words)), most),
            shown_schema(tool, self._provider),
            beside,
            strict=not in_code or "code" not in tool.allowed_callers,
        )
        if examples and anthropic:
            made["input_examples"] = examples
        if in_code:
            callers = {"direct": "direct", "code": self._code}
            made["allowed_callers"] = [named for caller, named in callers.items() if caller in tool.allowed_callers]
            if self._provider == "openai-responses" and tool.output_schema is not None:
                made["output_schema"] = tool.output_schema
        if tool in self.deferred:
            made["defer_loading"] = True
        return made

    def _definition(
        self, name: str, text: str, schema: dict[str, Any], beside: dict[str, Any], *, strict: bool
    ) -> Definition:
        form = self._strict.of(schema) if strict and self._strict is not None else None
        shown = schema if form is None else form
        return definition(self._provider, name, text, shown, strict=form is not None, beside=beside)

    def _examples(self, tool: Tool) -> list[dict[str, Any]]:
        """The examples that the tool takes as arguments, under the names that the provider sees."""
        shown: list[dict[str, Any]] = []
        names = shown_names(tool)
        for example in tool.examples:
            given = example.get("arguments", example) if isinstance(example, dict) else None
            try:
                if not isinstance(given, dict) or len(compact_json(given)) > MAX_EXAMPLE_CHARACTERS:
                    continue
                tool.validate(given)
            except (NotJson, Exception):
                continue
            shown.append({names.get(str(name), str(name)): value for name, value in given.items()})
        return shown[:MAX_EXAMPLES]


assert min(MAX_DESCRIPTION.values()) >= MAX_TEXT
