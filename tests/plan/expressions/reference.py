"""CPython's own answer for an expression, to hold the evaluator's against. Used by the tests of this folder.

Values are the guest's: objects are its `Record`, so that `w.temp` means in `eval` what it means in a program.
"""

from __future__ import annotations

import builtins
import json
import warnings
from typing import Any

from callgate.plan.expressions import BudgetExceeded, ExpressionError, ExpressionFault, Record, parse_expression
from callgate_guest.records import Record as GuestRecord

GLOBALS = {"__builtins__": builtins, "json": json}

VALUES: dict[str, Any] = {
    "n": 7,
    "m": -3,
    "big": 2**70,
    "half": 0.5,
    "yes": True,
    "none": None,
    "empty": [],
    "text": "The quick brown fox",
    "word": "ßtraße Éa 日本",
    "csv": " a, b,,c\n d ",
    "xs": [3, 1, 2, 3],
    "words": ["pear", "fig", "Apple", "fig"],
    "mixed": [1, "a", None, 2.5, [1], {"k": 1}],
    "temp": {"oslo": {"c": 10, "f": 50.0}, "paris": {"c": 20.5, "f": 68.9}},
    "rows": [
        {"name": "a", "value": 3, "tags": ["x"], "title": "A"},
        {"name": "b", "value": 1, "tags": [], "title": "B"},
        {"name": "c", "value": 2, "tags": ["x", "y"], "title": "C"},
    ],
    "item": {"id": "i1", "count": 2, "items": [1, 2]},
    "index": 0,
}


def as_records(value: Any, kind: type) -> Any:
    """The same JSON value with its objects made instances of `kind`."""
    if isinstance(value, dict):
        return kind({key: as_records(item, kind) for key, item in value.items()})
    return [as_records(item, kind) for item in value] if isinstance(value, list) else value


def shape(value: Any) -> Any:
    """A value with the types of all its parts, as something that is equal only for equal types and values."""
    kind = type(value).__name__
    if isinstance(value, dict):
        return (kind, [(shape(key), shape(item)) for key, item in value.items()])
    if isinstance(value, list | tuple) or kind in ("dict_keys", "dict_values", "dict_items"):
        return (kind, [shape(item) for item in value])
    if isinstance(value, set):
        return (kind, sorted(map(repr, value)))
    return (kind, "" if " object at 0x" in repr(value) else repr(value))


def by_python(source: str, values: dict[str, Any]) -> Any:
    """``("value", shape)`` or ``("error", kind, message)``."""
    names = {name: as_records(value, GuestRecord) for name, value in values.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ("value", shape(eval(source, {**GLOBALS, **names})))
        except Exception as error:
            return ("error", type(error).__name__, str(error))


def by_us(source: str, values: dict[str, Any]) -> Any:
    """The same of the evaluator; or ``("refused", message)`` where it does not answer."""
    names = {name: as_records(value, Record) for name, value in values.items()}
    before = shape(names)
    try:
        return ("value", shape(parse_expression(source, records_only=True).evaluate(names)))
    except ExpressionError as error:
        return ("error", error.kind, error.message)
    except (ExpressionFault, BudgetExceeded) as refusal:
        return ("refused", str(refusal))
    finally:
        assert shape(names) == before, "a value was changed"
