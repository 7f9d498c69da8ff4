"""Inputs of a program as symbols: written into expressions where they are small."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from typing import Any, Final

from .sharing import Shares
from .symbols import Symbol, measured, unknown

__all__ = ["symbol_of_input"]

_MOST_BYTES: Final = 2048


def symbol_of_input(name: str, inputs: Mapping[str, Any], key: int) -> Symbol:
    """What an input stands for.

    Args:
        name: the input's.
        inputs: JSON values by name.
        key: names its containers.
    """
    shares = Shares(frozenset({(key, 0)}), frozenset({(key, 1)}))
    if name not in inputs:
        return unknown(name, "is an input whose value is not known", "", shares)
    try:
        text = json.dumps(inputs[name], ensure_ascii=False, allow_nan=False)
        if len(text.encode("utf-8", "replace")) > _MOST_BYTES:
            hint = "let a tool give the data"
            return unknown(name, "is an input that is too large to be written into a plan", hint, shares)
        node = ast.parse(repr(json.loads(text)), mode="eval").body
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return unknown(name, "is an input that cannot be written into a plan", "", shares)
    size, depth = measured(node, {})
    own = Shares(frozenset(), frozenset()) if isinstance(node, ast.Constant | ast.UnaryOp) else shares
    return Symbol(node, frozenset(), size, depth, own)
