"""What OpenAI's two APIs have in common: keys, function tools, the tool choice, and how they say no.

What the service would not take raises `Refused`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import checks
from .checks import Refused, only
from .server import KEY

FUNCTION = ("name", "description", "parameters", "strict")


def bearer(headers: Mapping[str, str]) -> None:
    """See that the key is there, and the right one."""
    if headers.get("authorization") != f"Bearer {KEY}":
        raise Refused("Incorrect API key provided.", status=401, code="invalid_api_key")


def function_tools(
    given: list[dict[str, Any]], where: str, known: tuple[str, ...] = FUNCTION
) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """The schemas of function tools by name, and the names of strict ones."""
    for position, function in enumerate(given):
        place = where.format(position)
        only(place, function, known)
        schema = function.get("parameters", {"type": "object", "properties": {}})
        checks.input_schema(f"Invalid schema for function {function.get('name')!r}", schema, strict=_strict(function))
    checks.names("tools", [function.get("name", "") for function in given], r"[a-zA-Z0-9_-]{1,64}")
    schemas = {each["name"]: each.get("parameters", {"type": "object"}) for each in given}
    return schemas, [function["name"] for function in given if _strict(function)]


def _strict(function: dict[str, Any]) -> bool:
    return bool(function.get("strict"))


def choice_of(given: Any, tools: Mapping[str, Any], *, nested: bool) -> str:
    """``auto``, ``none``, ``required``, or the one tool; `nested` is how chat completions write it."""
    if isinstance(given, str):
        if given not in ("auto", "none", "required"):
            raise Refused(f"Invalid value: {given!r}. Supported values are: 'none', 'auto', and 'required'.")
        chosen = given
    else:
        function = given.get("function", {}) if nested else given
        if given.get("type") != "function" or function.get("name") not in tools:
            raise Refused(f"Tool choice {given!r} not found in 'tools' parameter.")
        chosen = function["name"]
    if chosen != "none" and given != "auto" and not tools:
        raise Refused("'tool_choice' is only allowed when 'tools' are specified.")
    return chosen


def refusal(refused: Refused) -> dict[str, Any]:
    """OpenAI's error object."""
    error = {
        "message": str(refused),
        "type": refused.kind,
        "param": refused.param or None,
        "code": refused.code or None,
    }
    return {"error": error}
