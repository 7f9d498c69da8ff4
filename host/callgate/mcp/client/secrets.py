"""What must not be seen of a configuration, and texts without it.

A secret is hidden as it stands, and as others write it: percent-encoded, and in base64, also where it is a part of what
was encoded (a password in ``Basic`` credentials). Texts that were cut are looked at too: what is left of a secret at
their ends is hidden.

Knows values and texts; not where they come from.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import SplitResult, unquote, unquote_plus

__all__ = ["Secrets"]

_HIDDEN = "***"
_SCHEMES = ("bearer", "basic", "token", "apikey", "digest")
_SHORTEST = 6
"""Shorter values are no secrets, and hiding them would make holes in ordinary text."""
_LONE = "surrogatepass"
_CUT = "..."
"""How `one_line` ends what it cut."""
MAX_CUTS = 8
"""In one text; what stands before further ones is shown."""


class Secrets:
    """Values that are not shown."""

    def __init__(self) -> None:
        self._values: set[str] = set()
        self._forms: list[str] | None = None
        self._percent_encoded: re.Pattern[str] = re.compile("(?!)")

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
        if len(value) >= _SHORTEST and value not in self._values:
            self._values.add(value)
            self._forms = None

    def add_url(self, parts: SplitResult) -> None:
        """Hide the user, the password and the query of a URL, as they are written and as they are meant."""
        for pair in parts.query.split("&"):
            value = pair.partition("=")[2]
            for each in (value, unquote(value), unquote_plus(value)):
                self.add(each)
        self.add(parts.query)
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
        if self._forms is None:
            found = {form for value in self._values for form in _forms(value) if len(form) >= _SHORTEST}
            self._forms = sorted(found, key=len, reverse=True)
            written = "|".join(_percent_encoded(value) for value in sorted(self._values, key=len, reverse=True))
            self._percent_encoded = re.compile(written)
        for form in self._forms:
            text = text.replace(form, _HIDDEN)
        if "%" in text or "+" in text:
            text = self._percent_encoded.sub(_HIDDEN, text)
        return _CUT.join(self._without_beginnings(text.split(_CUT, MAX_CUTS))) if _CUT in text else text

    def hide_tail(self, text: str) -> str:
        """The same for the end of a longer text: the end of a secret may stand at its beginning."""
        text = self.hide(text)
        for form in self._forms or ():
            for length in range(min(len(form) - 1, len(text)), _SHORTEST - 1, -1):
                if text.startswith(form[-length:]):
                    return _HIDDEN + text[length:]
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

    def _without_beginnings(self, parts: list[str]) -> Iterator[str]:
        for part in parts[:-1]:
            yield self._without_beginning(part)
        yield parts[-1]

    def _without_beginning(self, text: str) -> str:
        for form in self._forms or ():
            for length in range(min(len(form) - 1, len(text)), _SHORTEST - 1, -1):
                if text.endswith(form[:length]):
                    return text[:-length] + _HIDDEN
        return text


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


def _percent_encoded(value: str) -> str:
    """A pattern for the value with any of its characters percent-encoded; which ones are is everybody's own choice."""

    def written(character: str) -> str:
        digits = "".join(
            "%" + "".join(f"[{digit}{digit.lower()}]" if digit.isalpha() else digit for digit in f"{byte:02X}")
            for byte in character.encode(errors=_LONE)
        )
        return f"(?:{re.escape(character)}|{digits}{'|[+]' if character == ' ' else ''})"

    return "".join(map(written, value))
