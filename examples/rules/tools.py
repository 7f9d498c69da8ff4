"""Tools over the rules: three that search, one that puts passages together, one that holds claims against sections."""

from __future__ import annotations

import re
from typing import Any

from callgate import ToolError, tool
from callgate.tools.faults import did_you_mean

from . import search
from .corpus import Section, sections

__all__ = ["TOOLS"]

_SENTENCE = re.compile(r"(?<=[.;:])\s+(?=[A-Z\"“*])|\n\n+")
_ENOUGH = 0.75
"""So many of a claim's words have to stand in what it cites."""


@tool(
    read_only=True,
    category="search",
    capabilities=["keyword search", "exact match"],
    limitations=["finds words only as they are written: not 'discards' for 'discarded'"],
    examples=[{"query": "What does __exit__ return?", "parameters": {"query": "__exit__"}}],
)
async def keyword_search(query: str, limit: int = 3) -> dict[str, Any]:
    """Sections of Python's language reference that hold these very words.

    Args:
        query: keywords, names, operators.
        limit: how many sections, from 1 to 10.
    """
    return _results(query, search.keyword(query, _checked(limit)))


@tool(
    read_only=True,
    category="search",
    capabilities=["hybrid search", "semantic search", "question answering"],
    limitations=["synonyms stay apart: it compares words and pieces of words"],
    examples=[{"query": "Is a truth value computed lazily?", "parameters": {"query": "lazy evaluation of and, or"}}],
)
async def hybrid_search(query: str, limit: int = 3) -> dict[str, Any]:
    """Sections of Python's language reference with words like these, in whatever form.

    Args:
        query: a question, or words.
        limit: how many sections, from 1 to 10.
    """
    return _results(query, search.hybrid(query, _checked(limit)))


@tool(read_only=True, category="search", capabilities=["lookup by id"])
async def get_section(section: str) -> dict[str, Any]:
    """A section as a whole.

    Args:
        section: its id, as the searches give it.
    """
    found = _section(section)
    return {**_passage(found), "source": _source(found), "confidence": 1.0}


@tool(read_only=True, category="synthesis", capabilities=["synthesis", "extraction", "comparison"])
async def collect_rules(question: str, passages: list[dict[str, Any]], limit: int = 4) -> dict[str, Any]:
    """The sentences of passages that have most to do with a question, word for word.

    Args:
        question: what they should answer.
        passages: results of searches, or sections.
        limit: how many sentences of each passage, from 1 to 10.
    """
    asked = set(search.content_words(question))
    rules = []
    for passage in passages:
        found = _section(str(passage.get("section")))
        sentences = [" ".join(each.split()) for each in _SENTENCE.split(str(passage.get("text", "")))]
        scored = [(len(asked & set(search.content_words(each))), each) for each in sentences]
        best = sorted(scored, key=lambda pair: -pair[0])[: _checked(limit)]
        rules += [{"rule": each, "section": found.id} for score, each in best if score]
    told = " ".join(rule["rule"] for rule in rules)
    return {
        "rules": rules,
        "confidence": _share(asked, told),
        "sources": [_source(_section(id)) for id in dict.fromkeys(rule["section"] for rule in rules)],
    }


@tool(
    read_only=True,
    category="validation",
    capabilities=["validation", "hallucination detection"],
    limitations=["compares words: a claim that turns a sentence into its opposite is not noticed"],
)
async def validate_answer(claims: list[str], sections: list[str]) -> dict[str, Any]:
    """Whether the words of each claim stand in the sections that it cites.

    Args:
        claims: sentences.
        sections: ids of the sections that they rest on.
    """
    cited = [_section(id) for id in sections]
    text = " ".join(f"{each.title} {each.text}" for each in cited)
    checked = []
    for claim in claims:
        words = set(search.content_words(claim))
        missing = sorted(words - set(search.content_words(text)))
        supported = bool(words) and bool(cited) and _share(words, text) >= _ENOUGH
        checked.append({"claim": claim, "supported": supported, "missing": missing})
    shares = [_share(set(search.content_words(claim)), text) for claim in claims]
    return {
        "valid": bool(checked) and all(each["supported"] for each in checked),
        "claims": checked,
        "confidence": min(shares, default=0.0),
        "sources": [_source(each) for each in cited],
    }


TOOLS = [keyword_search, hybrid_search, get_section, collect_rules, validate_answer]


def _checked(limit: int) -> int:
    if not 1 <= limit <= 10:
        raise ToolError(f"limit is from 1 to 10, not {limit}")
    return limit


def _section(id: str) -> Section:
    if id not in sections():
        raise ToolError(f"there is no section {id!r}{did_you_mean(id, sections())}")
    return sections()[id]


def _results(query: str, found: list[tuple[Section, float]]) -> dict[str, Any]:
    """With a confidence: how many of the query's words the best section has."""
    asked = set(search.content_words(query))
    return {
        "results": [{**_passage(section), "score": round(score, 3)} for section, score in found],
        "confidence": _share(asked, found[0][0].text) if found else 0.0,
    }


def _passage(section: Section) -> dict[str, Any]:
    return {"section": section.id, "title": section.title, "text": section.text}


def _source(section: Section) -> dict[str, str]:
    return {"title": section.title, "location": section.id}


def _share(words: set[str], text: str) -> float:
    return round(len(words & set(search.content_words(text))) / len(words), 3) if words else 0.0
