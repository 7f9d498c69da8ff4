"""Types whose values are their own JSON form, so that the check of a large value needs no text, or only one look at it.

Knows types, and the schemas that pydantic makes of them; checks no value.
"""

from __future__ import annotations

import types
import typing
from typing import Any

__all__ = ["failing_fast", "is_closed", "is_plain"]


def is_plain(annotation: Any) -> bool:
    """Whether every value of the type is its own JSON form."""
    if annotation in (str, int, float, bool, None, type(None), Any, list, dict):
        return True
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is list:
        return not args or is_plain(args[0])
    if origin is dict:
        return not args or (args[0] is str and is_plain(args[1]))
    if origin in (typing.Union, types.UnionType):
        return all(is_plain(arg) for arg in args)
    return False


def is_closed(annotation: Any) -> bool:
    """Whether the strict check of a value makes a copy of it, the one that its JSON would give: texts, numbers and
    lists of them."""
    if annotation in (str, int, float, bool, None, type(None)):
        return True
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is list:
        return bool(args) and is_closed(args[0])
    return origin in (typing.Union, types.UnionType) and all(map(is_closed, args))


def failing_fast(schema: Any) -> Any:
    """A copy of a schema of pydantic's whose arrays end their check at the first fault."""
    if type(schema) is list or type(schema) is tuple:
        return type(schema)(map(failing_fast, schema))
    if type(schema) is not dict:
        return schema
    made = {key: each if key in ("default", "metadata") else failing_fast(each) for key, each in schema.items()}
    if made.get("type") in ("list", "tuple", "set", "frozenset"):
        made["fail_fast"] = True
    return made
