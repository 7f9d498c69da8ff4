"""Splits words that were written together: `weatherbycity` becomes weather, by, city if tools use these words.

The case of a name shows where its words begin, and models that write the name from memory leave the case out. There is
no dictionary: a word is a word of the tools. Dynamic programming from the end finds the fewest parts, and among these
the parts with the shortest endings: `sendemail` is send, email, and not sende, mail.

Bounded: only the first two words of a short query that no tool uses. A long query is a sentence, whose unknown words
are names, or words that no tool has.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from .words import STOP_WORDS, stem

__all__ = ["MAX_QUERY_TERMS_SPLIT", "begins_of", "split", "split_all"]

MAX_QUERY_TERMS_SPLIT = 6
"""Most different terms of a query whose words are split."""
_MAX_WORDS = 2
_SHORTEST, _LONGEST = 6, 32
_LEAST = 3
"""Fewest letters of a part; stop words between parts may have two."""
_MOST_PARTS = 6

_NONE = (_MOST_PARTS + 1, 0, 0)


def begins_of(terms: Collection[str]) -> frozenset[str]:
    """The first three letters of each term. They rule out most possible parts of a word quickly."""
    return frozenset(term[:_LEAST] for term in terms if len(term) >= _LEAST)


def split_all(
    words: Mapping[str, str], known: Callable[[str], bool], begins: Callable[[], Collection[str]]
) -> dict[str, str]:
    """The parts of a query's unknown words as they were written, by their stems.

    Args:
        words: the words of the query as they were written, by their terms.
        known: whether some tool has a term.
        begins: returns `begins_of` all known terms.
    """
    found: dict[str, str] = {}
    unknown = dict.fromkeys(word.lower() for term, word in words.items() if not known(term))
    for word in list(unknown)[:_MAX_WORDS]:
        if _SHORTEST <= len(word) <= _LONGEST and word.isascii() and word.isalpha():
            for part in split(word, known, begins()):
                found.setdefault(stem(part), part)
    return found


def split(word: str, known: Callable[[str], bool], begins: Collection[str]) -> tuple[str, ...]:
    """The known parts of a word, without stop words between them; empty if there are fewer than two.

    Args:
        word: lower-case letters a to z.
        known: whether some tool has a term.
        begins: `begins_of` all known terms.
    """
    size = len(word)
    # by the start of a part: the number of parts to the end, letters of their endings, and the end of this part
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
    parts = tuple(part for part in found if part not in STOP_WORDS)
    return parts if len(parts) > 1 else ()
