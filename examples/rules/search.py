"""Two searches over the sections, both by bm25s (https://github.com/xhluca/bm25s), over indexes that are built
differently:

- *words as they are written*: ``__exit__``, ``except*`` and ``nonlocal`` are words, none is stemmed. For exact terms.
- *pieces of words*: every run of four characters of each word, so that ``discards``, ``discarded`` and ``discard`` have
  most of them in common. It finds rules that are worded otherwise. It is no neural embedding: synonyms stay apart.

The hybrid search joins both by reciprocal rank fusion (Cormack, Clarke and Büttcher, 2009).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from functools import cache

import bm25s

from .corpus import Section, sections

__all__ = ["content_words", "hybrid", "keyword", "piecewise"]

Found = list[tuple[Section, float]]

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\*?")
_PLAIN_WORDS = """about above after all also an and any are as at be because been but by can could did do does for from
had happens has have how if in into is it its may might more most no not of on one only or other should so some such
than that the their them then there these they this to used was were what when where whether which while who why will
with would you"""
_PLAIN = frozenset(_PLAIN_WORDS.split())
_PIECE = 4
_FUSION = 60
"""The constant of reciprocal rank fusion, as its authors have it."""


def content_words(text: str) -> list[str]:
    """The words of a text that mean something, in lower case."""
    return [word for word in _words(text) if len(word) > 1 and word not in _PLAIN]


def keyword(query: str, limit: int) -> Found:
    """Sections with these very words, the best first."""
    return _search(_words, query, limit)


def piecewise(query: str, limit: int) -> Found:
    """Sections with words like these, the best first."""
    return _search(_pieces, query, limit)


def hybrid(query: str, limit: int) -> Found:
    """What both find, the best first. Scores are from 0 to 1: 1 is the first of both."""
    scores: dict[str, float] = defaultdict(float)
    for search in (keyword, piecewise):
        for rank, (section, _) in enumerate(search(query, 50)):
            scores[section.id] += (_FUSION + 1) / (_FUSION + 1 + rank) / 2
    best = sorted(scores, key=lambda id: (-scores[id], id))[:limit]
    return [(sections()[id], scores[id]) for id in best]


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _pieces(text: str) -> list[str]:
    pieces = []
    for word in content_words(text):
        padded = f"^{word}$"
        pieces += [padded[at : at + _PIECE] for at in range(max(len(padded) - _PIECE + 1, 1))]
    return pieces


@cache
def _index(pieces_of: Callable[[str], list[str]]) -> tuple[bm25s.BM25, list[Section], set[str]]:
    """Built once, in a fraction of a second."""
    listed = list(sections().values())
    # a heading counts three times: it says what the section is about
    texts = [pieces_of(f"{(section.title + ' ') * 3} {section.text}") for section in listed]
    index = bm25s.BM25()
    index.index(texts, show_progress=False)
    return index, listed, {piece for text in texts for piece in text}


def _search(pieces_of: Callable[[str], list[str]], query: str, limit: int) -> Found:
    index, listed, known = _index(pieces_of)
    asked = [piece for piece in pieces_of(query) if piece in known]
    if pieces_of is _words:
        asked = [word for word in asked if word not in _PLAIN] or asked
    if not asked:
        return []
    found, scores = index.retrieve([asked], k=min(limit, len(listed)), show_progress=False)
    return [(listed[number], float(score)) for number, score in zip(found[0], scores[0], strict=True) if score > 0]
