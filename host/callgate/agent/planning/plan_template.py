"""A selection of tools with holes where the values of its query stood: what may be used again for another query, and
what may not.

A selection is *general* where everything in it comes from somewhere else than the one query's values: every text and
number in parameters is a value or a word of the query (which another query has its own for), a reference to another
choice, what the tool's schema has as its default, or one of its `enum` (then the query's words that say so have to be
the same). Anything else (a synonym, a date worked out from "tomorrow") may depend on the values: such a selection is
for the very same words alone. A value that a tool speaks of ("search GitHub for ...") may have been what the tool was
chosen by: it has to be the same, and no other value may take a place that the tools speak of.

Puts values in and takes them out; keeps nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from callgate.tools.registry import ToolInfo

from .query_tokens import Token, tokens_of
from .tool_plan import DecomposedQuery, Selection, SubQuery, ToolChoice

__all__ = ["Spoken", "Template", "template_of"]

_REFERENCE = re.compile(r"\$\{[^{}]*\}")
_FILLING = re.compile(r"(?:[\s.,;:?!'\"()-]|(?<!\w)(?:the|a|an)(?!\w))*", re.IGNORECASE)
_DEICTIC = frozenset(
    {"today", "tonight", "tomorrow", "yesterday", "now", "currently", "current", "latest", "recent", "recently"}
    | {"this", "next", "last", "ago", "upcoming", "since", "until", "past", "coming", "soon", "later", "earlier"}
    | {"noon", "midnight", "morning", "afternoon", "evening", "night", "weekend", "old", "age"}
    | {"second", "minute", "hour", "day", "week", "month", "quarter", "year"}
    | {"seconds", "minutes", "hours", "days", "weeks", "months", "quarters", "years"}
    | {"monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"}
)
"""Words whose meaning changes with the day or the hour: what was worked out from them is not used again."""
_WORD = re.compile(r"[^\W_]+")
_LEAST_IN_NAME = 3
"""Letters of a value that is looked for in the names of tools, of which words are no part of others."""
_REFERS = re.compile(r"\$[\w{$]")
"""What the plan language may take for a reference: a value of another query's is data."""
_MAX_LEAF = 4_000
_SMALL = 10
"""A number below may stand in the query and in the parameters by chance: it has to be the same."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """What tools speak of: a choice among them may go by it.

    Attributes:
        words: in which they say what they are for.
        names: of the tools, in lines.
    """

    words: frozenset[str]
    names: str

    @classmethod
    def of(cls, tools: Sequence[ToolInfo]) -> Spoken:
        """By these tools. Their parameters do not count: what they take is for them to say, once they are chosen."""
        texts = (
            text
            for tool in tools
            for text in (tool.description, tool.category or "", *tool.capabilities, *tool.limitations)
        )
        words = frozenset(word for text in texts for word in _WORD.findall(text.casefold()))
        return cls(words, "\n".join(tool.name.casefold() for tool in tools))

    def has(self, token: Token) -> bool:
        """Whether a value is spoken of. Numbers are not, nor what stands in quotes: that is meant as it stands."""
        if token.kind not in ("name", "code"):
            return False
        said = [word for word in _WORD.findall(token.text.casefold()) if not word.isdecimal()]
        return any(word in self.words or (len(word) >= _LEAST_IN_NAME and word in self.names) for word in said)


@dataclass(frozen=True, slots=True)
class _Whole:
    """The query's text, or that of a sub-query."""

    part: int | None


@dataclass(frozen=True, slots=True)
class _Text:
    """Text with tokens of the query in it."""

    pieces: tuple[str | tuple[int, str], ...]
    """Words as they are, and positions of tokens with how they are written: ``as``, ``lower``, ``upper``, ``title``."""


@dataclass(frozen=True, slots=True)
class _Number:
    token: int
    whole: bool


class _CannotFill(Exception):
    """The other query has no value of this sort there."""


_CASES: Mapping[str, Callable[[str], str]] = {"as": str, "lower": str.lower, "upper": str.upper, "title": str.title}


@dataclass(frozen=True, slots=True)
class Template:
    """A selection that may be used again.

    Attributes:
        tokens: of the query that it was made for.
        general: whether it is for other values, too.
        fixed: positions of the tokens that have to be the very same.
        spoken: what the tools speak of.
        chain: the choices, with holes in their parameters.
        query: in its parts, with holes, where a model took it apart; else None.
        selection: as it was made.
    """

    tokens: tuple[Token, ...]
    general: bool
    fixed: frozenset[int]
    spoken: Spoken
    chain: tuple[tuple[ToolChoice, Any], ...]
    parts: tuple[tuple[SubQuery, Any], ...] | None
    query: DecomposedQuery
    selection: Selection

    def fits(self, tokens: Sequence[Token]) -> bool:
        """Whether it is right for a query of these tokens."""
        if len(tokens) != len(self.tokens):
            return False
        if not self.general:
            return all(one.exactly == other.exactly for one, other in zip(self.tokens, tokens, strict=True))
        same: dict[str, str] = {}
        for place, (one, other) in enumerate(zip(self.tokens, tokens, strict=True)):
            if one.shape != other.shape or (place in self.fixed and one.exactly != other.exactly):
                return False
            if one.exactly != other.exactly and (self.spoken.has(one) or self.spoken.has(other)):
                return False
            if one.kind == "word" and _forms(one.text).isdisjoint(_forms(other.text)):
                return False  # a stem may be that of several words: "import" and "importance" have one
            if same.setdefault(one.text.casefold(), other.text.casefold()) != other.text.casefold():
                return False  # one value stood in two places, and two stand there now
        return True

    def filled(
        self, query: str, tokens: Sequence[Token], given: DecomposedQuery | None
    ) -> tuple[DecomposedQuery, Selection] | None:
        """The query in its parts, and the selection, with another query's values.

        Args:
            query: that has these tokens.
            tokens: for which `fits` is true.
            given: the caller's own decomposition.

        Returns:
            None where a value cannot be put in.
        """
        said, before = _said(query, given), _said(self.query.query, given and self.query)
        if any(one != other and _REFERS.search(one) for one, other in zip(said, before, strict=True)):
            return None
        filler = _Filler(query, tokens, given)
        try:
            decomposed = given or self._decomposed(query, filler)
            chain = tuple(replace(choice, parameters=filler.put(hollow)) for choice, hollow in self.chain)
        except _CannotFill:
            return None
        if [each.exactly for each in tokens] == [each.exactly for each in self.tokens]:
            return decomposed, replace(self.selection, chain=chain)
        chain = tuple(replace(choice, reasoning="") for choice in chain)
        reasoning = "the same tools as for an earlier query of this form"
        return decomposed, replace(self.selection, chain=chain, reasoning=reasoning)

    def _decomposed(self, query: str, filler: _Filler) -> DecomposedQuery:
        if self.parts is None:
            return replace(self.query, query=query)
        parts = tuple(replace(part, text=filler.put(hollow)) for part, hollow in self.parts)
        return replace(self.query, query=query, sub_queries=parts)


def template_of(
    tokens: tuple[Token, ...],
    query: DecomposedQuery,
    selection: Selection,
    tools: Mapping[str, ToolInfo],
    *,
    given: bool,
    spoken: Spoken,
) -> Template | None:
    """A template of a selection; None where it is not to be used again at all.

    Args:
        tokens: of the query, and of the caller's own sub-queries.
        query: in its parts.
        selection: made for it.
        tools: by name, those that it chooses.
        given: whether the decomposition is the caller's own, and comes with each query.
        spoken: what the tools speak of, all that there are.
    """
    maker = _Hollower(tokens, query, given)
    parts = None if given else tuple((part, maker.hollow(part.text, None)) for part in query.sub_queries)
    maker.used.clear()  # a value counts as used where a tool gets it
    chain = tuple(
        (choice, maker.hollow(dict(choice.parameters), tools[choice.tool].parameters)) for choice in selection.chain
    )
    general = not maker.unexplained
    if maker.left_out:
        return None
    if not general and any(token.text.casefold() in _DEICTIC for token in tokens):
        return None
    used = {tokens[place].text.casefold() for place in maker.used}
    unused = {place for place, token in enumerate(tokens) if token.kind != "word" and token.text.casefold() not in used}
    fixed = frozenset(maker.fixed | unused)
    return Template(tokens, general, fixed, spoken, chain, parts, query, selection)


def _said(query: str, given: DecomposedQuery | None) -> list[str]:
    return [query, *(part.text for part in given.sub_queries)] if given is not None else [query]


class _Hollower:
    """Takes the query's values out of a selection."""

    def __init__(self, tokens: Sequence[Token], query: DecomposedQuery, given: bool) -> None:
        self.unexplained = False
        self.left_out = False
        """Whether a text is nothing but what is left out of the query: an article, a sign."""
        self.used: set[int] = set()
        self.fixed: set[int] = set()
        self._tokens = tokens
        self._wholes: dict[str, tuple[_Whole, range]] = {}
        end = len(tokens)
        if given:
            for place, part in reversed(list(enumerate(query.sub_queries))):
                begin = end - len(tokens_of(part.text) or ())
                self._wholes[part.text.strip()] = (_Whole(place), range(begin, end))
                end = begin
        self._wholes[query.query.strip()] = (_Whole(None), range(end))
        self._places: dict[str, int] = {}
        for place, token in enumerate(tokens):
            self._places.setdefault(token.text.casefold(), place)
        self._said = "\n".join(_said(query.query, query)).casefold()
        self._line = " ".join(token.text for token in tokens)
        texts = sorted({token.text for token in tokens}, key=len, reverse=True)
        self._pattern = re.compile("|".join(rf"(?<!\w){re.escape(text)}(?!\w)" for text in texts), re.IGNORECASE)

    def hollow(self, value: Any, schema: Any) -> Any:
        """The value with holes."""
        known = schema if isinstance(schema, Mapping) else {}
        if isinstance(value, str):
            return self._constant(value, known) or self._text(value)
        if isinstance(value, dict):
            properties = known.get("properties")
            properties = properties if isinstance(properties, Mapping) else {}
            if set(value) <= {"$ref"} and isinstance(value.get("$ref"), str):
                return self._reference(value["$ref"], value)
            if not all(name in properties for name in value):
                self.unexplained = True  # a key may be made of a value, too
            return {name: self.hollow(each, properties.get(name)) for name, each in value.items()}
        if isinstance(value, list):
            return [self.hollow(each, known.get("items")) for each in value]
        if isinstance(value, bool) or value is None or ("default" in known and known["default"] == value):
            if "default" not in known or known["default"] != value:
                self.unexplained = True
            return value
        return self._number(value)

    def _constant(self, value: str, schema: Mapping[str, Any]) -> str | None:
        """The value, where it is no text that was made for the query."""
        if value.startswith("$ref:"):
            self._reference(value, value)
            return value
        if "default" in schema and schema["default"] == value:
            return value
        if "enum" in schema or "const" in schema:
            named = [place for place, token in enumerate(self._tokens) if token.text.casefold() == value.casefold()]
            self.fixed.update(named)
            self.unexplained = self.unexplained or not named
            return value
        return None

    def _reference(self, written: str, value: Any) -> Any:
        """The value, which is a reference; its path may name a value of the query: ``$ref:c0.prices.AAPL``."""
        path = written.casefold()
        if any(token.kind != "word" and token.text.casefold() in path for token in self._tokens):
            self.unexplained = True
        return value

    def _number(self, value: float) -> Any:
        for place, token in enumerate(self._tokens):
            if token.kind == "number" and token.text == str(value):
                if abs(value) < _SMALL:
                    self.fixed.add(place)
                    return value
                self.unexplained = self.unexplained or self._stands_elsewhere(token.text)
                self.used.add(place)
                return _Number(place, isinstance(value, int))
        self.unexplained = True
        return value

    def _text(self, value: str) -> Any:
        whole = self._wholes.get(value.strip())
        if whole is not None:
            self.used.update(place for place in whole[1] if not self._tokens[place].may_be_a_word)
            return whole[0]
        if len(value) > _MAX_LEAF:
            self.unexplained = True
            return value
        pieces: list[str | tuple[int, str]] = []
        end = 0
        for match in self._pattern.finditer(value):
            place = self._places.get(match[0].casefold())
            case = None if place is None else _case(self._tokens[place].text, match[0])
            if place is None or case is None:
                continue
            self.unexplained = self.unexplained or self._stands_elsewhere(match[0])
            self._between(value[end : match.start()])
            pieces += [value[end : match.start()], (place, case)]
            self.used.add(place)
            end = match.end()
        self._between(value[end:])
        if not pieces and value.strip() and _FILLING.fullmatch(value):
            self.unexplained = True
            self.left_out = self.left_out or value.strip().casefold() in self._said
        return _Text((*pieces, value[end:]))

    def _stands_elsewhere(self, text: str) -> bool:
        """Whether the query says it in another place, too, there as a part of something else: which one is meant?"""
        said = re.findall(rf"(?<!\w){re.escape(text)}(?!\w)", self._line, re.IGNORECASE)
        return len(said) != sum(token.text.casefold() == text.casefold() for token in self._tokens)

    def _between(self, text: str) -> None:
        if not _FILLING.fullmatch(_REFERENCE.sub(" ", text)):
            self.unexplained = True


@dataclass(frozen=True, slots=True)
class _Filler:
    """Puts another query's values in."""

    query: str
    tokens: Sequence[Token]
    given: DecomposedQuery | None

    def put(self, hollow: Any) -> Any:
        match hollow:
            case _Whole(None):
                return self.query
            case _Whole(part) if part is not None and self.given is not None:
                return self.given.sub_queries[part].text
            case _Text(pieces):
                return "".join(
                    each if isinstance(each, str) else _CASES[each[1]](self.tokens[each[0]].text) for each in pieces
                )
            case _Number(token, whole):
                return _number_in(self.tokens[token].text, whole)
            case dict():
                return {name: self.put(each) for name, each in hollow.items()}
            case list():
                return [self.put(each) for each in hollow]
            case _:
                return hollow


def _forms(word: str) -> set[str]:
    """The word, and what it may be the plural or the gerund of."""
    word = word.casefold()
    forms = {word}
    if len(word) > 3 and word.endswith("s") and not word.endswith("ss"):
        forms |= {word[:-1], word.removesuffix("es")}
    if len(word) > 5 and word.endswith("ing"):
        forms |= {word[:-3], f"{word[:-3]}e", word[:-4] if word[-4] == word[-5] else word}
    return forms


def _number_in(text: str, whole: bool) -> float:
    try:
        value = int(text) if whole else float(text)
    except ValueError:
        raise _CannotFill from None
    if whole and str(value) != text:  # "+5", "007": somebody may mean something by that
        raise _CannotFill
    return value


def _case(token: str, written: str) -> str | None:
    """How a token is written in a value."""
    return next((name for name, change in _CASES.items() if change(token) == written), None)
