"""What a model that reasons wants back with its calls, where it speaks OpenAI's protocol and is none of OpenAI's.

Without it the next request is refused, or the model reasons anew: `reasoning_content` (DeepSeek, Kimi) and
`reasoning_details` (OpenRouter), and with each call `extra_content`, in which Gemini has its thought's signature.
It goes back as it came, to the model of that name only, and only with a turn that calls tools.

Sources: https://api-docs.deepseek.com/guides/thinking_mode, https://ai.google.dev/gemini-api/docs/thought-signatures,
https://openrouter.ai/docs/guides/best-practices/reasoning-tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .model import Assistant, ToolCall
from .replies import WrittenCall, native_of, text_of

__all__ = ["OF_A_CALL", "OF_A_TURN", "Reasoning", "native_turn", "with_native"]

_CONTENT, _DETAILS = OF_A_TURN = ("reasoning_content", "reasoning_details")
OF_A_CALL = "extra_content"
_MOST_DETAILS = 10_000


class Reasoning:
    """Of one turn, whole or in pieces."""

    def __init__(self) -> None:
        self._content: list[str] = []
        self._details: list[dict[str, Any]] = []

    def take(self, message: Mapping[str, Any]) -> None:
        """A message, or the next piece of one."""
        self._content.append(text_of(message.get(_CONTENT)))
        details = message.get(_DETAILS)
        for each in details if isinstance(details, list) else ():
            if isinstance(each, dict) and len(self._details) < _MOST_DETAILS:
                self._details.append(dict(each))

    def fields(self) -> dict[str, Any]:
        """Of the message that goes back."""
        fields = {_CONTENT: "".join(self._content), _DETAILS: _joined(self._details)}
        return {name: value for name, value in fields.items() if value}


def native_turn(
    model: str, fields: Mapping[str, Any], written: Sequence[WrittenCall], calls: Sequence[ToolCall]
) -> Any:
    """What the turn keeps; None where that is nothing.

    Args:
        model: by the name with which it was asked.
        fields: of the message.
        written: the calls as they came.
        calls: the same, mended.
    """
    kept = {call.id: each.kept for each, call in zip(written, calls, strict=True) if each.kept}
    if not calls or not (fields or kept):
        return None
    return native_of({"model": model, "fields": dict(fields), "calls": kept})


def with_native(model: str, turn: Assistant, message: dict[str, Any]) -> dict[str, Any]:
    """The message of a turn that calls tools, with what the model wants back.

    Args:
        model: that is asked.
        turn: of some model.
        message: in OpenAI's form.
    """
    native = turn.native
    if turn.provider != "openai" or not isinstance(native, Mapping) or native.get("model") != model:
        return message
    fields, kept = native.get("fields"), native.get("calls")
    if isinstance(kept, Mapping):
        for call in message["tool_calls"]:
            if isinstance(extra := kept.get(call["id"]), Mapping) and OF_A_CALL in extra:
                call[OF_A_CALL] = extra[OF_A_CALL]
    if not isinstance(fields, Mapping):
        return message
    return {**message, **{name: fields[name] for name in OF_A_TURN if name in fields}}


def _joined(pieces: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Pieces of the same detail, one after the other in a stream, as one."""
    joined: list[dict[str, Any]] = []
    texts: list[dict[str, list[str]]] = []
    for piece in pieces:
        of = (piece.get("type"), piece.get("index"))
        if not joined or (joined[-1].get("type"), joined[-1].get("index")) != of or of[1] is None:
            joined.append({})
            texts.append({})
        for name, value in piece.items():
            if name in ("text", "summary", "data") and isinstance(value, str):
                texts[-1].setdefault(name, []).append(value)
            elif value is not None or name not in joined[-1]:
                joined[-1][name] = value
    for each, pieced in zip(joined, texts, strict=True):
        each.update({name: "".join(parts) for name, parts in pieced.items()})
    return joined
