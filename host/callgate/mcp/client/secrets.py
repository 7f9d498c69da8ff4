"""The secret values of a configuration, and texts without them.

1. A value is secret if its name sounds secret, or if the value looks random. Plain short words are not secret: hiding
   ``issues`` would make holes in the description of every tool.
2. A secret is hidden as it stands; a secret of several lines also line by line and on one line. A server that encodes
   its own credentials is not stopped: the operator gave it these credentials.

Knows names, values and texts; not where they come from.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

__all__ = ["Secrets", "looks_random", "sounds_secret"]

_HIDDEN = "***"
_SCHEMES = ("bearer", "basic", "token", "apikey", "digest")
_SHORTEST = 6
"""Characters of the shortest value that is hidden."""

_SECRET = re.compile(
    r"token|secret|passw|passphrase|credential|cookie|authorization|bearer|private|connection|session|keys?$"
    r"|(^|[_\W])(auth|pat|pass|pwd|key|dsn|jwt|signature|sig)([_\W]|$)|(^|[_\W])(api|access)$",
    re.IGNORECASE,
)
_RANDOM_FROM = 16
_WORD = re.compile(r"[^\W_]+")
_PLAIN_WORD = re.compile(
    r"[A-Z]*[a-z]*(?:[A-Z][a-z]{2,})*[0-9]{0,4}|[0-9]{1,15}[A-Za-z]?|.{1,7}|[A-Za-z]*+[^\x00-\x7f][^\W\d_]*+"
)
"""``issues``, ``readOnly``, ``HTTPServer2``, ``2024``; and any short word."""


def sounds_secret(name: str) -> bool:
    """Whether the value under this name should be hidden."""
    return _SECRET.search(name) is not None


def looks_random(value: str) -> bool:
    """Whether a value has at least 16 characters, a digit, and a word that is not an ordinary one."""
    if len(value) < _RANDOM_FROM or not any(map(str.isdigit, value)):
        return False
    return any(_PLAIN_WORD.fullmatch(word) is None for word in _WORD.findall(value))


class Secrets:
    """Values that are hidden."""

    def __init__(self) -> None:
        self._values: list[str] = []  # the longest first

    def add_named(self, name: str, value: str) -> None:
        """Hide this value if its name sounds secret or the value looks random, and the secrets in it if it is a URL."""
        if sounds_secret(name) or looks_random(value) or value.partition(" ")[0].lower() in _SCHEMES:
            self.add(value)
        if "://" in value:
            try:
                parts = urlsplit(value)
            except ValueError:
                return
            self.add_url(parts)
            if parts.password:
                self.add(value)

    def add(self, *values: str) -> None:
        """Hide these values, and the rest of a value that begins with ``Bearer`` or another scheme of HTTP."""
        found = set(self._values)
        for value in values:
            scheme, _, rest = value.strip().partition(" ")
            found |= {value, " ".join(value.split()), *map(str.strip, value.splitlines())}
            found.add(rest if scheme.lower() in _SCHEMES else value)
        self._values = sorted((each for each in found if len(each) >= _SHORTEST), key=lambda each: (-len(each), each))

    def add_url(self, parts: SplitResult) -> None:
        """Hide the user and the password of a URL and the secrets in its query, both encoded and decoded."""
        for pair in parts.query.split("&"):
            name, _, value = pair.partition("=")
            if sounds_secret(unquote(name)) or looks_random(unquote(value)) or (not value and looks_random(name)):
                self.add(parts.query, value, unquote(value))
        self.add(parts.netloc.rpartition("@")[0])
        for written in (parts.username or "", parts.password or ""):
            self.add(written, unquote(written))

    def hide(self, text: str) -> str:
        """The text with every secret replaced. Hide first and cut afterwards: a part of a secret is not found."""
        for value in self._values:
            text = text.replace(value, _HIDDEN)
        return text

    def hide_in(self, value: Any) -> Any:
        """A JSON value with every secret in its texts replaced, keys included."""
        if not self._values:
            return value
        if isinstance(value, str):
            return self.hide(value)
        if isinstance(value, list):
            return [self.hide_in(each) for each in value]
        if isinstance(value, dict):
            return {self.hide_in(key): self.hide_in(each) for key, each in value.items()}
        return value
