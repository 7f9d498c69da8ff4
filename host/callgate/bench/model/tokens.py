"""Tokens by a real tokenizer: OpenAI's ``o200k_base``, by `splintr`. Knows texts, not what they are part of.

What is counted of a request, and what nobody outside can count, is in `stand_in.usage`. Anthropic's tokenizer is not
public: for its wire format, too, these are OpenAI's tokens.
"""

from __future__ import annotations

import importlib
import threading
from collections import OrderedDict
from hashlib import blake2b
from importlib.util import find_spec

__all__ = ["TOKENIZER", "TokenizerMissing", "Tokens"]

TOKENIZER = "o200k_base"
_PACKAGE = "splintr"
_SHORT = 256
"""Texts up to so many characters are counted sooner than found."""


class TokenizerMissing(Exception):
    """The tokenizer is not installed; the text says what to do."""


class Tokens:
    """Counts, and remembers: a conversation sends each of its texts again with every turn.

    For several threads. It keeps no text, only digests.

    Args:
        most_kept: how many counts it remembers; those that were used last.

    Raises:
        TokenizerMissing: it is not installed.
    """

    def __init__(self, most_kept: int = 100_000) -> None:
        if not find_spec(_PACKAGE):
            raise TokenizerMissing("the tokenizer is not installed: pip install splintr-rs, or callgate[bench]")
        self._encode = importlib.import_module(_PACKAGE).Tokenizer.from_pretrained(TOKENIZER).encode_ordinary
        self._most_kept = most_kept
        self._kept: OrderedDict[bytes, int] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, text: str) -> int:
        """The tokens of a text."""
        text = _sendable(text)
        if len(text) <= _SHORT:
            return len(self._encode(text))
        name = blake2b(text.encode(), digest_size=16).digest()
        with self._lock:
            if name in self._kept:
                self._kept.move_to_end(name)
                return self._kept[name]
        tokens = len(self._encode(text))
        with self._lock:
            self._kept[name] = tokens
            while len(self._kept) > self._most_kept:
                self._kept.popitem(last=False)
        return tokens


def _sendable(text: str) -> str:
    """JSON may hold half of a surrogate pair, UTF-8 may not."""
    return text if text.isascii() else text.encode(errors="replace").decode()
