"""What a model wrote, read: a decomposition or a chain of choices, and every fault of it, in words for the model. Asks
nobody and checks no arguments.

A model's words are bounded before they are looked at: their length, the number of entries, the depth of values. The
spellings that models use for a field are its aliases; a block of code around the JSON is taken off, and of JSON that
breaks off the entries that are whole are read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
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
from callgate.search.words import query_terms
from callgate.tools.encoding import NotJson, compact_json
from callgate.tools.faults import described, did_you_mean, printable

from .chain import cycle_in, positions_in
from .tool_plan import DecomposedQuery, SubQuery, ToolChoice

__all__ = ["MAX_CHOICES", "MAX_PARTS", "Reading", "Unread", "json_in", "read_decomposition", "read_selection"]

MAX_PARTS = 12
"""The most sub-queries of a query."""
MAX_CHOICES = 32
"""The most tools that are chosen for a query."""
MAX_CHARACTERS = 200_000
"""A longer answer is not read."""
MAX_DEPTH = 40
"""Levels that parameters may have."""
MAX_PARAMETERS_CHARACTERS = 64 * 1024
MAX_TEXT_CHARACTERS = 4_000
"""Of a reasoning, and of a sub-query."""
UNSAID_CONFIDENCE = 0.5
"""Of a choice that does not say how sure it is, or says it in no number from 0 to 1."""

Unread = Literal["prose", "half_json", "empty"]
"""Why an answer is not JSON."""

_FENCE = re.compile(r"```[a-zA-Z]*[ \t]*\n(.*?)```", re.DOTALL)
_LIST = re.compile(r'"(?:toolChain|tool_chain|subQueries|sub_queries)"\s*:\s*\[')
_FIELDS = frozenset({"toolChain", "tool_chain", "toolchain", "chain", "tools", "steps", "subQueries", "sub_queries"})
_MAX_STARTS = 50
_DECODER = json.JSONDecoder()
"""It takes NaN, too: the field that has one says what is wrong."""


def _share(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    try:
        return UNSAID_CONFIDENCE if isinstance(value, bool) else handler(value)
    except ValidationError:
        return UNSAID_CONFIDENCE


def _words(value: Any) -> str:
    return printable(" ".join(value[:MAX_TEXT_CHARACTERS].split())) if isinstance(value, str) else ""


def _position(value: Any) -> Any:
    written = value.strip().removeprefix("c") if isinstance(value, str) else value
    return int(written) if isinstance(written, str) and written.isdecimal() and len(written) < 5 else written


def _listed(value: Any) -> Any:
    return [] if value is None else value if isinstance(value, list) else [value]


def _arguments(value: Any) -> Any:
    """Parameters, also where they are written as text; within bounds."""
    if isinstance(value, str) and value.strip():
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"this is not JSON: {error}") from None
    if value is None or value == "":
        return {}
    if not isinstance(value, dict):
        return value
    if _depth(value) > MAX_DEPTH:
        raise ValueError(f"there are more than {MAX_DEPTH} levels")
    try:
        long = len(compact_json(value)) > MAX_PARAMETERS_CHARACTERS
    except NotJson as error:  # NaN, a number beyond all bounds, half a character
        raise ValueError(str(error)[:300]) from None
    if long:
        raise ValueError(f"this is longer than {MAX_PARAMETERS_CHARACTERS} characters")
    return value


def _depth(value: Any) -> int:
    """Levels of a value, as far as `MAX_DEPTH` and one more."""
    level, inside = 0, [value]
    while inside and level <= MAX_DEPTH:
        level += 1
        inside = [
            each
            for one in inside
            if isinstance(one, dict | list)
            for each in (one.values() if isinstance(one, dict) else one)
        ]
    return level


_Words = Annotated[str, BeforeValidator(_words)]
_Share = Annotated[Annotated[float, Field(ge=0, le=1)], WrapValidator(_share)]
_Positions = Annotated[list[Annotated[int, BeforeValidator(_position), Field(ge=0)]], BeforeValidator(_listed)]

_CHAIN = AliasChoices("toolChain", "tool_chain", "toolchain", "chain", "tools", "steps")
_PART = AliasChoices("subQuery", "sub_query", "subquery")
_PARTS = AliasChoices("subQueries", "sub_queries", "subqueries")
_NEEDS = AliasChoices("dependsOn", "depends_on", "dependencies")
_WHY = AliasChoices("reasoning", "reason")


class _Entry(BaseModel):
    """An entry of the chain."""

    part: Any = Field(None, validation_alias=_PART)
    tool: Annotated[str, Field(min_length=1)] = Field(
        validation_alias=AliasChoices("tool", "tool_name", "toolName", "name")
    )
    parameters: Annotated[dict[str, Any], BeforeValidator(_arguments)] = Field(
        {}, validation_alias=AliasChoices("parameters", "params", "arguments", "args", "input")
    )
    confidence: _Share = UNSAID_CONFIDENCE
    depends_on: _Positions = Field([], validation_alias=_NEEDS)
    reasoning: _Words = Field("", validation_alias=_WHY)


class _Chain(BaseModel):
    """An answer to the question which tools are to be used."""

    chain: list[Any] = Field(validation_alias=_CHAIN)
    reasoning: _Words = Field("", validation_alias=_WHY)

    @model_validator(mode="before")
    @classmethod
    def _around(cls, value: Any) -> Any:
        """A list, or one entry, without the object around it."""
        if isinstance(value, dict) and "tool" in value and not _FIELDS & value.keys():
            value = [value]
        return {"toolChain": value} if isinstance(value, list) else value


class _Part(BaseModel):
    """A sub-query."""

    text: Annotated[_Words, Field(min_length=1)] = Field(
        validation_alias=AliasChoices("text", "query", "question", "subQuery", "sub_query", "subquery")
    )
    kind: _Words = ""
    confidence: _Share = UNSAID_CONFIDENCE
    depends_on: _Positions = Field([], validation_alias=_NEEDS)

    @model_validator(mode="before")
    @classmethod
    def _around(cls, value: Any) -> Any:
        return {"text": value} if isinstance(value, str) else value


class _Parts(BaseModel):
    """A query in its parts."""

    parts: Annotated[list[_Part], Field(min_length=1, max_length=MAX_PARTS)] = Field(validation_alias=_PARTS)
    query_type: _Words = Field("", validation_alias=AliasChoices("queryType", "query_type", "type"))
    confidence: _Share = UNSAID_CONFIDENCE

    @model_validator(mode="before")
    @classmethod
    def _around(cls, value: Any) -> Any:
        return {"subQueries": value} if isinstance(value, list) else value


@dataclass(slots=True)
class Reading:
    """An answer to the question which tools are to be used, read.

    Attributes:
        choices: that can be used, by their positions in the chain.
        reasoning: why these.
        faults: of the answer and of its entries.
        notes: what was read as what it must have meant.
        wrong_parts: sub-queries of the entries that cannot be used.
    """

    choices: dict[int, ToolChoice] = field(default_factory=dict)
    reasoning: str = ""
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    wrong_parts: set[int] = field(default_factory=set)


def read_selection(
    value: Any, query: DecomposedQuery, names: Sequence[str], resolve: Callable[[str], str | None]
) -> Reading:
    """A chain of choices as a model wrote it.

    Args:
        value: its answer, as `json_in` gives it.
        query: that it is for.
        names: of the tools that there are.
        resolve: the tool's name for any other way to write it; None where there is none.
    """
    found = Reading()
    try:
        chain = _Chain.model_validate(value)
    except ValidationError as error:
        found.faults = _faults(error, "")
        return found
    found.reasoning = chain.reasoning
    count = min(len(chain.chain), MAX_CHOICES)
    if len(chain.chain) > count:
        found.faults.append(f"toolChain has {len(chain.chain)} entries, at most {count} are taken; prefer fewer tools")
    for place, raw in enumerate(chain.chain[:count]):
        at = f"toolChain[{place}]"
        part = 0
        try:
            if isinstance(raw, dict):
                part = _part_of(
                    next((raw[name] for name in _PART.choices if name in raw), None), query, at, found.notes
                )
            entry = _Entry.model_validate(raw)
            tool = _tool(entry.tool.strip(), names, resolve, at, found.notes)
        except (ValidationError, ValueError) as error:
            faults = _faults(error, at) if isinstance(error, ValidationError) else [f"{at}.tool: {error}"]
        else:
            beyond = sorted(n for n in {*positions_in(entry.parameters), *entry.depends_on} if n >= count or n == place)
            faults = [
                f"{at} refers to {'itself' if n == place else f'c{n}, and there is no such entry'}" for n in beyond[:1]
            ]
            if not faults:
                found.choices[place] = ToolChoice(
                    sub_query=part,
                    tool=tool,
                    parameters=entry.parameters,
                    confidence=entry.confidence,
                    depends_on=tuple(dict.fromkeys(entry.depends_on)),
                    reasoning=entry.reasoning,
                )
        if faults:
            found.faults += faults
            found.wrong_parts.add(part)
    return found


def _tool(written: str, names: Sequence[str], resolve: Callable[[str], str | None], at: str, notes: list[str]) -> str:
    name = written if written in names else resolve(written)
    if name is not None and name in names:
        return name
    alike = [each for each in names if len(each) == len(written) and each.casefold() == written.casefold()]
    if len(alike) != 1:
        raise ValueError(f"there is no tool {written[:60]!r}{did_you_mean(written, names)}")
    notes.append(f"{at}.tool {written[:60]!r} was taken for {alike[0]!r}")
    return alike[0]


def _part_of(raw: Any, query: DecomposedQuery, at: str, notes: list[str]) -> int:
    """The sub-query that is meant: by position, by its words, by the words it has most of."""
    parts = query.sub_queries
    if len(parts) == 1:
        return 0
    wanted = _words(raw).casefold() if isinstance(raw, str) else str(raw)
    words = [" ".join(part.text.split()).casefold() for part in parts]
    if wanted in words:
        return words.index(wanted)
    if wanted.isdecimal() and len(wanted) < 4 and int(wanted) < len(parts):
        return int(wanted)
    terms = query_terms(wanted).keys()
    shared = [len(terms & query_terms(each).keys()) for each in words]
    if not max(shared):
        notes.append(f"{at}.subQuery is none of the sub-queries, and was taken for the first")
    return shared.index(max(shared))


def read_decomposition(value: Any, query: str) -> tuple[DecomposedQuery | None, list[str]]:
    """A query in parts as a model wrote it, or what is wrong with it.

    Args:
        value: its answer, as `json_in` gives it.
        query: as the user put it.
    """
    try:
        found = _Parts.model_validate(value)
    except ValidationError as error:
        return None, _faults(error, "")
    count = len(found.parts)
    faults = [
        f"subQueries[{place}].dependsOn: {need} is the position of no other sub-query"
        for place, part in enumerate(found.parts)
        for need in part.depends_on
        if need >= count or need == place
    ]
    if not faults and (circle := cycle_in({place: part.depends_on for place, part in enumerate(found.parts)})):
        faults = [f"the sub-queries need each other in a circle: {' → '.join(map(str, circle))}"]
    if faults:
        return None, faults
    parts = tuple(
        SubQuery(
            text=each.text, kind=each.kind[:80], confidence=each.confidence, depends_on=tuple(set(each.depends_on))
        )
        for each in found.parts
    )
    return DecomposedQuery(
        query=query, sub_queries=parts, query_type=found.query_type[:80], confidence=found.confidence
    ), []


def _faults(error: ValidationError, at: str) -> list[str]:
    """What is wrong, in words for the model, with the place of each."""
    said = []
    for each in error.errors(include_url=False, include_context=False):
        path = at
        for key in each["loc"]:
            path += f"[{key}]" if isinstance(key, int) else f".{key}" if path else key
        match each["type"]:
            case "missing":
                problem = "is missing"
            case "model_type" | "model_attributes_type" | "dict_type":
                problem = f"has to be an object, got {described(each['input'])}"
            case "list_type":
                problem = f"has to be an array, got {described(each['input'])}"
            case "too_long":
                problem = f"has too many entries: {each['msg']}"
            case _:
                problem = f"does not fit: {each['msg'].removeprefix('Value error, ')}"
        said.append(f"{path or 'the answer'} {problem}"[:300])
    return said


def json_in(text: str) -> tuple[Any, Unread | None, str]:
    """The JSON of an answer, why it is not JSON, and that in words; JSON as well, where it breaks off after something
    whole."""
    if len(text) > MAX_CHARACTERS:
        return None, "half_json", f"the answer has {len(text)} characters, at most {MAX_CHARACTERS} are read"
    text = without_thoughts(text).strip()
    if not text:
        return None, "empty", "the answer is empty; it has to be JSON"
    fenced = _FENCE.search(text)
    for candidate in (text, fenced[1] if fenced else ""):
        try:
            value = json.loads(candidate)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict | list):
            return value, None, ""
    start = -1
    for _ in range(_MAX_STARTS):
        start = text.find("{", start + 1)
        if start < 0:
            break
        try:
            value, _ = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        if _FIELDS & value.keys():
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
