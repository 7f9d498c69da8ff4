"""Text into the words that a search compares: names taken apart, stop words dropped, endings cut.

1. A word is a run of letters and digits. A name is taken apart where its case changes and where digits begin:
   `getHTTPStatus` gives get, http, status. The whole is kept as well, so that `youtube` finds `YouTube`.
2. Case, width and accents do not count.
3. Words are reduced to their stem by Snowball's English stemmer (the second Porter stemmer).
4. Scripts that are written without spaces, and Korean, are cut into pairs of characters.
5. What is in every request ("please", "could you") is dropped; if nothing would be left, nothing is.

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
"""So much of a query is read: a long request, not a document."""
MAX_QUERY_TERMS = 64
"""So many different words of a query count, the first ones."""
MAX_TEXT_CHARACTERS = 8_000
"""So much of a tool's description, and of each other text of it, is read."""
_MAX_WORD_CHARACTERS = 64
"""A longer run of letters is no word: a hash, a key, an attack on the stemmer."""

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

_stemmers = threading.local()  # a stemmer holds the word it works on


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """A word in lower case without its ending."""
    if not hasattr(_stemmers, "english"):
        import snowballstemmer  # 40 modules, for those who search

        _stemmers.english = snowballstemmer.stemmer("english")
    found: str = _stemmers.english.stemWord(word)
    return found


def _plain(text: str) -> str:
    """Without width and accents; case is still needed."""
    if text.isascii():
        return text
    spread = unicodedata.normalize("NFKD", text)
    return unicodedata.normalize("NFC", "".join(c for c in spread if unicodedata.category(c) != "Mn"))


@lru_cache(maxsize=50_000)
def pieces(word: str) -> tuple[str, ...]:
    """The stems of one run of letters and digits, the whole last: ``HTTPStatus`` gives ``http, status, httpstatus``.

    Args:
        word: without white space and underscores.
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
    """The terms of a tool's text, in order, repeated as they occur; read no further than they are asked for."""
    for word in _WORD.findall(_plain(text[:MAX_TEXT_CHARACTERS])):
        yield from pieces(word)


def query_terms(query: str) -> dict[str, int]:
    """The terms of a query, and how often each occurs.

    Args:
        query: at most 4,000 characters and 64 different terms of it are looked at.
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
    """The terms of a query, and the word that each comes from, as it was written first."""
    words = _words(query)
    found: dict[str, str] = {}
    for word in words:
        for term in pieces(word):
            found.setdefault(term, word)
    return found or _stopped(words)


def _words(query: str) -> list[str]:
    return _WORD.findall(_plain(query[:MAX_QUERY_CHARACTERS]))


def _stopped(words: list[str]) -> dict[str, str]:
    """For a query of stop words alone: these."""
    return {stem(word.lower()): word for word in words[:MAX_QUERY_TERMS] if len(word) <= _MAX_WORD_CHARACTERS}
