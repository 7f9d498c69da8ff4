"""Takes a model's thought out of its text, where an endpoint leaves both in one: ``<think>...</think>``, as
DeepSeek-R1, QwQ and Qwen3 write behind vLLM, llama.cpp and Ollama without a parser for it. Knows texts only.

1. A text has at most one thought, at its beginning. Where the thought has no end, the text is nothing else.
2. Where the template of the chat has begun the thought, the text holds only its end, on a line of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

__all__ = ["SpeechFilter", "without_thoughts"]

_THOUGHT = re.compile(r"\s*+<think(?:ing)?>.*?(?:</think(?:ing)?>\s*+|\Z)", re.DOTALL)
_ENDS_ALONE = re.compile(r"^[ \t]*+</think(?:ing)?>[ \t]*+$\s*+", re.MULTILINE)
_BEGINNINGS = ("<think>", "<thinking>")
_END = re.compile(r"</think(?:ing)?>")
_LONGEST_END = len("</thinking>")
_MOST_HELD = 1_000
"""The most blanks before a thought."""


def without_thoughts(text: str) -> str:
    """The text without the thought before it."""
    if (thought := _THOUGHT.match(text)) is not None:
        return text[thought.end() :]
    end = _ENDS_ALONE.search(text)
    return text if end is None or "<think" in text[: end.start()] else text[end.end() :]


class SpeechFilter:
    """Passes on the pieces of a text, without a thought at its beginning. A thought of which the text holds only the
    end is passed on, since its end comes too late.

    Args:
        tell: receives the pieces.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._held = ""
        self._state: Literal["undecided", "thinks", "has thought", "says"] = "undecided"

    def take(self, piece: str) -> None:
        """Take the next piece of the text."""
        if self._state == "says":
            self._tell(piece)
            return
        self._held += piece
        if self._state == "undecided":
            self._state = self._begun()
        if self._state == "thinks":
            end = _END.search(self._held)
            self._held = self._held[-_LONGEST_END:] if end is None else self._held[end.end() :]
            self._state = "thinks" if end is None else "has thought"
        if self._state == "has thought":
            self._held = self._held.lstrip()
        if self._held and self._state in ("has thought", "says"):
            self._state = "says"
            self.end()

    def end(self) -> None:
        """The text has ended: pass on what was held back because it might have become a thought."""
        held, self._held = self._held, ""
        if held and self._state != "thinks":
            self._tell(held)

    def _begun(self) -> Literal["undecided", "thinks", "says"]:
        begun = self._held.lstrip()
        if begun.startswith(_BEGINNINGS):
            return "thinks"
        may_become_one = len(self._held) <= _MOST_HELD and any(each.startswith(begun) for each in _BEGINNINGS)
        return "undecided" if may_become_one else "says"
