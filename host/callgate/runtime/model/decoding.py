"""Decodes the arguments of a model's call: an object, or its JSON as text. Knows JSON, and no tool's schema.

Providers pass arguments on as the model wrote them. A token limit that stops a model leaves text that ends in the
middle. The error then says so, because the same text would be cut again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from callgate.errors import InvalidArguments
from callgate.tools.decoding import strict_json
from callgate.tools.faults import described

__all__ = ["CUT_OFF", "as_object", "decoded", "is_cut_off"]

_NEAR = 20
"""Characters before and after the syntax error that the message shows."""
_BEGUN = re.compile(r"(?:tr?u?|fa?l?s?|nu?l?|-|\.|[eE][+-]?)?$")
"""The rest of a word or a number that was cut; may be empty."""
_STRUCTURED = ("{", "[", '"')
_ESCAPE = len(r"\u00e9")
CUT_OFF = "the text ends in the middle: it was probably cut by the token limit. Make the call again, with less in it"
_CODE = 'execute_code takes an object with the program in it: {"code": "print(1)"}'


def decoded(name: str, given: Any, max_bytes: int) -> Any:
    """The value of JSON text; any other value as it is. The text of a plan stays, because plans have their own reader.

    Args:
        name: the tool or meta-tool.
        given: the arguments as the model wrote them.
        max_bytes: most bytes of the text; `Limits.max_message_bytes`.

    Raises:
        InvalidArguments: the text is too long or not JSON; the message names the place, and says if the text was cut.
    """
    if given is None:
        return {}
    if not isinstance(given, str) or name == "execute_tool_plan":
        return given
    if len(given) > max_bytes:
        raise InvalidArguments(
            f"{name}: the arguments are {len(given)} characters, more than max_message_bytes, which is {max_bytes}",
            tool=name,
        )
    text = given.strip()
    if not text:
        return {}
    try:
        value = strict_json(text)
        return strict_json(value) if isinstance(value, str) and value.lstrip().startswith("{") else value
    except RecursionError:
        raise InvalidArguments(f"{name}: the arguments are nested too deeply", tool=name) from None
    except ValueError as error:
        fault = _fault(name, error) if isinstance(error, json.JSONDecodeError) else error
        raise InvalidArguments(f"{name}: the arguments are not valid JSON: {fault}", tool=name) from None


def is_cut_off(given: Any) -> bool:
    """Whether the arguments, or the plan in them, are JSON text that ends in the middle."""
    given = given.get("plan") if isinstance(given, Mapping) else given
    text = given.strip() if isinstance(given, str) else ""
    try:
        strict_json(text)
    except json.JSONDecodeError as error:
        return text.startswith(_STRUCTURED) and _ends_early(error)
    except (ValueError, RecursionError):
        pass
    return False


def as_object(name: str, given: Any) -> dict[str, Any]:
    """The arguments as a dict. Raises `InvalidArguments` if they are not an object."""
    if isinstance(given, Mapping):
        return dict(given)
    wanted = _CODE if name == "execute_code" else f"{name}: the arguments must be an object"
    raise InvalidArguments(f"{wanted}, got {described(given)}", tool=name)


def _fault(name: str, error: json.JSONDecodeError) -> str:
    text = error.doc
    near = text[max(error.pos - _NEAR, 0) : error.pos + _NEAR]
    where = f"{error.msg.removesuffix(' at')} at line {error.lineno} column {error.colno}, near {near!r}"
    structured = text.lstrip().startswith(_STRUCTURED)
    if structured and _ends_early(error):
        return f"{where}; {CUT_OFF}"
    return f"{where}; {_CODE}" if name == "execute_code" and not structured else where


def _ends_early(error: json.JSONDecodeError) -> bool:
    """Whether the text may be the beginning of JSON text."""
    if error.msg.startswith("Unterminated string"):
        return True
    if error.msg.startswith("Invalid \\u"):
        return len(error.doc) - error.pos <= _ESCAPE
    return _BEGUN.match(error.doc, error.pos) is not None
