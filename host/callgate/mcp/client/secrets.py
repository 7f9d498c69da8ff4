"""What must not be seen of a configuration, and texts without it.

1. Secret is a value whose name sounds so, and another one that looks random. Plain short words never are: hiding
   ``issues`` would make holes in what every tool says of itself.
2. A secret is hidden as it stands, and as others write it: percent-encoded, and in base64, also where it is a part of
   what was encoded (a password in ``Basic`` credentials).
3. Texts that were cut are looked at too: what is left of a secret at their ends is hidden.

Knows names, values and texts; not where they come from.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Any
from urllib.parse import SplitResult, unquote, unquote_plus, urlsplit

from .needles import SHORTEST, Needles, Text

__all__ = ["Secrets", "looks_random", "sounds_secret"]

_HIDDEN = "***"
_SCHEMES = ("bearer", "basic", "token", "apikey", "digest")
_LONE = "surrogatepass"
_CUT = "..."
"""How `one_line` ends what it cut."""
MAX_CUTS = 8
"""The last ones in one text; what stands before earlier ones is shown."""

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
"""``issues``, ``readOnly``, ``HTTPServer2``, ``2024``; and whatever is short."""
_ENCODED = re.compile(rb"%[0-9A-Fa-f]{2}")
_UNIT = re.compile(rb"%[0-9A-Fa-f]{2}|[\s\S]")


def sounds_secret(name: str) -> bool:
    """Whether what stands under this name should not be seen."""
    return _SECRET.search(name) is not None


def looks_random(value: str) -> bool:
    """Whether it has at least 16 characters, digits among them, and a word as nobody writes one."""
    if len(value) < _RANDOM_FROM or not any(map(str.isdigit, value)):
        return False
    return any(_PLAIN_WORD.fullmatch(word) is None for word in _WORD.findall(value))


class Secrets:
    """Values that are not shown."""

    def __init__(self) -> None:
        self._values: set[str] = set()
        self._forms: Needles[str] | None = None
        self._encoded: Needles[bytes] = Needles(())

    def add_named(self, name: str, value: str) -> None:
        """Hide this value if its name sounds secret or it looks random, and what is secret in it if it is a URL."""
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

    def add(self, value: str) -> None:
        """Hide this value, the part behind ``Bearer`` or another scheme of HTTP, and what ``Basic`` encodes."""
        self._add(value)
        scheme, _, rest = value.strip().partition(" ")
        if scheme.lower() not in _SCHEMES:
            return
        self._add(rest)
        if scheme.lower() == "basic":
            try:
                pair = base64.b64decode(rest, validate=True).decode()
            except ValueError:
                return
            self._add(pair)
            self._add(pair.partition(":")[2])

    def _add(self, value: str) -> None:
        if len(value) >= SHORTEST and value not in self._values:
            self._values.add(value)
            self._forms = None

    def add_url(self, parts: SplitResult) -> None:
        """Hide the user and the password of a URL, and what is secret in its query, as they are written and as they are
        meant."""
        for pair in parts.query.split("&"):
            name, _, value = pair.partition("=")
            if sounds_secret(unquote(name)) or looks_random(unquote(value)) or (not value and looks_random(name)):
                self.add(parts.query)
                for each in (value, unquote(value), unquote_plus(value)):
                    self.add(each)
        self.add(parts.netloc.rpartition("@")[0])
        for written in (parts.username or "", parts.password or ""):
            self.add(written)
            self.add(unquote(written))
        if parts.username is not None or parts.password is not None:
            self.add(f"{unquote(parts.username or '')}:{unquote(parts.password or '')}")

    def hide(self, text: str) -> str:
        """The text with every secret replaced."""
        if not self._values or not text:
            return text
        needles = self._needles()
        text = _replaced(text, needles.spans(text), _HIDDEN)
        if "%" in text or "+" in text:
            text = self._without_encoded(text)
        if _CUT not in text:
            return text
        *cut, last = text.rsplit(_CUT, MAX_CUTS)
        return _CUT.join([*(self._without_beginning(part, needles) for part in cut), last])

    def hide_tail(self, text: str) -> str:
        """The same for the end of a longer text: the end of a secret may stand at its beginning."""
        text = self.hide(text)
        length = self._needles().ended(text)
        return _HIDDEN + text[length:] if length else text

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

    def _needles(self) -> Needles[str]:
        if self._forms is None:
            self._encoded = Needles(value.encode(errors=_LONE) for value in self._values)
            self._forms = Needles(form for value in self._values for form in _forms(value))
        return self._forms

    def _without_encoded(self, text: str) -> str:
        """Any of the characters may be percent-encoded; which ones are is everybody's own choice."""
        for space in (b"+", b" "):
            data = text.encode(errors=_LONE)
            if _ENCODED.search(data) is None and (space == b"+" or b"+" not in data):
                continue
            units = _UNIT.findall(data)
            decoded = b"".join([unit if len(unit) == 1 else bytes((int(unit[1:], 16),)) for unit in units])
            if space == b" ":
                decoded = b"".join([space if unit == b"+" else decoded[at : at + 1] for at, unit in enumerate(units)])
            spans = list(self._encoded.spans(decoded))
            if spans:
                places = [0, *accumulate(map(len, units))]
                found = ((places[start], places[end]) for start, end in spans)
                text = _replaced(data, found, _HIDDEN.encode()).decode(errors=_LONE)
        return text

    @staticmethod
    def _without_beginning(text: str, needles: Needles[str]) -> str:
        kept = text.rstrip(" ")
        length = needles.begun(kept)
        return kept[:-length] + _HIDDEN + text[len(kept) :] if length else text


def _replaced(text: Text, spans: Iterable[tuple[int, int]], hidden: Text) -> Text:
    parts: list[Text] = []
    last = 0
    for start, end in spans:
        parts += (text[last:start], hidden)
        last = end
    parts.append(text[last:])
    return hidden[:0].join(parts)


def _forms(value: str) -> Iterator[str]:
    """How it may be written; those of several lines also line by line, and as one."""
    yield from (value, " ".join(value.split()))
    yield from (line.strip() for line in value.splitlines())
    yield from (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1])
    data = value.encode(errors=_LONE)
    encodings = [base64.b64encode(data).decode()]
    for before in range(3):
        # Wherever it stands in what was encoded, these characters are made of its bits alone.
        encoded = base64.b64encode(bytes(before) + data).decode()
        encodings.append(encoded[(8 * before + 5) // 6 : 8 * (before + len(data)) // 6])
    for encoded in encodings:
        yield encoded
        yield encoded.replace("+", "-").replace("/", "_")
