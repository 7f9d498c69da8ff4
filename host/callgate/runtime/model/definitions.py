"""Tool definitions in a provider's form: the meta-tools first, then tools that the model may call itself.

1. The same tools and options give the same bytes, whatever the order in which tools were added. What a conversation
   finds is put behind what was there: a provider's prompt cache of the rest stays good.
2. A tool has a definition of its own only where it allows callers of kind ``direct``; where the provider's own code may
   call as well, `allowed_callers` says which.
3. Foreign words are cleaned and cut (`clean`), foreign schemas brought into a form that the provider takes (`schemas`).

Makes definitions; sends nothing, and answers no call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

from callgate.errors import ConfigurationError
from callgate.limits import Limits
from callgate.tools import Registry, Tool
from callgate.tools.encoding import NotJson, compact_json
from callgate.tools.faults import did_you_mean

from .clean import clean
from .listing import NOTHING, Listing, listing, listing_beside
from .meta import META_TOOLS, MetaTool, input_schema, output_schema
from .names import ModelNames
from .options import DEFAULT_INLINE_CHARACTERS, DefinitionOptions, Provider, checked_options, checked_provider
from .samples import chain_of, sample_of
from .schemas import result_schema, shown_names, shown_schema
from .strict import StrictForms
from .texts import MAX_TEXT, Language, Situation, instructions, text_of

__all__ = ["Definitions"]

Definition = dict[str, Any]

MAX_DESCRIPTION: dict[Provider, int] = {"anthropic": 4_096, "openai": 1_024, "openai-responses": 1_024, "mcp": 4_096}
"""Characters of a tool's description. OpenAI's Chat Completions refuse more than 1,024."""
MAX_EXAMPLES = 5
MAX_EXAMPLE_CHARACTERS = 1_000
_KEPT = 32
_ANTHROPICS_CODE = re.compile(r"code_execution_\d{8}")


class Definitions:
    """Makes definitions of one registry's tools, and keeps what it made until the tools change.

    Args:
        registry: the tools.
        names: what a model calls them.
        limits: what runs may spend.
        language: ``"full"`` Python, ``"restricted"`` by the policy, or ``"graphs"``: no sandbox, and so only programs
            that are graphs of calls.
        python: tells the version of the Python that runs programs, ``3.11``; empty where it is not known yet.
    """

    def __init__(
        self,
        registry: Registry,
        names: ModelNames,
        limits: Limits,
        language: Language = "full",
        python: Callable[[], str] = str,
    ) -> None:
        self._registry = registry
        self._names = names
        self._limits = limits
        self._language = language
        self._python = python
        self._tools: tuple[Tool, ...] | None = None
        self._made: dict[str, str] = {}

    def make(
        self,
        provider: Provider,
        options: DefinitionOptions,
        *,
        found: Sequence[str] = (),
        grows: bool = False,
        session: bool = False,
    ) -> list[Definition]:
        """The definitions; the caller's own to change.

        Args:
            provider: whose form.
            options: see there.
            found: names of more direct tools, in the order in which they are to come; those that cannot be called
                directly, or are not there (any more), are left out.
            grows: whether tools that the model finds are added to its list.
            session: whether programs see each other's variables.

        Raises:
            ConfigurationError: an option is wrong, or names what there is not.
        """
        tools = self._registry.tools()
        if tools is not self._tools or len(self._made) >= _KEPT:
            self._made.clear()
            self._tools = tools
        asked = sorted(options.items(), key=lambda item: item[0])
        key = repr((provider, asked, tuple(found), grows, session, self._python()))
        text = self._made.get(key)
        if text is None:
            one = self._one(checked_provider(provider), options, grows, session)
            text = self._made[key] = json.dumps(one.definitions(found), ensure_ascii=False)
        made: list[Definition] = json.loads(text)
        return made

    def instructions(self, options: DefinitionOptions, *, grows: bool = False, session: bool = False) -> str:
        """How to choose among what there is: see `Runtime.instructions`."""
        one = self._one("anthropic", _for_anybody(options), grows, session)
        return instructions(one.situation())

    def direct(self, options: DefinitionOptions, found: Sequence[str] = ()) -> tuple[str, ...]:
        """Names of the tools that the model itself can call by a definition of their own, in order."""
        one = self._one("anthropic", _for_anybody(options))
        return tuple(tool.name for tool in one.direct(found))

    def deferred(self, provider: Provider, options: DefinitionOptions, found: Sequence[str] = ()) -> dict[str, str]:
        """What Anthropic calls the tools that it keeps out of the context until they are found, by their own names."""
        if checked_provider(provider) != "anthropic" or not options.get("defer"):
            return {}
        one = self._one(provider, options)
        return {tool.name: self._names.of(tool.name) for tool in one.direct(found) if one.defers(tool)}

    def _one(self, provider: Provider, options: DefinitionOptions, grows: bool = False, session: bool = False) -> _One:
        limits, language, python = self._limits, self._language, self._python()
        return _One(self._registry, self._names, limits, language, python, provider, options, grows, session)


def _for_anybody(options: DefinitionOptions) -> DefinitionOptions:
    """The options without what only one provider knows."""
    checked_options(options)
    kept: DefinitionOptions = {**options, "programmatic": None, "defer": (), "strict": False}
    return kept


class _One:
    """One list of definitions in the making."""

    def __init__(
        self,
        registry: Registry,
        names: ModelNames,
        limits: Limits,
        language: Language,
        python: str,
        provider: Provider,
        options: DefinitionOptions,
        grows: bool,
        session: bool,
    ) -> None:
        checked_options(options)
        self._registry = registry
        self._names = names
        self._limits = limits
        self._language = language
        self._python = python
        self._provider = provider
        self._options = options
        self._grows = grows
        self._session = session
        self._meta = [name for name in META_TOOLS if name in options.get("meta", META_TOOLS)]
        self._code = self._checked_code(options.get("programmatic"))
        self._within = self._allowed(options.get("tools"))
        self._chosen = self._direct(options.get("direct", ()))
        self._deferred = self._defer(options.get("defer", ()))
        strict = options.get("strict", False)
        if strict and provider == "mcp":
            raise ConfigurationError("MCP has no strict definitions: leave strict out")
        self._strict = StrictForms(provider) if strict else None

    def definitions(self, found: Sequence[str]) -> list[Definition]:
        here = self.situation()
        made = [self._of_meta(name, here) for name in self._meta]
        made += [self._of_tool(tool) for tool in self.direct(found)]
        if self._provider == "openai-responses" and any(each.get("defer_loading") for each in made):
            made.append({"type": "tool_search"})
        if self._provider == "anthropic" and made and all(each.get("defer_loading") for each in made):
            raise ConfigurationError(
                "Anthropic wants one tool at least that is not deferred: keep search_tools among meta"
            )
        return made

    def situation(self) -> Situation:
        """What the texts go by."""
        names = self._registry.callable_names()
        listed = any(self._listed(name).complete for name in self._meta)
        seen = {*self._chosen, *(self._for("code" if "execute_code" in self._meta else "plan") if listed else ())}
        return Situation(
            meta=frozenset(self._meta),
            directly=bool(self._chosen),
            grows=self._grows,
            session=self._session,
            listed=listed,
            shown=all(tool in seen for tool in self._within if tool.allowed_callers),
            language=self._language,
            python=self._python,
            limits=self._limits,
            sample=sample_of(self._for("code"), names),
            plan_sample=chain_of(self._for("plan"), names),
            plan_as_text=self._options.get("plan_as_text", False),
        )

    def direct(self, found: Sequence[str]) -> list[Tool]:
        """Those chosen, sorted, then those found, in their order."""
        chosen = {tool.name for tool in self._chosen}
        more = [self._registry.get(name) for name in dict.fromkeys(found) if name in self._registry]
        return self._chosen + [t for t in more if t.name not in chosen and t in self._within and self._callable(t)]

    def defers(self, tool: Tool) -> bool:
        """Whether the provider is to keep a tool out of the context until it is found."""
        return self._deferred is None or tool in self._deferred

    # what was asked for

    def _checked_code(self, asked: str | None) -> str | None:
        if asked is None:
            return None
        if self._provider == "anthropic" and _ANTHROPICS_CODE.fullmatch(asked):
            return asked
        if self._provider == "openai-responses" and asked == "programmatic":
            return asked
        ways = "'code_execution_20260120' (or another date) for anthropic, 'programmatic' for openai-responses"
        raise ConfigurationError(f"programmatic={asked!r} means nothing to {self._provider}; it is {ways}")

    def _allowed(self, names: Collection[str] | None) -> frozenset[Tool]:
        if names is None:
            return frozenset(self._registry.tools())
        return frozenset(self._named("tools", name) for name in names)

    def _direct(self, asked: Any) -> list[Tool]:
        if asked == "all":
            return [tool for tool in self._registry.tools() if tool in self._within and self._callable(tool)]
        chosen = {self._named("direct", name) for name in asked}
        for tool in chosen:
            if tool not in self._within:
                raise ConfigurationError(f"direct names the tool {tool.name!r}, which is not among tools")
            if not self._callable(tool):
                who = f"for: {', '.join(tool.allowed_callers)}" if tool.allowed_callers else "for nobody"
                raise ConfigurationError(
                    f"direct names the tool {tool.name!r}, which the model may not call; it is {who}"
                )
        return sorted(chosen, key=lambda tool: tool.name)

    def _defer(self, asked: Any) -> set[Tool] | None:
        """The deferred tools; None for all of them."""
        if not asked:
            return set()
        if self._provider not in ("anthropic", "openai-responses"):
            raise ConfigurationError(f"{self._provider} does not defer tools; anthropic and openai-responses do")
        return None if asked == "all" else {self._named("defer", name) for name in asked}

    def _named(self, option: str, name: str) -> Tool:
        known = self._names.resolve(name)
        if known is None:
            hint = did_you_mean(name, self._registry.names())
            raise ConfigurationError(f"{option} names the tool {name!r}, which does not exist{hint}")
        return self._registry.get(known)

    def _callable(self, tool: Tool) -> bool:
        return "direct" in tool.allowed_callers or (self._code is not None and "code" in tool.allowed_callers)

    def _for(self, caller: str) -> list[Tool]:
        return [tool for tool in self._registry.tools() if caller in tool.allowed_callers and tool in self._within]

    # meta-tools

    def _of_meta(self, name: MetaTool, here: Situation) -> Definition:
        text = self._own_text(name) or text_of(name, here)
        as_text = self._options.get("plan_as_text", False)
        schema = input_schema(name, plan_as_text=as_text)
        listed = self._listed(name).text
        if listed and len(text) + len(listed) + 2 <= MAX_DESCRIPTION[self._provider]:
            text = f"{text}\n\n{listed}"
        elif listed and self._provider.startswith("openai"):
            first = "code" if name == "execute_code" else "plan" if as_text else "steps"
            below = schema["properties"][first]
            below["description"] = f"{below.get('description', 'The steps.')}\n\n{listed}"
        elif listed:
            text = f"{text}\n\n{listed}"
        tools = self._for("code" if name == "execute_code" else "plan")
        runs = name in ("execute_code", "execute_tool_plan")
        annotations = {
            "readOnlyHint": not runs or all(tool.read_only for tool in tools),
            "destructiveHint": runs and any(tool.destructive for tool in tools),
            "idempotentHint": not runs or all(tool.repeatable for tool in tools),
            "openWorldHint": runs,
        }
        made = self._definition(name, text, schema, annotations, output_schema(name), strict=self._strict is not None)
        if self._code is not None:
            made["allowed_callers"] = ["direct"]
        return made

    def _own_text(self, name: MetaTool) -> str | None:
        text = (self._options.get("texts") or {}).get(name)
        most = MAX_DESCRIPTION[self._provider]
        if text is not None and len(text) > most and self._provider.startswith("openai"):
            raise ConfigurationError(
                f"texts[{name!r}] has {len(text):,} characters, and {self._provider} takes {most:,}: shorten it, or "
                "put the rest into the system prompt"
            )
        return text

    def _listed(self, name: MetaTool) -> Listing:
        most = self._options.get("inline_characters", DEFAULT_INLINE_CHARACTERS)
        if name == "execute_code":
            return listing(self._registry, self._for("code"), most, meta=self._meta)
        if name != "execute_tool_plan":
            return NOTHING
        if "execute_code" not in self._meta:
            return listing(self._registry, self._for("plan"), most, meta=self._meta, programs=False)
        if not self._for("plan") or not self._listed("execute_code").complete:
            return NOTHING
        return listing_beside(self._registry, self._for("plan"), self._for("code"), most, meta=self._meta)

    # tools

    def _of_tool(self, tool: Tool) -> Definition:
        schema = shown_schema(tool, self._provider)
        examples = self._examples(tool)
        most = MAX_DESCRIPTION[self._provider]
        words = [clean(tool.description, most)]
        if tool.limitations:
            words.append("Limitations: " + "; ".join(clean(each, 200) for each in tool.limitations[:10]))
        if tool.requires_approval:
            words.append("A person is asked before each call.")
        if self._code is not None and self._provider == "anthropic" and tool.output_schema is not None:
            returned = compact_json(tool.output_schema)
            if len(returned) <= MAX_EXAMPLE_CHARACTERS:
                words.append(f"Returns JSON: {returned}")
        if examples and self._provider != "anthropic":
            words.append("Examples: " + "; ".join(compact_json(each) for each in examples))
        annotations: dict[str, bool] = {"readOnlyHint": tool.read_only}
        if not tool.read_only:
            annotations |= {"destructiveHint": tool.destructive, "idempotentHint": tool.idempotent}
        made = self._definition(
            self._names.of(tool.name),
            clean("\n".join(filter(None, words)), most),
            schema,
            annotations,
            result_schema(tool),
            strict=self._strict is not None and (self._code is None or "code" not in tool.allowed_callers),
        )
        if examples and self._provider == "anthropic":
            made["input_examples"] = examples
        if self._code is not None:
            made["allowed_callers"] = [
                *(["direct"] if "direct" in tool.allowed_callers else []),
                *([self._code] if "code" in tool.allowed_callers else []),
            ]
            if self._provider == "openai-responses" and tool.output_schema is not None:
                made["output_schema"] = tool.output_schema
        if self.defers(tool):
            made["defer_loading"] = True
        return made

    def _definition(
        self,
        name: str,
        text: str,
        schema: dict[str, Any],
        annotations: dict[str, bool],
        returned: dict[str, Any] | None,
        *,
        strict: bool,
    ) -> Definition:
        form = self._strict.of(schema) if strict and self._strict is not None else None
        schema = schema if form is None else form
        match self._provider:
            case "anthropic":
                made = {"name": name, "description": text, "input_schema": schema}
                return made if form is None else {**made, "strict": True}
            case "openai":
                made = {"name": name, "description": text, "parameters": schema}
                return {"type": "function", "function": made if form is None else {**made, "strict": True}}
            case "openai-responses":  # where nothing is said, it makes strict what it can, and the schema is another
                made = {"type": "function", "name": name, "description": text, "parameters": schema}
                return {**made, "strict": form is not None}
            case _:
                made = {"name": name, "description": text, "inputSchema": schema, "annotations": annotations}
                return made if returned is None else {**made, "outputSchema": returned}

    def _examples(self, tool: Tool) -> list[dict[str, Any]]:
        """Examples that are arguments the tool takes, under the names that the provider is shown."""
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
