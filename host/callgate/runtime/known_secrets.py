"""The secrets of one run, and where they come back in a text, in any spelling that JSON, Python and URLs give them.

Theory of operation. Every spelling has at least four bytes of UTF-8. A dictionary has the spellings by their first four
bytes, and a text is looked through four bytes at a time, in C. So the time for a text depends on its length, and not on
the number of secrets (Wu and Manber's multi-pattern search, with a step of one).

Bounds hide more, never less:

1. A run keeps `MAX_SPELLED` characters of spellings. When there is no room, `full` is set: all texts are redacted.
2. Of a secret longer than `MAX_SECRET_CHARACTERS`, the beginning is searched for, and the rest of the text redacted.
3. A text that takes too many comparisons (made for it, of secrets that begin alike) is redacted as a whole.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote, quote_plus

from .secret_keys import REDACTED

__all__ = ["MAX_SECRET_CHARACTERS", "MAX_SPELLED", "MIN_SECRET_CHARACTERS", "KnownSecrets"]

MIN_SECRET_CHARACTERS: Final = 4
"""A shorter secret is redacted in its own place and not searched for elsewhere: it would be found in every text."""
MAX_SECRET_CHARACTERS: Final = 4096
MAX_SPELLED: Final = 2_000_000
"""Characters of all spellings of a run's secrets: more than 10,000 short secrets."""
_OF_A_SPELLING: Final = 64
"""Characters that a spelling costs beside its own."""
_BEGIN: Final = 4
"""Bytes of a spelling that it is found by: an `unsigned int` of `memoryview.cast`."""
_MIDDLE: Final = 8
"""Bytes from the middle of a spelling that are compared first: lines of dashes begin like a key in PEM."""
_MOST_COMPARED: Final = 100_000
"""Comparisons of one text with spellings; one with a long spelling counts as several."""
_BYTES_A_COMPARISON: Final = 64
_CUT: Final = re.compile(rb"[\"'`]? ?(?:\.{3,}|\xe2\x80\xa6)")
"""Stands behind a text that was cut off."""
_FEW: Final = 32
"""Beginnings that are looked for one after the other, to find that a text has none of them."""
_PLAIN: Final = frozenset({"true", "false", "null", "none", "undefined"})
"""Texts that say that there is no secret."""


class KnownSecrets:
    """Secrets that were learned.

    Attributes:
        full: whether there was no room for a secret, so that no text can be shown.
    """

    __slots__ = ("_beginnings", "_few", "_longest", "_room", "_secrets", "full")

    def __init__(self) -> None:
        self.full = False
        self._secrets: set[str] = set()
        self._few: set[str] = set()
        """The first characters of the spellings, as long as they are few."""
        self._beginnings: dict[int, dict[int, _Alike]] = {}
        """The spellings by their first bytes and their length, the longest first."""
        self._room = MAX_SPELLED
        self._longest = 0

    def __bool__(self) -> bool:
        return bool(self._secrets)

    def __contains__(self, text: str) -> bool:
        """Whether the text is a secret as it is."""
        return text in self._secrets

    def learn(self, secret: str) -> None:
        """Remember a secret."""
        beginning = secret[:MAX_SECRET_CHARACTERS]
        if len(beginning.strip()) < MIN_SECRET_CHARACTERS or beginning in self._secrets or self.full:
            return
        if beginning.casefold() in _PLAIN or beginning in REDACTED:
            return
        spellings = _spellings(beginning)
        self._room -= sum(map(len, spellings)) + _OF_A_SPELLING * len(spellings)
        self.full = self._room < 0
        if self.full:
            return
        self._secrets.add(beginning)
        if len(self._few) <= _FEW:
            self._few |= {spelling[:MIN_SECRET_CHARACTERS] for spelling in spellings}
        for spelling in map(_bytes, spellings):
            first, length = _first(spelling), len(spelling)
            lengths = self._beginnings.setdefault(first, {})
            if length not in lengths:
                lengths[length] = _Alike(length)
                self._beginnings[first] = dict(sorted(lengths.items(), reverse=True))
            lengths[length].add(spelling, is_whole=len(beginning) == len(secret))
            self._longest = max(self._longest, length)

    def learn_from(self, other: KnownSecrets) -> None:
        """Learn the secrets that a run inside this one has seen."""
        for secret in other._secrets - self._secrets:
            self.learn(secret)
        self.full |= other.full

    def struck(self, text: str, *, keep_lines: bool = False, is_cut: bool = False) -> str:
        """The text without secrets, and without the beginning of one that was cut off before ``...`` or ``…``.

        Args:
            text: any text.
            keep_lines: whether the text keeps its number of lines, where a secret has several.
            is_cut: whether the text may be cut off at its end.
        """
        if len(text) < MIN_SECRET_CHARACTERS or not self._secrets:
            return text
        if len(self._few) <= _FEW and not any(beginning in text for beginning in self._few):
            return text
        data = _bytes(text)
        cuts = [mark.start() for mark in _CUT.finditer(data)] + [len(data)] * is_cut
        pieces: list[bytes] = []
        shown, hidden, compared = 0, -1, 0  # up to where the text is in `pieces`, and where the last secret ends
        begin = 0

        def hide() -> None:
            lines = data.count(b"\n", begin, hidden) if keep_lines else 0
            pieces.extend((data[shown:begin], REDACTED.encode(), b"\n" * lines))

        for at in self._candidates(data):
            end, lengths = -1, self._beginnings[_first(data, at)]
            for length, alike in lengths.items():
                if at + length <= hidden:
                    break  # shorter ones are hidden, too
                compared += 1
                if data[at + alike.middle : at + alike.middle_end] not in alike.middles:
                    continue
                compared += length // _BYTES_A_COMPARISON
                is_whole = alike.whole.get(data[at : at + length])
                if is_whole is not None:
                    end = at + length if is_whole else len(data)
                    break
            cut = bisect_left(cuts, at + _BEGIN)
            if end < 0 and cut < len(cuts) and at + max(lengths) > cuts[cut] > hidden:
                half = data[at : cuts[cut]]
                compared += sum(len(alike.whole) for alike in lengths.values())
                if any(each.startswith(half) for alike in lengths.values() for each in alike.whole):
                    end = cuts[cut]
            if end > hidden:
                if at >= hidden:
                    if hidden >= 0:
                        hide()
                        shown = hidden
                    begin = at
                hidden = end
            if compared > _MOST_COMPARED:
                return REDACTED
        if hidden < 0:
            return text
        hide()
        return b"".join([*pieces, data[hidden:]]).decode("utf-8", "surrogatepass")

    def without_half(self, text: str) -> str:
        """The beginning of a text, without its end, if a secret begins there that was cut off."""
        data = _bytes(text)
        before = max(len(data) - self._longest, 0)
        end, compared = data[before:], 0
        for at in self._candidates(end):
            half = end[at:]
            for alike in self._beginnings[_first(half)].values():
                compared += len(alike.whole)
                if compared > _MOST_COMPARED or any(each.startswith(half) for each in alike.whole):
                    return data[: before + at].decode("utf-8", "surrogatepass")
        return text

    def _candidates(self, data: bytes) -> Iterator[int]:
        """Where four bytes are the beginning of a spelling, in order."""
        known, found = self._beginnings, []
        with memoryview(data) as view:
            for first in range(_BEGIN):
                count = (len(data) - first) // _BEGIN
                words = view[first : first + count * _BEGIN].cast("I")
                if not known.keys().isdisjoint(words):
                    found += [first + _BEGIN * at for at, word in enumerate(words) if word in known]
        return iter(sorted(found))


class _Alike:
    """Spellings with the same beginning and the same length.

    Attributes:
        middle: where the bytes from the middle begin.
        middle_end: where they end.
        middles: these bytes.
        whole: the spellings; False for the beginning of a longer secret.
    """

    __slots__ = ("middle", "middle_end", "middles", "whole")

    def __init__(self, length: int) -> None:
        self.middle = length // 2
        self.middle_end = min(self.middle + _MIDDLE, length)
        self.middles: set[bytes] = set()
        self.whole: dict[bytes, bool] = {}

    def add(self, spelling: bytes, *, is_whole: bool) -> None:
        self.middles.add(spelling[self.middle : self.middle_end])
        self.whole[spelling] = is_whole and self.whole.get(spelling, True)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _first(data: bytes, at: int = 0) -> int:
    return memoryview(data)[at : at + _BEGIN].cast("I")[0]


def _spellings(secret: str) -> set[str]:
    """A secret as it is, as JSON and Python escape it, once and twice, and as URLs have it."""
    if secret.isascii() and secret.isalnum():
        return {secret}
    once = {secret, *_escaped(secret)}
    for in_json in (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]):
        once.add(in_json.replace("/", "\\/"))  # as PHP does
        once.add(in_json.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))  # as Go does
    twice = {spelling for each in once for spelling in _escaped(each)}
    in_urls = {quote(secret, safe=safe, errors="replace") for safe in ("", "/", "!'()*")}
    return once | twice | in_urls | {quote_plus(secret, errors="replace")}


def _escaped(text: str) -> set[str]:
    in_json = {json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}
    return in_json | {repr(text)[1:-1], repr(f'"{text}')[2:-1]}  # in a text with both quotes, Python escapes one
