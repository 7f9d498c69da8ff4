"""A query as tokens: which of its words carry meaning, and which are values that another query may have others for.

1. Left out: courtesies, articles, and the punctuation that ends sentences. Nothing else: "not", "off", "before" and the
   order of words make another question.
2. A word in lower case, or at the beginning of a sentence, is compared by its stem. What begins with a capital, is a
   number, has a digit in it or stands in quotes is a value. Capitalized words in a row are one value.
3. A possessive ending is told apart from its word.

Knows English and no tools.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Literal

from callgate.search.words import stem

__all__ = ["MAX_QUERY_CHARACTERS", "Token", "TokenKind", "tokens_of"]

MAX_QUERY_CHARACTERS = 2_000
"""A longer query is a document: it has no tokens."""
MAX_TOKENS = 200
_MAX_WORD_CHARACTERS = 64
"""A longer run of letters is no word, and has no stem."""

TokenKind = Literal["word", "name", "number", "code", "quoted"]

_PART = re.compile(r'"([^"\n]{1,500})"|“([^”\n]{1,500})”|[^\s"“”]+|["“”]')
_NUMBER = re.compile(r"[-+]?[0-9]{1,40}(?:[.,][0-9]{1,40}){0,10}")
_POSSESSIVE = re.compile(r"(?<=\w)['’]s$")
_COURTESIES = frozenset({"please", "pls", "kindly", "hello", "hi", "hey", "thanks", "thank-you"})
_ARTICLES = frozenset({"the", "an"})
_BEFORE_ARTICLE = frozenset(
    {"is", "are", "was", "were", "be", "has", "have", "had", "of", "for", "in", "on", "at", "to", "from", "with", "by"}
    | {"as", "about", "into", "and", "or", "but", "than", "like", "find", "get", "show", "give", "tell", "build"}
    | {"make", "create", "write", "need", "want", "see"}
)
"""After these, or at the beginning, "a" is the article; elsewhere it may be a name, as in "vitamin a"."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token.

    Attributes:
        text: as it is written, without the ending.
        kind: ``word``, or what sort of value.
        ending: ``'s`` or empty.
    """

    text: str
    kind: TokenKind
    ending: str = ""

    @property
    def shape(self) -> str:
        """The same for tokens of which one may stand in the other's place."""
        if self.kind != "word":
            return f"{self.kind}{self.ending}"
        text = self.text.casefold()
        return f"w:{stem(text) if len(text) <= _MAX_WORD_CHARACTERS else text}{self.ending}"

    @property
    def exactly(self) -> str:
        """The same for tokens that say the same: case counts for values alone."""
        text = self.text.casefold() if self.kind == "word" else self.text
        return f"{self.kind}:{text}{self.ending}"


def tokens_of(query: str) -> tuple[Token, ...] | None:
    """The tokens of a query; None for one that is too long, or says nothing."""
    if len(query) > MAX_QUERY_CHARACTERS:
        return None
    found: list[Token] = []
    begins, before = True, ""
    for match in _PART.finditer(unicodedata.normalize("NFC", query)):
        quoted = match[1] or match[2]
        if quoted is not None:
            found.append(Token(quoted, "quoted"))
            begins, before = False, ""
            continue
        text = match[0].replace("’", "'")
        bare = _without_end(text)
        ends = bare != text and text[len(bare)] in ".?!"
        if not bare:
            begins = begins or ends
            continue
        ending = "'s" if _POSSESSIVE.search(bare) else ""
        token = _token(bare.removesuffix(ending), ending, begins)
        folded = bare.casefold() if token.kind == "word" else ""
        article = folded in _ARTICLES or (folded == "a" and (begins or before in _BEFORE_ARTICLE))
        if not (folded in _COURTESIES or article):
            _append(found, token)
        if not ends and bare != text and found:  # a comma or a colon: the next name is another one
            found.append(Token(text[len(bare) :], "word"))
        begins, before = ends, folded
    kept = [token for token in found if token.text.strip(",;:") or token.kind == "quoted"]
    return tuple(kept) if 0 < len(kept) <= MAX_TOKENS else None


def _without_end(text: str) -> str:
    """Without the punctuation at its end: of ``5!`` the mark is kept."""
    bare = text.rstrip(".,;:?…")
    while bare.endswith("!") and not bare.rstrip("!")[-1:].isdigit():
        bare = bare.rstrip("!").rstrip(".,;:?…")
    return bare


def _token(text: str, ending: str, begins: bool) -> Token:
    if _NUMBER.fullmatch(text):
        return Token(text, "number", ending)
    if any(c.isdigit() for c in text) or "@" in text or "://" in text:
        return Token(text, "code", ending)
    if text[:1].isupper() and (not begins or (len(text) > 1 and text.isupper())):
        return Token(text, "name", ending)
    return Token(text, "word", ending)


def _append(found: list[Token], token: Token) -> None:
    if token.kind == "name" and found and found[-1].kind == "name" and not found[-1].ending:
        found[-1] = Token(f"{found[-1].text} {token.text}", "name", token.ending)
    else:
        found.append(token)
