"""What a peer says where it does not support what a program uses, and only then. Peers give it as text alone.

A program of a workload is Python that CPython takes, so a syntax error is a peer's own limit, too.
"""

from __future__ import annotations

import re

__all__ = ["monty_refusal", "pydantic_ai_refusal", "smolagents_refusal"]

_MONTY = re.compile(r"(?:.*: )?((?:NotImplementedError|ModuleNotFoundError|SyntaxError): .*)")
_TYPES = re.compile(r"Type error in code:\s+error\[unresolved-import\]: (.*)")
_SMOLAGENTS = re.compile(
    r"InterpreterError: ((?:Import (?:of|from) \S+ is not allowed|\w+ is not supported|Unsupported )[^\n]*)"
)


def monty_refusal(text: str) -> str:
    """Monty's words, from the text of an error; empty where it is another error.

    Args:
        text: a traceback, or its last line. Nothing else: what a program gave may hold such words as data.
    """
    last = text.strip().rsplit("\n", 1)[-1]
    found = _MONTY.match(last)
    return found[1] if found else ""


def pydantic_ai_refusal(text: str) -> str:
    """Monty's words, or those of the check of types about an import; empty where it is another error."""
    found = _TYPES.match(text)
    return found[1] if found else monty_refusal(text)


def smolagents_refusal(text: str) -> str:
    """smolagents' words, from the text of an error; empty where it is another error."""
    found = _SMOLAGENTS.search(text)
    return found[1] if found else ""
