"""Reads what a model wrote: a decomposition, or a chain of choices. Faults are worded for the model. Asks no model;
`chain.usable` checks the arguments.

1. The models below hold the spellings that models use for a field (aliases) and the bounds of its value.
2. A chain is read entry by entry, so that one wrong entry does not cost the others.
3. `json_in` takes the JSON out of a fence or out of prose, and the whole entries out of JSON that breaks off.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)  # fmt: skip

from callgate.agent.models.thoughts import without_thoughts
from callgate.errors import ConfigurationError
from callgate.search.words import query_terms
from callgate.tools.faults import described, did_you_mean, printable

from .selection import ToolChoice
from .tool_plan import MAX_TEXT_CHARACTERS, DecomposedQuery, SubQuery, checked_decomposition

__all__ = ["MAX_CHOICES", "Reading", "Unread", "json_in", "read_decomposition", "read_selection"]

MAX_CHOICES = 32
"""The most tools that are chosen for a query."""
MAX_CHARACTERS = 200_000
"""A longer answer is not read."""
DEFAULT_CONFIDENCE = 0.5
"""The confidence of an entry without a number from 0 to 1."""

Unread = Literal["prose", "half_json", "empty"]
"""Why an answer is not JSON."""

_FENCE = re.compile(r"```[a-zA-Z]*[ \t]*\n(.*?)```", re.DOTALL)
_LIST = re.compile(r'"(?:toolChain|tool_chain|subQueries|sub_queries)"\s*:\s*\[')
_DECODER = json.JSONDecoder()


def _share(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    try:
        return DEFAULT_CONFIDENCE if isinstance(value, bool) else handler(value)
    except ValidationError:
        return DEFAULT_CONFIDENCE


def _words(value: Any) -> str:
    return printable(" ".join(value[:MAX_TEXT_CHARACTERS].split())) if isinstance(value, str) else ""


def _position(value: Any) -> Any:
    return value.strip().removeprefix("c") if isinstance(value, str) else value


def _listed(value: Any) -> Any:
    return [] if value is None else value if isinstance(value, list) else [value]


def _arguments(value: Any) -> Any:
    """Parameters, also where the model wrote them as JSON in a text."""
    if isinstance(value, str) and value.strip():
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"this is not JSON: {error}") from None
    return value or {}


_Words = Annotated[str, BeforeValidator(_words)]
_Share = Annotated[Annotated[float, Field(ge=0, le=1)], WrapValidator(_share)]
_Positions = Annotated[
    list[Annotated[int, BeforeValidator(_position), Field(ge=0, lt=MAX_CHOICES)]],
    Field(max_length=MAX_CHOICES),  # a list has one fault then, and not one for each of its thousands
    BeforeValidator(_listed),
]

_NEEDS = AliasChoices("dependsOn", "depends_on", "dependencies")
_WHY = AliasChoices("reasoning", "reason")


class Entry(BaseModel):
    """An entry of the chain."""

    part: Any = Field(0, validation_alias=AliasChoices("subQuery", "sub_query", "subquery"))
    tool: str = Field(validation_alias=AliasChoices("tool", "tool_name", "toolName", "name"))
    parameters: Annotated[dict[str, Any], BeforeValidator(_arguments)] = Field(
        {}, validation_alias=AliasChoices("parameters", "params", "arguments", "args", "input")
    )
    confidence: _Share = DEFAULT_CONFIDENCE
    depends_on: _Positions = Field([], validation_alias=_NEEDS)
    reasoning: _Words = Field("", validation_alias=_WHY)


class _Chain(BaseModel):
    """An answer to the question which tools to use."""

    chain: list[Any] = Field(
        validation_alias=AliasChoices("toolChain", "tool_chain", "toolchain", "chain", "tools", "steps")
    )
    reasoning: _Words = Field("", validation_alias=_WHY)

    @model_validator(mode="before")
    @classmethod
    def _around(cls, value: Any) -> Any:
        """Put the object around a bare list, or around a single entry."""
        if isinstance(value, dict) and "tool" in value:
            value = [value]
        return {"toolChain": value} if isinstance(value, list) else value


class Part(BaseModel):
    """A sub-query."""

    text: _Words = Field(
        validation_alias=AliasChoices("text", "query", "question", "subQuery", "sub_query", "subquery")
    )
    kind: _Words = ""
    confidence: _Share = DEFAULT_CONFIDENCE
    depends_on: _Positions = Field([], validation_alias=_NEEDS)

    @model_validator(mode="before")
    @classmethod
    def _around(cls, value: Any) -> Any:
        return {"text": value} if isinstance(value, str) else value


class _Parts(BaseModel):
    """A query in its parts."""

    parts: list[Part] = Field(
        validation_alias=AliasChoices("subQueries", "sub_queries", "subqueries"), max_length=MAX_CHOICES
    )
    query_type: _Words = Field("", validation_alias=AliasChoices("queryType", "query_type", "type"))
    confidence: _Share = DEFAULT_CONFIDENCE

    @model_validator(mode="before")
    @classmethod
    def _around(cls, value: Any) -> Any:
        return {"subQueries": value} if isinstance(value, list) else value


@dataclass(slots=True)
class Reading:
    """A chain of choices as it was read.

    Attributes:
        choices: the entries that could be read, by their positions in the chain.
        reasoning: why these.
        faults: what is wrong with the answer and with its entries.
    """

    choices: dict[int, ToolChoice] = field(default_factory=dict)
    reasoning: str = ""
    faults: list[str] = field(default_factory=list)


def read_selection(
    value: Any, query: DecomposedQuery, names: Sequence[str], resolve: Callable[[str], str | None]
) -> Reading:
    """Read the chain of choices that a model wrote.

    Args:
        value: the model's answer, as `json_in` gives it.
        query: the query that the choices are for.
        names: of the tools that may be chosen.
        resolve: gives a tool's name for another way to write it, or None.
    """
    try:
        chain = _Chain.model_validate(value)
    except ValidationError as error:
        return Reading(faults=_faults(error, ""))
    found = Reading(reasoning=chain.reasoning)
    if len(chain.chain) > MAX_CHOICES:
        found.faults.append(
            f"toolChain has {len(chain.chain)} entries, at most {MAX_CHOICES} are taken; prefer fewer tools"
        )
    parts = [query_terms(part.text).keys() for part in query.sub_queries]
    for place, raw in enumerate(chain.chain[:MAX_CHOICES]):
        at = f"toolChain[{place}]"
        try:
            entry = Entry.model_validate(raw)
        except ValidationError as error:
            found.faults += _faults(error, at)
            continue
        written = entry.tool.strip()
        tool = written if written in names else resolve(written)
        if tool is None or tool not in names:
            found.faults.append(f"{at}.tool: there is no tool {written[:60]!r}{did_you_mean(written, names)}")
            continue
        found.choices[place] = ToolChoice(
            sub_query=_part_of(str(entry.part), parts),
            tool=tool,
            parameters=entry.parameters,
            confidence=entry.confidence,
            depends_on=tuple(dict.fromkeys(each for each in entry.depends_on if each != place)),
            reasoning=entry.reasoning,
        )
    return found


def _part_of(written: str, parts: Sequence[Collection[str]]) -> int:
    """The sub-query that a model meant: by its position, or by the words that it shares with one."""
    if written.isdecimal() and len(written) < 4 and int(written) < len(parts):
        return int(written)
    terms = query_terms(written[:MAX_TEXT_CHARACTERS]).keys()
    alike = [len(terms & each) / max(len(terms | each), 1) for each in map(set, parts)]
    return alike.index(max(alike))


def read_decomposition(value: Any, query: str) -> tuple[DecomposedQuery | None, list[str]]:
    """Read the parts of a query that a model wrote; or tell what is wrong with them.

    Args:
        value: the model's answer, as `json_in` gives it.
        query: in the user's words.
    """
    try:
        found = _Parts.model_validate(value)
        parts = tuple(
            SubQuery(
                text=each.text,
                kind=each.kind[:80],
                confidence=each.confidence,
                depends_on=tuple(dict.fromkeys(each.depends_on)),
            )
            for each in found.parts
        )
        return checked_decomposition(
            DecomposedQuery(
                query=query, sub_queries=parts, query_type=found.query_type[:80], confidence=found.confidence
            )
        ), []
    except ValidationError as error:
        return None, _faults(error, "")
    except ConfigurationError as error:
        return None, [str(error)]


def _faults(error: ValidationError, at: str) -> list[str]:
    """What is wrong, with the place of each fault."""
    faults = []
    for each in error.errors(include_url=False, include_context=False):
        keys = [f"[{key}]" if isinstance(key, int) else f".{key}" for key in each["loc"]]
        place = "".join((at, *keys)).removeprefix(".") or "the answer"
        got = "" if each["type"] == "missing" else f", got {described(each['input'])}"
        faults.append(f"{place}: {each['msg'].removeprefix('Value error, ')}{got}"[:300])
    return faults


def json_in(text: str) -> tuple[Any, Unread | None, str]:
    """Find the JSON in an answer.

    Returns:
        The value; why the answer is not whole JSON; and the same reason in words for the model. Where the JSON breaks
        off, the value has the entries that are whole.
    """
    if len(text) > MAX_CHARACTERS:
        return None, "half_json", f"the answer has {len(text)} characters, at most {MAX_CHARACTERS} are read"
    text = without_thoughts(text).strip()
    if not text:
        return None, "empty", "the answer is empty; it has to be JSON"
    fenced = _FENCE.search(text)
    for candidate in (text, fenced[1] if fenced else "", text[text.find("{") : text.rfind("}") + 1]):
        with contextlib.suppress(ValueError, RecursionError):
            value = json.loads(candidate)
            if isinstance(value, dict | list):
                return value, None, ""
    if "{" not in text and "[" not in text:
        return None, "prose", "the answer is prose; it has to be JSON, and nothing else"
    return _whole_entries(text) or None, "half_json", "the JSON breaks off or is not well formed"


def _whole_entries(text: str) -> list[Any]:
    """The entries of the list that can be read, from its beginning."""
    found: list[Any] = []
    begun = _LIST.search(text)
    place = begun.end() if begun else -1
    while begun and len(found) < MAX_CHOICES:
        while place < len(text) and text[place] in " \t\r\n,":
            place += 1
        try:
            value, place = _DECODER.raw_decode(text, place)
        except (ValueError, RecursionError):
            break
        found.append(value)
    return found
