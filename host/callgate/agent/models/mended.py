"""What a model or its endpoint wrote wrongly, mended where it can be, in replies and in what goes back. Pure.

1. Calls always have an id of their own. An id that is missing, or that an earlier call of the turn has, is replaced by
   an id made of the turn's position in the conversation, so that the same conversation gives the same ids.
2. Arguments that are not a JSON object, or that JSON cannot hold, are a fault of the call, never an error.
3. Halves of characters (lone surrogates), which no request could carry back, become question marks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from .model import ToolCall, arguments_of

__all__ = [
    "BadReply",
    "calls_of",
    "native_of",
    "sendable",
    "sendable_arguments",
    "sendable_id",
    "sendable_name",
    "text_of",
]

_MOST_CALLS = 1000
"""Of one turn; more of them are not a reply."""
_MOST_DEPTH = 100
"""Of the values in arguments and native turns: deeper ones would end others' recursions."""
_MOST_NAME = 200
_MOST_WRITTEN = 10_000
"""Characters of faulty arguments that are kept."""
_WRITTEN_BACK = 4000
"""Characters of faulty arguments that the model gets to see again."""


class BadReply(Exception):
    """The endpoint sent more than a reply may hold; the text says what."""


def calls_of(written: Sequence[tuple[Any, Any, Any]], position: int) -> list[ToolCall]:
    """The calls, each with an id of its own.

    Args:
        written: id, name and arguments of each call as it came: arguments are text or already read.
        position: of the turn in its conversation.

    Raises:
        BadReply: there are more than a reply may have.
    """
    if len(written) > _MOST_CALLS:
        raise BadReply(f"it makes {len(written)} calls at once, and {_MOST_CALLS} is the most")
    taken: set[str] = set()
    calls = []
    for number, (given_id, given_name, given) in enumerate(written):
        name = text_of(given_name)[:_MOST_NAME]
        arguments, fault, text = _arguments(given)
        identity = given_id if isinstance(given_id, str) and re.fullmatch(r"[a-zA-Z0-9_.:|-]{1,256}", given_id) else ""
        if not identity or identity in taken:
            identity = f"call_{position}_{number}"
        taken.add(identity)
        if not name:
            arguments, fault, text = {}, "the call names no tool", text or _shown(arguments)
        calls.append(ToolCall(id=identity, name=name, arguments=arguments, fault=fault, written=text))
    return calls


def _arguments(given: Any) -> tuple[dict[str, Any], str, str]:
    """Arguments, what is wrong with them, and their text where something is."""
    text = given if isinstance(given, str) else _shown({} if given is None else given)
    arguments, fault = arguments_of(text)
    if not fault and _is_deeper(arguments):
        fault = f"they are nested more than {_MOST_DEPTH} deep"
    if not fault and not _holds(arguments):
        fault = "they cannot be sent back as JSON: surrogates are not allowed"
    if not fault:
        return arguments, "", ""
    return {}, text_of(fault)[:300], text_of(text if len(text) <= _MOST_WRITTEN else f"{text[:_MOST_WRITTEN]}...")


def _shown(value: Any) -> str:
    try:
        return json.dumps(value) if value != {} else ""
    except (ValueError, RecursionError):
        return "(nested too deep)"


def _holds(value: Any) -> bool:
    """Whether JSON in UTF-8 can hold the value."""
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):
        return False
    return True


def _is_deeper(value: Any) -> bool:
    """Whether a JSON value is nested too deep."""
    level = [value]
    for _ in range(_MOST_DEPTH):
        level = [each for one in level if isinstance(one, (dict, list)) for each in _within(one)]
        if not level:
            return False
    return True


def _within(value: dict[str, Any] | list[Any]) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value


def native_of(value: Any) -> Any:
    """A turn in its provider's form, where JSON can hold it and it is not nested too deep; else None."""
    return value if not _is_deeper(value) and _holds(value) else None


def text_of(value: Any) -> str:
    """The value where it is a text, without halves of characters; else an empty text."""
    return sendable(value) if isinstance(value, str) else ""


def sendable(text: str) -> str:
    """Text that UTF-8 can hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="replace").decode()
    return text


def sendable_name(name: str) -> str:
    """A tool's name in letters that providers take in a call that is over."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or "unnamed"


def sendable_id(id: str) -> str:
    """A call's id in letters that every provider takes."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", id)


def sendable_arguments(call: ToolCall) -> dict[str, Any]:
    """Arguments of a call that is over. Those with a fault are shown as text in an object, as Anthropic has it
    (https://platform.claude.com/docs/en/agents-and-tools/tool-use/fine-grained-tool-streaming): servers that read
    arguments as JSON would refuse the conversation otherwise."""
    if not call.fault:
        return call.arguments
    text = call.written if len(call.written) <= _WRITTEN_BACK else f"{call.written[:_WRITTEN_BACK]}..."
    return {"INVALID_JSON": sendable(text)}
