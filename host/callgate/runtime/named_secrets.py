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
from collections.abc import Callable
from typing import Final

from .known_secrets import REDACTED

__all__ = ["without_named"]

_HINTS: Final = ("=", ":", "earer ", "asic ")
_FOUND: Final = re.compile(
    r"(?<![\w.])(?<!\w-)(?:(?<=\\)[nrt])?(?P<key>[A-Za-z_][\w.-]{0,80})\\{0,15}[\"']?\]?(?P<sign>\s{0,3}(?::|==?|=>)\s{0,3})"
    r"|\b(?:[Bb]earer|[Bb]asic) (?P<scheme>[\w.~+/-]{8,}=*)"
    r"|://[^\s/@:\"']{0,200}:(?P<user>[^\s/@\"']{1,1000})@"
)
"""A name and its sign, an Authorization header, a URL's password."""
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


def without_named(
    text: str, is_secret_key: Callable[[str], bool], learn: Callable[[str], None], *, is_program: bool = False
) -> str:
    """The text without what stands under the name of a secret.

    Args:
        text: any text.
        is_secret_key: whether a name is one of a secret.
        learn: receives the secrets.
        is_program: whether the text is a Python program, which keeps its names and its number of lines.
    """
    if not any(hint in text for hint in _HINTS):
        return text
    pieces: list[str] = []
    at = shown = 0
    while (found := _FOUND.search(text, at)) is not None:
        at, span, is_certain = found.end(), found.span(found.lastgroup or 0), True
        if found["key"] is not None:
            at = found.end("key")
            value = _value(text, found, is_program) if is_secret_key(found["key"]) else None
            if value is None:
                continue
            span, is_certain = value.span(value.lastgroup or 0), value.re in (_QUOTED, _FIELD)
            at = value.end()
        secret = text[span[0] : span[1]]
        if not is_certain:
            secret = secret.rstrip(")]}>")
        if secret in ("", REDACTED):
            continue
        if is_certain:
            _learn(secret, learn)
        lines = secret.count("\n") if is_program else 0
        pieces += (text[shown : span[0]], REDACTED, "\n" * lines)
        shown = span[0] + len(secret)
    return "".join([*pieces, text[shown:]]) if pieces else text


def _value(text: str, found: re.Match[str], is_program: bool) -> re.Match[str] | None:
    """What stands under a secret's name; the last group is the secret."""
    at = found.end()
    if (quoted := _QUOTED.match(text, at)) is not None:
        return quoted
    if found["sign"] == "=" and text[found.start() - 1 : found.start()] in ("?", "&"):
        return _FIELD.match(text, at)
    if is_program:
        return _NUMBER.match(text, at)
    if found["key"].lower().endswith("cookie") and (cookies := _COOKIES.match(text, at)):
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
