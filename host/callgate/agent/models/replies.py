"""A reply from what an endpoint sent, mended where it can be: what both wires have alike. Pure; believes nothing.

1. Calls always have an id of their own. One that is missing, or that an earlier call of the turn has, is replaced by
   one made of the turn's position in the conversation, so that the same talk gives the same ids.
2. Arguments that are no JSON object, or that JSON cannot hold, are a fault of the call, never an error.
3. Halves of characters (lone surrogates), which no request could carry back, become question marks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .messages_json import MOST_DEPTH, is_deeper
from .model import Assistant, Ended, Reply, ToolCall, Usage, arguments_of

__all__ = [
    "MOST_CALLS",
    "BadReply",
    "WrittenCall",
    "calls_of",
    "count",
    "native_of",
    "reply_of",
    "sendable",
    "sendable_arguments",
    "sendable_name",
    "text_of",
]

MOST_CALLS = 1000
"""Of one turn; more of them are no reply."""
_MOST_WRITTEN = 10_000
"""Characters of faulty arguments that are kept."""
_WRITTEN_BACK = 4000
"""Characters of faulty arguments that the model gets to see again."""


class BadReply(Exception):
    """The endpoint sent no reply of its API; the text says what is wrong.

    Attributes:
        status: what the endpoint itself calls it, where it says that it failed.
        passing: the same request may succeed at once.
    """

    def __init__(self, message: str, *, status: int | None = None, passing: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.passing = passing


@dataclass(slots=True)
class WrittenCall:
    """A call as it came.

    Attributes:
        id: may be missing.
        name: may be missing.
        arguments: JSON as text, or already read.
        kept: what its endpoint wants back with it, by its field.
    """

    id: Any = ""
    name: Any = ""
    arguments: Any = ""
    kept: dict[str, Any] = field(default_factory=dict)


def reply_of(
    text: str,
    calls: Sequence[ToolCall],
    *,
    usage: Usage,
    cut: bool = False,
    refusal: str = "",
    model: Any = "",
    native: Any = None,
    provider: str = "",
) -> Reply:
    """The reply.

    Args:
        text: what the model said.
        calls: what it called.
        usage: what it cost.
        cut: it was not at its end.
        refusal: why it will not go on.
        model: who answered, as the endpoint says.
        native: see `Assistant`.
        provider: whose `native` it is.
    """
    said = text_of(text)
    ended: Ended = "calls" if calls else "answered" if said.strip() else "empty"
    if refusal or cut:
        ended = "refused" if refusal else "cut"
    turn = Assistant(text=said, calls=tuple(calls), native=native, provider=provider if native is not None else "")
    return Reply(
        turn=turn,
        ended=ended,
        usage=usage,
        refusal=text_of(refusal),
        model=sendable(model[:200]) if isinstance(model, str) else "",
    )


def calls_of(written: Sequence[WrittenCall], position: int) -> list[ToolCall]:
    """The calls, each with an id of its own.

    Args:
        written: as they came.
        position: of the turn in its conversation.

    Raises:
        BadReply: there are more than a reply may have.
    """
    if len(written) > MOST_CALLS:
        raise BadReply(f"it makes {len(written)} calls at once, and {MOST_CALLS} is the most")
    taken: set[str] = set()
    calls = []
    for number, each in enumerate(written):
        name = text_of(each.name)[:200] if isinstance(each.name, str) else ""
        arguments, fault, text = _arguments(each.arguments)
        identity = each.id if isinstance(each.id, str) and re.fullmatch(r"[a-zA-Z0-9_.:|-]{1,256}", each.id) else ""
        if not identity or identity in taken:
            identity = f"call_{position}_{number}"
        taken.add(identity)
        if not name:
            arguments, fault, text = {}, "the call names no tool", text or _shown(arguments)
        calls.append(ToolCall(id=identity, name=name, arguments=arguments, fault=fault, written=text))
    return calls


def _arguments(given: Any) -> tuple[dict[str, Any], str, str]:
    """Arguments, what is wrong with them, and their text where something is."""
    if isinstance(given, str):
        arguments, fault = arguments_of(given)
        text = given
    elif given is None or isinstance(given, dict):
        arguments, fault, text = given or {}, "", ""
    else:
        arguments, fault, text = {}, f"they have to be a JSON object, and are {type(given).__name__}", _shown(given)
    if not fault and is_deeper(arguments):
        arguments, fault, text = {}, f"they are nested more than {MOST_DEPTH} deep", _shown(given)
    if not fault:
        try:
            json.dumps(arguments, ensure_ascii=False, allow_nan=False).encode()
        except (ValueError, RecursionError) as error:
            arguments, fault, text = {}, f"they cannot be sent back as JSON: {error}", _shown(given)
    if not fault:
        return arguments, "", ""
    return {}, text_of(fault)[:300], text_of(text if len(text) <= _MOST_WRITTEN else f"{text[:_MOST_WRITTEN]}...")


def _shown(value: Any) -> str:
    if not value:
        return ""
    try:
        return value if isinstance(value, str) else json.dumps(value)
    except (ValueError, RecursionError):
        return "(nested too deep)"


def text_of(value: Any) -> str:
    """What is text of it: a text, or the texts of a list of parts; without halves of characters."""
    if isinstance(value, list):
        parts = (each.get("text") for each in value if isinstance(each, dict))
        return "".join(text_of(each) for each in parts if isinstance(each, str))
    return sendable(value) if isinstance(value, str) else ""


def native_of(value: Any) -> Any:
    """A turn in its provider's form, where JSON can hold it and it is not nested too deep; else None."""
    if is_deeper(value):
        return None
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):
        return None
    return value


def count(usage: Any, *names: str) -> int:
    """A number of tokens, found by these names one within the other; 0 where it is no such thing."""
    for name in names:
        usage = usage.get(name) if isinstance(usage, Mapping) else None
    whole = isinstance(usage, int) and not isinstance(usage, bool)
    return usage if whole and 0 <= usage <= 10**12 else 0


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


def sendable_arguments(call: ToolCall) -> dict[str, Any]:
    """Arguments of a call that is over. Those with a fault are shown as text in an object, as Anthropic has it
    (https://platform.claude.com/docs/en/agents-and-tools/tool-use/fine-grained-tool-streaming): servers that read
    arguments as JSON would refuse the conversation otherwise."""
    if not call.fault:
        return call.arguments
    text = call.written if len(call.written) <= _WRITTEN_BACK else f"{call.written[:_WRITTEN_BACK]}..."
    return {"INVALID_JSON": sendable(text)}
