"""Shortens a conversation that is too long for its model. Pure: takes messages and gives messages."""

from __future__ import annotations

from dataclasses import replace

from callgate.agent.models.fitting import with_pictures
from callgate.agent.models.model import Assistant, Message, ToolReplies, User

__all__ = ["SHORTENED", "shortened"]

SHORTENED = "shortened the oldest results"
"""The reaction to a conversation that is too long."""
_OLD_CHARACTERS = 200
"""Of a text before the last turn that had calls."""
_NEW_CHARACTERS = (4_000, 400)
"""Of a text from that turn on; the second where the first changes nothing."""
_NOTE_CHARACTERS = 200
"""Room for the words about what was cut: a text that was cut once is not cut again to the same length."""


def shortened(messages: list[Message]) -> list[Message]:
    """A shorter conversation: the first of these steps that changes it. The same one where none does.

    1. It has no pictures before the last turn that had calls.
    2. Results, and words in the user's place but for the task, are cut: before that turn to 200 characters, from it on
       to 4,000.
    3. The same, to 400 from that turn on, and no picture is left.

    What was cut says so.
    """
    calling = [place for place, each in enumerate(messages) if isinstance(each, Assistant) and each.calls]
    last = calling[-1] if calling else 0
    older = with_pictures(messages[:last], 0)
    if older != messages[:last]:
        return [*older, *messages[last:]]
    for newest in _NEW_CHARACTERS:
        made = [messages[0]]
        rest = messages[1:] if newest == _NEW_CHARACTERS[0] else with_pictures(messages[1:], 0)
        made += [
            _cut(message, newest if place > last else _OLD_CHARACTERS)
            for place, message in enumerate(rest, 1)
        ]  # fmt: skip
        if made != messages:
            return made
    return messages


def _cut(message: Message, most: int) -> Message:
    match message:
        case ToolReplies(replies=replies):
            return ToolReplies(replies=tuple(replace(each, text=_cut_text(each.text, most)) for each in replies))
        case User(text=text):
            return replace(message, text=_cut_text(text, most))
        case _:
            return message


def _cut_text(text: str, most: int) -> str:
    if len(text) <= most + _NOTE_CHARACTERS:
        return text
    return (
        f"{text[:most]}\n[shortened, since the conversation had become too long: what followed is left out; where a "
        "tool only reads, call it again if you need that]"
    )
