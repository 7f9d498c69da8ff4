"""Splits text into the words that a search compares: splits names, drops stop words, cuts endings.

1. A word is a run of letters and digits. A name is split where its case changes and where digits begin: `getHTTPStatus`
   gives get, http, status. The whole name is a word as well, so that `youtube` finds `YouTube`.
2. Case, width and accents do not matter.
3. Words are reduced to their stem by Snowball's English stemmer (the second Porter stemmer).
4. Korean, and scripts without spaces between words, are cut into pairs of characters.
5. Words of every request ("please", "could you") are dropped, unless nothing else is left.

Knows English and no tools.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

__all__ = [
    "MAX_QUERY_CHARACTERS",
    "MAX_QUERY_TERMS",
    "MAX_TEXT_CHARACTERS",
    "STOP_WORDS",
    "pieces",
    "query_terms",
    "stem",
    "text_terms",
    "words_of",
]

MAX_QUERY_CHARACTERS = 4_000
"""Most characters of a query that are read: a long request, not a document."""
MAX_QUERY_TERMS = 64
"""Most different words of a query that count, the first ones."""
MAX_TEXT_CHARACTERS = 8_000
"""Most characters of each of a tool's texts that are read."""
_MAX_WORD_CHARACTERS = 64
"""Most letters of a word; a longer run is a hash, a key or an attack on the stemmer."""

_WORD = re.compile(r"[^\W_]+")
_PIECE = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[^\W\dA-Z_]+|[A-Z]+|\d+")
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]+")
"""Thai, Lao, Burmese, Khmer, kana, Han, Hangul."""

_GRAMMAR = """
a an and are as at be been being but by for from had has have if in into is it its no not of off on or out so such than
that the their them then there these they this those to too was were will with i me my mine we us our you your he him
his she her who whom what which when where why how do does did done doing am can could may might must shall should would
about above after again all also any because before both during each few here just more most only other same some under
until up very while don t m d ve ll s re let
"""
_REQUESTS = """
please need want like help provide give tell show assist additionally planning interested know able looking fetch
"""
STOP_WORDS = frozenset((_GRAMMAR + _REQUESTS).split())

_stemmers = threading.local()  # a stemmer stores the word it works on


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """The stem of a word in lower case."""
    if not hasattr(_stemmers, "english"):
        import snowballstemmer  # 40 modules, imported only for searches

        _stemmers.english = snowballstemmer.stemmer("english")
    found: str = _stemmers.english.stemWord(word)
    return found


def _plain(text: str) -> str:
    """The text without width and accents. Case stays: names are split by it."""
    if text.isascii():
        return text
    spread = unicodedata.normalize("NFKD", text)
    return unicodedata.normalize("NFC", "".join(c for c in spread if unicodedata.category(c) != "Mn"))


@lru_cache(maxsize=50_000)
def pieces(word: str) -> tuple[str, ...]:
    """The stems of one run of letters and digits, the whole last: ``HTTPStatus`` gives ``http, status, httpstatus``.

    Args:
        word: a text without white space and underscores.
    """
    if not word or len(word) > _MAX_WORD_CHARACTERS:
        return ()
    if not word.isascii() and _UNSPACED.search(word):
        return _pairs(word)
    whole = word.lower()
    parts = _PIECE.findall(word)
    if len(parts) < 2:
        return () if whole in STOP_WORDS else (stem(whole),)
    found = [stem(part) for each in parts if (part := each.lower()) not in STOP_WORDS]
    return (*found, stem(whole))


def _pairs(word: str) -> tuple[str, ...]:
    found: list[str] = []
    rest = 0
    for run in _UNSPACED.finditer(word):
        found += pieces(word[rest : run.start()])
        signs, rest = run.group(), run.end()
        found += [signs[n : n + 2] for n in range(len(signs) - 1)] or [signs]
    found += pieces(word[rest:])
    return tuple(found)


def text_terms(text: str) -> Iterator[str]:
    """The terms of a tool's text, in order, with repetitions. Reads lazily."""
    for word in _WORD.findall(_plain(text[:MAX_TEXT_CHARACTERS])):
        yield from pieces(word)


def query_terms(query: str) -> dict[str, int]:
    """The terms of a query, and how often each occurs.

    Args:
        query: any text; at most 4,000 characters and 64 different terms count.
    """
    words = _words(query)
    found: dict[str, int] = {}
    for word in words:
        for term in pieces(word):
            if term in found:
                found[term] += 1
            elif len(found) < MAX_QUERY_TERMS:
                found[term] = 1
    return found or dict.fromkeys(_stopped(words), 1)


def words_of(query: str) -> dict[str, str]:
    """The terms of a query, and the first word from which each comes, as it was written."""
    words = _words(query)
    found: dict[str, str] = {}
    for word in words:
        for term in pieces(word):
            found.setdefault(term, word)
    return found or _stopped(words)


def _words(query: str) -> list[str]:
    return _WORD.findall(_plain(query[:MAX_QUERY_CHARACTERS]))


def _stopped(words: list[str]) -> dict[str, str]:
    """The terms of a query of stop words alone."""
    return {stem(word.lower()): word for word in words[:MAX_QUERY_TERMS] if len(word) <= _MAX_WORD_CHARACTERS}
