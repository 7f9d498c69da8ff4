"""What a model wrote, read: a decomposition or a chain of choices, and every fault of it, in words for the model. Asks
nobody and checks no arguments.

A model's words are bounded before they are looked at: their length, the number of entries, the depth of values. Both
spellings of fields are read (``toolChain``, ``tool_chain``), a block of code around the JSON is taken off, and of JSON
that breaks off the entries that are whole are read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from callgate.agent.models.thoughts import said
from callgate.search.words import query_terms
from callgate.tools.encoding import NotJson, compact_json
from callgate.tools.faults import described, did_you_mean, printable

from .choice_references import positions_in, spelled_by_id
from .prompts import MAX_CHOICES, MAX_PARTS
from .tool_plan import DecomposedQuery, SubQuery, ToolChoice

__all__ = ["ReadChoice", "ReadSelection", "read_decomposition", "read_selection"]

MAX_CHARACTERS = 200_000
"""So much of an answer is read."""
MAX_DEPTH = 40
"""Levels that parameters may have."""
MAX_PARAMETERS_CHARACTERS = 64 * 1024
MAX_TEXT_CHARACTERS = 4_000
"""Of a reasoning, and of a sub-query."""
UNSAID_CONFIDENCE = 0.5
"""Of a choice that does not say how sure it is."""

_FENCE = re.compile(r"```[a-zA-Z]*[ \t]*\n(.*?)```", re.DOTALL)
_LIST = re.compile(r'"(?:toolChain|tool_chain|subQueries|sub_queries)"\s*:\s*\[')
_MAX_STARTS = 50
_MAX_FAULT = 300
_DECODER = json.JSONDecoder()
"""It takes NaN, too: whether that is wrong is said of the value that it is."""
_REFERS_TO_CHOICE = re.compile(r"^c?([0-9]{1,4})$")

_CHAIN = ("toolChain", "tool_chain", "toolchain", "chain", "tools", "steps")
_TOOL = ("tool", "tool_name", "toolName", "name")
_PARAMETERS = ("parameters", "params", "arguments", "args", "input")
_PART = ("subQuery", "sub_query", "subquery")
_PARTS = ("subQueries", "sub_queries", "subqueries")
_NEEDS = ("dependsOn", "depends_on", "dependencies")
_WHY = ("reasoning", "reason")
_TYPE = ("queryType", "query_type", "type")


@dataclass(frozen=True, slots=True)
class ReadChoice:
    """An entry of the chain.

    Attributes:
        position: in the chain as it was written.
        choice: what it says; None where it cannot be used.
        faults: why not.
        part: the sub-query it is for, as far as it says.
    """

    position: int
    choice: ToolChoice | None
    faults: tuple[str, ...]
    part: int | None


@dataclass(frozen=True, slots=True)
class ReadSelection:
    """An answer to the question which tools are to be used.

    Attributes:
        entries: of the chain, in its order.
        reasoning: why these.
        faults: of the answer as a whole; those of entries are theirs.
        notes: what was read as what it must have meant.
    """

    entries: tuple[ReadChoice, ...]
    reasoning: str = ""
    faults: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def read_selection(
    text: str, query: DecomposedQuery, names: Sequence[str], resolve: Callable[[str], str | None]
) -> ReadSelection:
    """A chain of choices as a model wrote it.

    Args:
        text: its answer.
        query: that it is for.
        names: of the tools that there are.
        resolve: the tool's name for any other way to write it; None where there is none.
    """
    value, fault = _json_in(text)
    if value is None:
        return ReadSelection((), faults=(fault,))
    if isinstance(value, list):
        value = {"toolChain": value}
    faults = [fault] if fault else []
    chain = _field(value, _CHAIN)
    if chain is None and isinstance(_field(value, _TOOL), str) and _field(value, _PARAMETERS) is not None:
        chain = [value]  # one entry, without the chain around it
    if not isinstance(chain, list):
        got = "is missing" if chain is None else f"is {described(chain)}"
        return ReadSelection((), _words(_field(value, _WHY)), (*faults, f"toolChain {got}; it has to be an array"))
    if len(chain) > MAX_CHOICES:
        faults.append(f"toolChain has {len(chain)} entries, at most {MAX_CHOICES} are taken; prefer fewer tools")
    reading = _Entries(query, names, resolve, min(len(chain), MAX_CHOICES))
    entries = tuple(reading.entry(place, each) for place, each in enumerate(chain[:MAX_CHOICES]))
    return ReadSelection(entries, _words(_field(value, _WHY)), tuple(faults), tuple(reading.notes))


class _Entries:
    """Reads the entries of one chain."""

    def __init__(
        self, query: DecomposedQuery, names: Sequence[str], resolve: Callable[[str], str | None], count: int
    ) -> None:
        self.notes: list[str] = []
        self._query = query
        self._names = names
        self._resolve = resolve
        self._count = count

    def entry(self, place: int, raw: Any) -> ReadChoice:
        at = f"toolChain[{place}]"
        if not isinstance(raw, dict):
            return ReadChoice(place, None, (f"{at} is {described(raw)}; it has to be an object",), None)
        faults: list[str] = []
        part = self._part(at, _field(raw, _PART))
        tool = self._tool(at, _field(raw, _TOOL), faults)
        parameters = self._parameters(at, _field(raw, _PARAMETERS), faults)
        needs = self._needs(at, place, _field(raw, _NEEDS), faults)
        beyond = sorted(each for each in positions_in(parameters) if each >= self._count or each == place)
        if beyond:
            what = "itself" if beyond[0] == place else f"c{beyond[0]}, and there is no such entry"
            faults.append(f"{at} refers to {what}")
        if faults or tool is None:
            return ReadChoice(place, None, tuple(faults), part)
        choice = ToolChoice(
            sub_query=part,
            tool=tool,
            parameters=parameters,
            confidence=self._confidence(at, raw.get("confidence")),
            depends_on=needs,
            reasoning=_words(_field(raw, _WHY)),
        )
        return ReadChoice(place, choice, (), part)

    def _tool(self, at: str, raw: Any, faults: list[str]) -> str | None:
        if not isinstance(raw, str) or not raw.strip():
            faults.append(f"{at}.tool is {'missing' if raw is None else described(raw)}; it has to be a tool's name")
            return None
        written = raw.strip()
        name = written if written in self._names else self._resolve(written)
        if name not in self._names and len(alike := [each for each in self._names if _same(each, written)]) == 1:
            name = alike[0]
            self.notes.append(f"{at}.tool {written[:60]!r} was taken for {name!r}")
        if name not in self._names:
            faults.append(f"{at}.tool: there is no tool {written[:60]!r}{did_you_mean(written, self._names)}")
            return None
        return name

    def _parameters(self, at: str, raw: Any, faults: list[str]) -> dict[str, Any]:
        value = raw
        if isinstance(raw, str) and raw.strip():
            try:
                value = json.loads(raw)
            except (ValueError, RecursionError) as error:
                faults.append(f"{at}.parameters: they are no JSON: {error}")
                return {}
        if value is None or value == "":
            return {}
        if not isinstance(value, dict):
            faults.append(f"{at}.parameters has to be an object, got {described(value)}")
        elif _depth(value) > MAX_DEPTH:
            faults.append(f"{at}.parameters has more than {MAX_DEPTH} levels")
        elif len(json.dumps(value)) > MAX_PARAMETERS_CHARACTERS:
            faults.append(f"{at}.parameters is longer than {MAX_PARAMETERS_CHARACTERS} characters")
        else:
            try:
                compact_json(value)
            except NotJson as error:  # NaN, a number beyond all bounds, half a character
                faults.append(f"{at}.parameters: {error}"[:_MAX_FAULT])
                return {}
            return {str(name): spelled_by_id(each) for name, each in value.items()}
        return {}

    def _needs(self, at: str, place: int, raw: Any, faults: list[str]) -> tuple[int, ...]:
        found: dict[int, None] = {}
        for each in raw if isinstance(raw, list) else () if raw is None else (raw,):
            position = _position(each)
            if position is None or position >= self._count or position == place:
                shown = each[:40] if isinstance(each, str) else each if isinstance(each, int) else described(each)
                faults.append(f"{at}.dependsOn: {shown!r} is no other entry of toolChain")
            else:
                found[position] = None
        return tuple(found)

    def _confidence(self, at: str, raw: Any) -> float:
        value = _share(raw)
        if value is None:
            if raw is not None:
                self.notes.append(f"{at}.confidence is {described(raw)}, and was taken for {UNSAID_CONFIDENCE}")
            return UNSAID_CONFIDENCE
        return value

    def _part(self, at: str, raw: Any) -> int:
        """The sub-query that is meant: by position, by its words, by the words it has most of."""
        parts = self._query.sub_queries
        if isinstance(raw, int) and not isinstance(raw, bool) and 0 <= raw < len(parts):
            return raw
        if len(parts) == 1:
            return 0
        if isinstance(raw, str):
            wanted = " ".join(raw[:MAX_TEXT_CHARACTERS].split()).casefold()
            for place, part in enumerate(parts):
                if " ".join(part.text.split()).casefold() == wanted:
                    return place
            if wanted.isdecimal() and len(wanted) < 4 and int(wanted) < len(parts):
                return int(wanted)
            terms = query_terms(wanted).keys()
            shared = [len(terms & query_terms(part.text).keys()) for part in parts]
            if max(shared):
                return shared.index(max(shared))
        self.notes.append(f"{at}.subQuery is none of the sub-queries, and was taken for the first")
        return 0


def read_decomposition(text: str, query: str) -> tuple[DecomposedQuery | None, tuple[str, ...]]:
    """A query in parts as a model wrote it, or what is wrong with it."""
    value, fault = _json_in(text)
    if value is None:
        return None, (fault,)
    if isinstance(value, list):
        value = {"subQueries": value}
    raw = _field(value, _PARTS)
    if not isinstance(raw, list) or not raw:
        got = "is missing" if raw is None else "is empty" if raw == [] else f"is {described(raw)}"
        return None, (f"subQueries {got}; it has to be an array with at least one entry",)
    faults = [fault] if fault else []
    if len(raw) > MAX_PARTS:
        faults.append(f"subQueries has {len(raw)} entries, at most {MAX_PARTS} are taken")
    parts: list[SubQuery] = []
    for place, each in enumerate(raw[:MAX_PARTS]):
        at = f"subQueries[{place}]"
        entry = {"text": each} if isinstance(each, str) else each
        words = _words(_field(entry, ("text", "query", "question", *_PART))) if isinstance(entry, dict) else ""
        if not words:
            faults.append(f"{at}.text is missing")
            continue
        needs = _field(entry, _NEEDS)
        positions = [_position(one) for one in needs] if isinstance(needs, list) else []
        wrong = [one for one in positions if one is None or one >= min(len(raw), MAX_PARTS) or one == place]
        if wrong or not isinstance(needs, (list, type(None))):
            faults.append(f"{at}.dependsOn has to be a list of positions of other sub-queries")
        confidence = _share(entry.get("confidence"))
        parts.append(
            SubQuery(
                text=words,
                kind=_words(entry.get("kind"))[:80],
                confidence=UNSAID_CONFIDENCE if confidence is None else confidence,
                depends_on=tuple(dict.fromkeys(one for one in positions if one is not None and one not in wrong)),
            )
        )
    if faults:
        return None, tuple(faults)
    confidence = _share(value.get("confidence"))
    return (
        DecomposedQuery(
            query=query,
            sub_queries=tuple(parts),
            query_type=_words(_field(value, _TYPE))[:80],
            confidence=UNSAID_CONFIDENCE if confidence is None else confidence,
        ),
        (),
    )


def _json_in(text: str) -> tuple[dict[str, Any] | list[Any] | None, str]:
    """The JSON of an answer, and what is wrong with it: both, where it breaks off and something of it is whole."""
    if len(text) > MAX_CHARACTERS:
        return None, f"the answer has {len(text)} characters, at most {MAX_CHARACTERS} are read"
    text = said(text).strip()
    if not text:
        return None, "the answer is empty; it has to be JSON"
    fenced = _FENCE.search(text)
    for candidate in (text, fenced[1] if fenced else ""):
        try:
            value = json.loads(candidate)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, (dict, list)):
            return value, ""
    start = -1
    for _ in range(_MAX_STARTS):
        start = text.find("{", start + 1)
        if start < 0:
            break
        try:
            value, _ = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        if _field(value, (*_CHAIN, *_PARTS)) is not None:
            return value, ""
    if "{" not in text:
        return None, "the answer is prose; it has to be JSON, and nothing else"
    whole = _whole_entries(text)
    fault = "the JSON breaks off or is not well formed"
    return (whole or None), fault


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


def _same(name: str, written: str) -> bool:
    return len(name) == len(written) and name.casefold() == written.casefold()


def _field(value: Any, names: Sequence[str]) -> Any:
    """The first field of these that is there."""
    if not isinstance(value, Mapping):
        return None
    return next((value[name] for name in names if value.get(name) is not None), None)


def _words(raw: Any) -> str:
    """Text as one line, bounded; empty for what is no text."""
    if not isinstance(raw, str):
        return ""
    return printable(" ".join(raw[:MAX_TEXT_CHARACTERS].split()))


def _share(raw: Any) -> float | None:
    """A number from 0 to 1, also where it is written as text; None for anything else."""
    if isinstance(raw, str) and len(raw) < 20:
        try:
            raw = float(raw)
        except ValueError:
            return None
    if isinstance(raw, bool) or not isinstance(raw, (int, float)) or not 0 <= raw <= 1:  # NaN, too
        return None
    return float(raw)


def _position(raw: Any) -> int | None:
    if isinstance(raw, str):
        match = _REFERS_TO_CHOICE.match(raw.strip())
        return int(match[1]) if match else None
    return raw if isinstance(raw, int) and not isinstance(raw, bool) and raw >= 0 else None


def _depth(value: Any) -> int:
    """Levels of a value, as far as `MAX_DEPTH` and one more."""
    level, inside = 0, [value]
    while inside and level <= MAX_DEPTH:
        level += 1
        inside = [
            each
            for one in inside
            if isinstance(one, (dict, list))
            for each in (one.values() if isinstance(one, dict) else one)
        ]
    return level
