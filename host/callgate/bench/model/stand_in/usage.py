"""What requests and answers are counted as in tokens. Knows no wire format, and no tokenizer.

Counted are the texts of a request as it came over the wire: the system text, the text of every message, the name and
the arguments of every call, every result, and the array of tools as compact JSON. What a provider adds is not counted,
for nobody outside knows it: what separates messages, ids, how definitions are written into the prompt, and the
instructions that come with tools (some hundred tokens at Anthropic). Nor is a prompt cache played: all input is new.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

Count = Callable[[str], int]
"""The tokens of a text."""


def by_characters(text: str) -> int:
    """Four characters each: needs no tokenizer, and is right for no model."""
    return len(text) // 4


def total(texts: Iterable[str], count: Count) -> int:
    """The tokens of texts, each counted for itself."""
    return sum(count(text) for text in texts if text)


def wire(value: Any) -> str:
    """Compact JSON, letters as they are: how the SDKs send it, and how models write arguments."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def of_content(content: Any) -> Iterable[str]:
    """The texts of a message's or a result's content, whether it is one text or a list of parts."""
    if isinstance(content, str):
        return [content]
    return [part["text"] for part in content or () if isinstance(part.get("text"), str)]
