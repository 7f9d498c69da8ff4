"""Inputs of a program as symbols: written into expressions where they are small."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from typing import Any, Final

from callgate.plan.expressions.parse import warnings_are_off

from .sharing import NOTHING, Shares
from .symbols import Symbol, measured, unknown

__all__ = ["symbol_of_input"]

_MOST_BYTES: Final = 2048


def symbol_of_input(name: str, inputs: Mapping[str, Any], shares: Shares) -> Symbol:
    """What an input stands for.

    Args:
        name: the input's.
        inputs: JSON values by name.
        shares: what its containers are called.
    """
    if name not in inputs:
        return unknown(name, "is an input whose value is not known", "", shares)
    try:
        text = json.dumps(inputs[name], ensure_ascii=False, allow_nan=False) if _is_small(inputs[name]) else None
        if text is None or len(text.encode("utf-8", "replace")) > _MOST_BYTES:
            hint = "let a tool give the data"
            return unknown(name, "is an input that is too large to be written into a plan", hint, shares)
        with warnings_are_off:
            node = ast.parse(repr(json.loads(text)), mode="eval").body
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return unknown(name, "is an input that cannot be written into a plan", "", shares)
    size, depth = measured(node, {})
    own = NOTHING if isinstance(node, ast.Constant | ast.UnaryOp) else shares
    return Symbol(node, frozenset(), size, depth, own)


def _is_small(value: Any) -> bool:
    """Whether its text may have so few bytes: it is not written out to see."""
    left, todo = _MOST_BYTES, [value]
    while todo and left >= 0:
        each = todo.pop()
        left -= 1  # every value has a character at least
        if isinstance(each, str):
            left -= len(each)
        elif isinstance(each, int):
            left -= each.bit_length() >> 2
        elif isinstance(each, list | dict):
            left -= len(each)
            if left >= 0:
                todo += each
                todo += each.values() if isinstance(each, dict) else ()
    return left >= 0
