"""Calling tools in text: the instructions for the model, and a conversation in this form. `text_calls` reads replies.

A conversation in this form has words alone, in turns of the user and the model. Any model can go on with it, also where
it began with calls in the provider's own form.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from callgate.agent.models.model import Assistant, Message, ToolReplies, User

from .actions import Action, arguments_text, noted
from .messages import newest
from .text_calls import NO_ACTION, says_action

__all__ = ["as_text", "history_as_text", "instructions", "results_as_text"]

_MAX_SCHEMA = 2_000
"""Characters of the arguments of one tool."""


def instructions(definitions: Sequence[Mapping[str, Any]], choice: str, most: int) -> str:
    """How tools are called, for the system text.

    Args:
        definitions: in OpenAI's form.
        choice: ``auto``, ``required``, ``none``, or the name of the tool that has to be called.
        most: the number of calls that run at the same time.
    """
    functions = [each["function"] for each in definitions]
    if not functions or choice == "none":
        return "You have no tools. Write your answer like this:\n\nFinal Answer: the answer to the task"
    listed = "\n".join(
        f"- {each['name']}: {' '.join(each['description'].split())}\n  {_of(each)}" for each in functions
    )
    names = ", ".join(each["name"] for each in functions)
    several = (
        f"Where calls need nothing of each other, write several pairs of Action and Action Input, at most {most}.\n"
        if most > 1
        else "Write one Action at a time.\n"
    )
    forced = {"auto": "", "required": "\nYou have to use a tool now.\n"}
    now = forced.get(choice, f"\nYou have to use the tool {choice} now.\n")
    return (
        f"You have these tools:\n\n{listed}\n\nTo use a tool, write exactly this, and stop:\n\n"
        f"Thought: what you need to find out\nAction: the name of the tool, one of: {names}\n"
        "Action Input: its arguments, a JSON object\n\n"
        "The next message is the Observation: what the tool says. Never write an Observation yourself. "
        f"{several}{now}\nWhen you know the answer, write exactly this:\n\n"
        "Thought: I know the answer\nFinal Answer: the answer to the task"
    )


def _of(function: Mapping[str, Any]) -> str:
    """The arguments of a tool, in a line."""
    properties = function["parameters"].get("properties") or {}
    if not properties:
        return "Action Input: {}"
    text = f"Action Input, as JSON Schema: {json.dumps(function['parameters'], ensure_ascii=False)}"
    if len(text) > _MAX_SCHEMA:
        text = f"Action Input: an object with {', '.join(list(properties)[:50])}"
    return text[:_MAX_SCHEMA]


def as_text(messages: Iterable[Message]) -> tuple[Message, ...]:
    """A conversation as words alone."""
    made: list[Message] = []
    for message in messages:
        match message:
            case ToolReplies(replies=replies):
                message = results_as_text(message, most=len(replies))
            case Assistant(text=text, calls=calls) if calls:
                written = (
                    []
                    if says_action(text)
                    else [_pair(each.name, each.written or each.arguments) for each in calls if each.name != NO_ACTION]
                )
                message = Assistant(text="\n".join(filter(None, (text, *written))) or "...")
            case _:
                pass
        made.append(message)
    return tuple(made)


def _pair(name: str, arguments: Mapping[str, Any] | str) -> str:
    text = arguments if isinstance(arguments, str) else arguments_text(arguments)
    return f"Action: {name}\nAction Input: {text}"


def results_as_text(replies: ToolReplies, *, most: int) -> User:
    """The results of a turn's calls, as a message of the user.

    Args:
        replies: in the order of the calls.
        most: the number that ran at the same time; a note says that the others waited.
    """
    given = noted(replies.replies, most)
    pictures = tuple(picture for each in given for picture in each.pictures)
    if len(given) == 1:
        return User(text=f"Observation: {given[0].text}", pictures=pictures)
    text = "\n".join(f"Observation ({each.name}): {each.text}" for each in given) or "Observation: nothing"
    return User(text=text, pictures=pictures)


def history_as_text(task: str, history: Iterable[object]) -> tuple[Message, ...]:
    """The task, then what was done for it, in this form.

    Args:
        task: in the user's words.
        history: oldest first.
    """
    kept, left_out = newest(history)
    made: list[Message] = [User(text=f"{task}\n\n({left_out} earlier entries are left out)" if left_out else task)]
    for each in kept:
        if not isinstance(each, Action):
            made.append(User(text=f"Observation: {each.content}"))
        elif each.tool_name == NO_ACTION:
            made.append(Assistant(text=each.written or "..."))
        else:
            made.append(Assistant(text=_pair(each.tool_name, each.written or each.tool_args)))
    return tuple(made)
