"""The text of a value in an f-string. Reads a format specification only as far as to know how long the text will be."""

from __future__ import annotations

import re
import sys
from typing import Any, Final

from .budget import Budget
from .faults import BudgetExceeded
from .kinds import text_bytes
from .weight import charge_float, charge_text

__all__ = ["formatted", "joined"]

_NUMBERS: Final = re.compile(r"\d+")
_MOST_DIGITS: Final = 4000


def formatted(budget: Budget, value: Any, conversion: int, specification: str) -> str:
    """`f"{value!c:specification}"`; `conversion` is that of `ast.FormattedValue`."""
    if type(value) is not str or conversion in (97, 114):
        charge_text(budget, value)
    if conversion == 114:
        value = repr(value)
    elif conversion == 97:
        value = ascii(value)
    elif conversion == 115:
        value = str(value)
    if not specification:
        return value if type(value) is str else format(value)
    budget.work(len(specification) >> 6)
    charge_float(budget, value)
    width = 0
    for digits in _NUMBERS.findall(specification):  # width, precision, and perhaps the fill character
        if len(digits) > _MOST_DIGITS:
            raise BudgetExceeded("bytes", budget.bytes_allowed)
        if int(digits) <= sys.maxsize:  # beyond, Python raises ValueError
            width += int(digits)
    kind = type(value)
    text = text_bytes(value) if kind is str else value.bit_length() if kind is int else 0
    budget.work(width >> 4)
    budget.make(400 + text + width * (1 if specification.isascii() else 4))
    return format(value, specification)


def joined(budget: Budget, texts: list[str]) -> str:
    """The parts of an f-string as one text."""
    if len(texts) == 1:
        return texts[0]
    budget.make(50 + sum(map(text_bytes, texts)))
    return "".join(texts)
