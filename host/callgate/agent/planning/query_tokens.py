"""A query as tokens: which of its words carry meaning, and which are values that another query may have others for.

1. Left out: articles, the punctuation that ends sentences, and courtesies where they can be nothing else: "please" at
   the beginning, after "you" or set off by a comma, "hi" before everything else, "thanks" set off by a comma.
   Nothing else: "not", "off", "before" and the order of words make another question; so does a sign that stands alone.
2. A word in lower case, or at the beginning of a sentence, is compared by its stem. What has a capital elsewhere, is a
   number, has a digit in it or stands in quotes is a value. Capitalized words in a row are one value.
3. A value stands in another's place only where both are written in one form: ``1,000`` is no ``100``, ``12.03.2024`` no
   ``2024-03-12``, and ``5km`` no ``7mi``.
4. A possessive ending is told apart from its word.

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
_DIGITS = re.compile(r"[0-9]+")
_LETTERS = re.compile(r"[^\W\d_]+")
_DATE = re.compile(r"([0-9]{1,4})([-/.])[0-9]{1,2}\2([0-9]{1,4})")
_REQUESTS = frozenset({"please", "pls", "kindly"})
_GREETINGS = frozenset({"hello", "hi", "hey"})
_THANKS = frozenset({"thanks", "thank-you"})
_ARTICLES = frozenset({"the", "an"})
_NEVER_NAMES = frozenset(
    {"of", "in", "on", "at", "to", "for", "from", "with", "by", "and", "or", "but", "is", "are", "was", "were", "do"}
    | {"does", "did", "can", "could", "would", "should", "how", "what", "when", "where", "which", "who", "why", "you"}
    | {"me", "my", "your", "we", "our", "it", "its", "this", "that", "these", "those", "not", "all", "any"}
)
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
        leads: whether a clause begins with it: then it may be a verb, whatever it looks like.
    """

    text: str
    kind: TokenKind
    ending: str = ""
    leads: bool = False

    @property
    def may_be_a_word(self) -> bool:
        """Whether it may be no value though it looks like one: ``CANCEL the order``, ``Bob, Cancel it``."""
        return self.leads or (len(self.text) > 1 and self.text.isupper())

    @property
    def shape(self) -> str:
        """The same for tokens of which one may stand in the other's place."""
        if self.kind != "word":
            return f"{self.kind}{_form(self)}{self.ending}"
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
    begins, before, apart = True, "", True
    leads, title = True, _is_title(query)
    for match in _PART.finditer(unicodedata.normalize("NFC", query)):
        quoted = match[1] or match[2]
        if quoted is not None:
            found.append(Token(quoted, "quoted", leads=leads))
            begins, before, apart, leads = False, "", False, False
            continue
        text = match[0].replace("’", "'")
        bare = _without_end(text)
        ends = bare != text and text[len(bare)] in ".?!"
        if not bare:
            found.append(Token(text, "code"))
            begins, before, apart, leads = begins or ends, "", True, True
            continue
        ending = "'s" if _POSSESSIVE.search(bare) else ""
        token = _token(bare.removesuffix(ending), ending, begins or title, leads)
        folded = bare.casefold()
        article = token.kind == "word" and (folded in _ARTICLES or _is_article(folded, begins, before))
        last = not query[match.end() :].strip()
        over = last or (ends and text[-1] != ":") or text[-1] == ","
        courtesy = _is_courtesy(folded, begins=begins, before=before, apart=apart, over=over, first=not found)
        if not (courtesy or article):
            _append(found, token)
        if not ends and bare != text and found:  # a comma or a colon: the next name is another one
            found.append(Token(text[len(bare) :], "word"))
        begins = ends or (begins and courtesy)
        leads = bare != text or (leads and courtesy) or not any(c.isalnum() for c in bare)
        before, apart = folded if token.kind == "word" else "", ends or text[-1] == "," or (apart and courtesy)
    kept = [token for token in found if token.kind != "word" or token.text.strip(",;:")]
    says = any(any(c.isalnum() for c in token.text) or token.kind == "quoted" for token in kept)
    return tuple(kept) if says and len(kept) <= MAX_TOKENS else None


def _is_article(word: str, begins: bool, before: str) -> bool:
    return word == "a" and (begins or before in _BEFORE_ARTICLE)


def _is_courtesy(word: str, *, begins: bool, before: str, apart: bool, over: bool, first: bool) -> bool:
    """Whether a word can be nothing but a courtesy: "what does please mean" asks about it, "translate hi" too.

    Args:
        word: in lower case.
        begins: whether a sentence begins with it.
        before: the word before it.
        apart: whether a sentence or a comma ends before it.
        over: whether a sentence or a comma ends with it.
        first: whether nothing was said before it.
    """
    if word in _REQUESTS:
        return begins or before == "you" or (apart and over)
    return over and ((word in _GREETINGS and first) or (word in _THANKS and apart))


def _form(token: Token) -> str:
    """How a value is written, where others of its kind are written in other ways: a sign and separators of a number,
    the parts of a date, what follows the digits of a measure."""
    date = _DATE.fullmatch(token.text)
    if date is not None:
        first, last = ("year" if len(part) > 2 else "day" for part in (date[1], date[3]))
        return f":{first}{date[2]}{last}"
    match token.kind:
        case "number":
            return ":" + _DIGITS.sub("9", token.text)
        case "code" if token.text[:1].isdigit():
            return ":" + _DIGITS.sub("9", token.text).casefold()
        case "code":
            return ":" + _LETTERS.sub("a", _DIGITS.sub("9", token.text))
        case _:
            return ""


def _without_end(text: str) -> str:
    """Without the punctuation at its end: of ``5!`` the mark is kept."""
    bare = text.rstrip(".,;:?…")
    while bare.endswith("!") and not bare.rstrip("!")[-1:].isdigit():
        bare = bare.rstrip("!").rstrip(".,;:?…")
    return bare


def _is_title(query: str) -> bool:
    """Whether capitals say nothing in it, since words have them that are no names: ``Can You Cancel It``."""
    return any(word.istitle() and word.casefold() in _NEVER_NAMES for word in query.split()[1:])


def _token(text: str, ending: str, begins: bool, leads: bool) -> Token:
    if _NUMBER.fullmatch(text):
        return Token(text, "number", ending, leads)
    if any(c.isdigit() for c in text) or "@" in text or "://" in text:
        return Token(text, "code", ending, leads)
    if text[:1].isupper() and (not begins or any(c.isupper() for c in text[1:])):
        return Token(text, "name", ending, leads)
    if any(c.isupper() for c in text[1:]):  # "iPhone", "`Map`": case says something there
        return Token(text, "code", ending, leads)
    return Token(text, "word", ending, leads)


def _append(found: list[Token], token: Token) -> None:
    if token.kind == "name" and found and found[-1].kind == "name" and not found[-1].ending:
        found[-1] = Token(f"{found[-1].text} {token.text}", "name", token.ending, found[-1].leads)
    else:
        found.append(token)
