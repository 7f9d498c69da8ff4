"""Words that were written together, taken apart: `weatherbycity` is weather, by, city where tools say these.

A name says where its words begin by its case, and models that write it from memory leave that out. There is no
dictionary: what counts as a word is what the tools say. Dynamic programming from the end finds the fewest parts, and of
these the ones with the shortest endings: `sendemail` is send, email, and not sende, mail.

Bounded: only words that no tool says, in short queries, and of those the first two. A long request is a sentence, in
which an unknown word is a name or simply not there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from .words import STOP_WORDS, stem

__all__ = ["MAX_QUERY_TERMS_SPLIT", "begins_of", "split", "split_all"]

MAX_QUERY_TERMS_SPLIT = 6
"""In a query of more different terms nothing is taken apart."""
_MAX_WORDS = 2
_SHORTEST, _LONGEST = 6, 32
_LEAST = 3
"""Letters of a part; stop words between parts may have two."""
_MOST_PARTS = 6

_NONE = (_MOST_PARTS + 1, 0, 0)


def begins_of(terms: Collection[str]) -> frozenset[str]:
    """The first three letters of each term: most of what a word could be cut into begins with no term's."""
    return frozenset(term[:_LEAST] for term in terms if len(term) >= _LEAST)


def split_all(
    words: Mapping[str, str], known: Callable[[str], bool], begins: Callable[[], Collection[str]]
) -> dict[str, str]:
    """The parts of a query's unknown words, as they stand in the word, by their stems.

    Args:
        words: the words of the query as they were written, by their terms.
        known: whether some tool says a term.
        begins: `begins_of` all terms that are known; asked for where a word is to be taken apart.
    """
    found: dict[str, str] = {}
    unknown = dict.fromkeys(word.lower() for term, word in words.items() if not known(term))
    for word in list(unknown)[:_MAX_WORDS]:
        if _SHORTEST <= len(word) <= _LONGEST and word.isascii() and word.isalpha():
            for part in split(word, known, begins()):
                found.setdefault(stem(part), part)
    return found


def split(word: str, known: Callable[[str], bool], begins: Collection[str]) -> tuple[str, ...]:
    """The parts of a word that tools say, without stop words between them; nothing where it has not two of these.

    Args:
        word: lower-case letters a to z.
        known: whether some tool says a term.
        begins: `begins_of` all terms that are known.
    """
    size = len(word)
    # by where a part begins: how many parts to the end, letters of their endings, and where this part ends
    best = [_NONE] * size + [(0, 0, size)]
    for start in range(size - 2, -1, -1):
        may_be_known = word[start : start + _LEAST] in begins
        for end in range(size, start + 1, -1):
            count, endings, _ = best[end]
            if count + 1 > best[start][0]:
                continue
            part = word[start:end]
            if part not in STOP_WORDS:
                if not may_be_known or end - start < _LEAST or not known(term := stem(part)):
                    continue
                endings += end - start - len(term)
            best[start] = min(best[start], (count + 1, endings, end))
    if best[0][0] > _MOST_PARTS:
        return ()
    found = []
    at = 0
    while at < size:
        end = best[at][2]
        found.append(word[at:end])
        at = end
    said = tuple(part for part in found if part not in STOP_WORDS)
    return said if len(said) > 1 else ()
