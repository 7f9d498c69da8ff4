"""Secrets in texts that a name gives away: ``password="..."``, ``token: ...``, ``?api_key=...``, ``Bearer ...``.

1. A quoted text under a secret's name is a secret, at any depth of escaping, and is learned. So are a URL's field and
   password, and what an Authorization header has.
2. A text without quotes under such a name (``PASSWORD=hunter2``, ``token: hunter2``) is hidden there, and not learned:
   it may be an ordinary word. In a program it is the name of a variable, and stays, unless it is a number.
3. Time is linear in the length of a text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from functools import lru_cache, partial
from typing import Final

from .secret_keys import REDACTED, joined

__all__ = ["NamedSecrets"]

_HINTS: Final = ("earer ", "asic ", "://")
_SELF_EVIDENT: Final = re.compile(
    r"\b(?:[Bb]earer|[Bb]asic) (?P<scheme>[\w.~+/-]{8,}=*)"
    r"|://[^\s/@:\"']{0,200}:(?P<user>[^\s/@\"']{1,1000})@"
)
"""An Authorization header, a URL's password."""
_TAIL: Final = 3
_MAX_NAME: Final = 80
_QUOTED: Final = re.compile(
    r"[bBrRfFuU]{0,2}(?:"
    r'"""(?P<a>[\s\S]*?)(?:"""|\Z)|' + r"'''(?P<b>[\s\S]*?)(?:'''|\Z)|"
    r'"(?P<c>(?:[^"\\\n]|\\[\s\S]|"(?=\w))*)(?:"|\n|\Z)|'
    r"'(?P<d>(?:[^'\\\n]|\\[\s\S]|'(?=\w))*)(?:'|\n|\Z)|"
    r"(?P<escape>\\{1,15})(?P<mark>[\"'])(?P<e>[\s\S]*?)(?:(?<!\\)(?P=escape)(?P=mark)|\Z))"
)
"""A text in quotes, or in quotes that are escaped."""
_MAX_ESCAPED: Final = 4
"""Levels of escaping that are undone."""
_FIELD: Final = re.compile(r"(?P<value>[^&\s\"'#<>]+)")
_TIGHT: Final = re.compile(r"(?P<value>(?:[^\s\"'`,;&\\]|\\(?![nrt\"'\\]))+)")
_LOOSE: Final = re.compile(
    r"(?:(?:bearer|basic|digest|token|apikey) +)?(?P<value>[^\s\"'`,;()\[\]{}<>\\]+)", re.IGNORECASE
)
_ALONE: Final = re.compile(r"[ \t]*(?:[\r\n,;)\]}\"'`\\]|\Z)")
"""Follows a value that is the last word of its line, or of its item. Before more words it is prose, or code."""
_NUMBER: Final = re.compile(r"(?P<value>\d+)(?![\w.])")
_MAX_WORD: Final = 1000
"""Characters of a word that can be prose or code."""
_COOKIES: Final = re.compile(r"(?P<value>[^\s=;\"'\\]{1,256}=[^\r\n\"'\\]*)")
_NO_VALUES: Final = frozenset(
    {
        "any", "array", "bool", "boolean", "bytes", "dict", "false", "float", "int", "integer", "list", "none", "null",
        "number", "object", "optional", "required", "secretbytes", "secretstr", "str", "string", "true", "undefined",
    }
)  # fmt: skip
"""Types, and words for nothing."""


class NamedSecrets:
    """Finds what stands under the names of secrets.

    Args:
        keys: the names.
        is_secret_key: whether a name ends with one of them.
    """

    def __init__(self, keys: Collection[str], is_secret_key: Callable[[str], bool]) -> None:
        self._is_secret_key = is_secret_key
        self._sign = _pattern(frozenset(key[-_TAIL:] for key in map(joined, keys) if key))

    def struck(self, text: str, learn: Callable[[str], None], *, is_program: bool = False) -> str:
        """The text without what stands under the name of a secret.

        Args:
            text: any text.
            learn: receives the secrets.
            is_program: whether the text is a Python program, which keeps its names and its number of lines.
        """
        if any(hint in text for hint in _HINTS):
            text = _SELF_EVIDENT.sub(partial(_hidden, learn), text)
        pieces: list[str] = []
        at = shown = 0
        while (found := self._sign.search(text, at)) is not None:
            at = found.end()
            name, before = _name_before(text, found.start("behind"))
            if not self._is_secret_key(name):
                continue
            value = _value(text, found, name, before, is_program)
            if value is None:
                continue
            at = value.end()
            begin, end = value.span(value.lastgroup or 0)
            secret = text[begin:end]
            is_certain = value.re in (_QUOTED, _FIELD)
            if not is_certain:
                secret = secret.rstrip(")]}>")
            if secret in ("", REDACTED):
                continue
            if is_certain:
                _learn(secret, learn)
            lines = secret.count("\n") if is_program else 0
            pieces += (text[shown:begin], REDACTED, "\n" * lines)
            shown = begin + len(secret)
        return "".join([*pieces, text[shown:]]) if pieces else text


@lru_cache(maxsize=16)
def _pattern(tails: frozenset[str]) -> re.Pattern[str]:
    """The last letters of a name, and its sign.

    Args:
        tails: the last letters of the names. The pattern has classes of letters, which are ten times as fast as names.
    """
    if not tails:
        return re.compile("(?!)(?P<behind>)(?P<sign>)")
    length = min(map(len, tails))
    classes = ["".join(f"{tail[-at].lower()}{tail[-at].upper()}" for tail in tails) for at in range(length, 0, -1)]
    letters = "".join(f"[{re.escape(''.join(sorted(set(each))))}]" for each in classes)
    return re.compile(rf"{letters}[_.-]{{0,3}}(?P<behind>)\\{{0,15}}[\"']?\]?(?P<sign>\s{{0,3}}(?::|==?|=>)\s{{0,3}})")


def _name_before(text: str, end: int) -> tuple[str, str]:
    """The name that ends there, and the character before it."""
    begin = end
    while begin and end - begin < _MAX_NAME and (text[begin - 1].isalnum() or text[begin - 1] in "_.-"):
        begin -= 1
    name = text[begin:end].lstrip("-.0123456789")
    before = text[end - len(name) - 1 : end - len(name)]
    return (name[1:] if before == "\\" and name[:1] in ("n", "r", "t") else name), before


def _hidden(learn: Callable[[str], None], found: re.Match[str]) -> str:
    begin, end = (each - found.start() for each in found.span(found.lastgroup or 0))
    _learn(found[0][begin:end], learn)
    return f"{found[0][:begin]}{REDACTED}{found[0][end:]}"


def _value(text: str, found: re.Match[str], name: str, before: str, is_program: bool) -> re.Match[str] | None:
    """What stands under a secret's name; the last group is the secret."""
    at = found.end()
    if (quoted := _QUOTED.match(text, at)) is not None:
        return quoted
    if found["sign"] == "=" and before in ("?", "&"):
        return _FIELD.match(text, at)
    if is_program:
        return _NUMBER.match(text, at)
    if name.lower().endswith("cookie") and (cookies := _COOKIES.match(text, at)):
        return cookies
    is_tight = found["sign"] == "="
    value = (_TIGHT if is_tight else _LOOSE).match(text, at)
    if value is None or value["value"].lower() in _NO_VALUES or value["value"].startswith("[redacted"):
        return None
    return value if is_tight or _ALONE.match(text, value.end()) or len(value["value"]) > _MAX_WORD else None


def _learn(secret: str, learn: Callable[[str], None]) -> None:
    """Learn a secret as it stands in a text, and without what escapes it there."""
    learn(secret)
    for _ in range(_MAX_ESCAPED):
        if "\\" not in secret:
            return
        try:
            secret = str(json.loads(f'"{secret}"'))
        except (ValueError, RecursionError):
            secret = secret.replace("\\\\", "\\")
        learn(secret)
