"""Tokens by a real tokenizer: OpenAI's ``o200k_base``, by `splintr`. Knows texts, not what they are part of.

What is counted of a request, and what nobody outside can count, is in `stand_in.api`. Anthropic's tokenizer is not
public: for its wire format, too, these are OpenAI's tokens.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable

from callgate.extras import how_to_install
from callgate_bench.model.endpoint import EndpointMissing

__all__ = ["TOKENIZER", "Tokens"]

TOKENIZER = "o200k_base"
_KEPT = 100_000


class Tokens:
    """Counts, and remembers: a conversation sends each of its texts again with every turn.

    Raises:
        EndpointMissing: the tokenizer is not installed.
    """

    def __init__(self) -> None:
        encode = _encoder()
        self._count = functools.lru_cache(_KEPT)(lambda text: len(encode(text)))

    def __call__(self, text: str) -> int:
        """The tokens of a text. JSON may hold half of a surrogate pair, UTF-8 may not."""
        return self._count(text if text.isascii() else text.encode(errors="replace").decode())


@functools.cache
def _encoder() -> Callable[[str], list[int]]:
    try:
        splintr = importlib.import_module("splintr")
    except ModuleNotFoundError:
        how = how_to_install("bench")
        raise EndpointMissing(f"the tokenizer is not installed: pip install splintr-rs, or {how}") from None
    encoder: Callable[[str], list[int]] = splintr.Tokenizer.from_pretrained(TOKENIZER).encode_ordinary
    return encoder
