"""The messages of a planner: the system text with the strategic plan, and the history in words.

1. The strategic plan is context, not the task. It is cut at `MAX_PLAN_CHARACTERS`, with a note.
2. A history is written in words (``Calling tool: ...``, ``Tool result: ...``): the newest entries that fit, and the
   task last. So a history can come from anywhere: from another model, another program, a file.

Knows no provider.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from callgate.agent.models.fitting import sendable
from callgate.agent.models.model import Assistant, Message, User
from callgate.errors import ConfigurationError

from .actions import Action, HistoryEntry, Observation, arguments_text

__all__ = [
    "MAX_ENTRIES", "MAX_ENTRY_CHARACTERS", "MAX_HISTORY_CHARACTERS", "MAX_PLAN_CHARACTERS", "history_messages",
    "newest", "plan_block", "system_text",
]  # fmt: skip

MAX_PLAN_CHARACTERS = 1_500
"""Of the strategic plan as JSON."""
MAX_ENTRIES = 60
"""Of the history: the newest."""
MAX_ENTRY_CHARACTERS = 8_000
"""Of one entry of the history."""
MAX_HISTORY_CHARACTERS = 48_000
"""Of the whole history, about 12,000 tokens."""


def plan_block(strategic_plan: Any) -> str:
    """The strategic plan as a part of a system text, cut after `MAX_PLAN_CHARACTERS`; empty where there is none.

    Args:
        strategic_plan: a JSON value.

    Raises:
        ConfigurationError: it contains itself, or is nested too deeply.
    """
    if not strategic_plan:
        return ""
    try:
        is_text = isinstance(strategic_plan, str)
        text = strategic_plan if is_text else json.dumps(strategic_plan, indent=2, ensure_ascii=False, default=str)
    except (ValueError, TypeError, RecursionError) as error:
        raise ConfigurationError(f"the strategic plan is not a JSON value: {error}") from None
    if len(text) > MAX_PLAN_CHARACTERS:
        text = f"{text[:MAX_PLAN_CHARACTERS]}\n(cut here: the plan is longer than {MAX_PLAN_CHARACTERS:,} characters)"
    return f"\nSTRATEGIC PLAN:\n{sendable(text)}\n"


def system_text(system_prompt: str, context: Mapping[str, Any] | None) -> str:
    """The system text: the prompt, and the strategic plan of the context where there is one."""
    block = plan_block((context or {}).get("strategic_plan"))
    prompt = system_prompt.rstrip("\n")
    return f"{prompt}\n{block}" if prompt and block else prompt or block.lstrip("\n")


def newest(history: Iterable[object]) -> tuple[tuple[HistoryEntry, ...], int]:
    """The newest entries of a history, each bounded; and how many are left out.

    Args:
        history: oldest first; what is neither an action nor an observation is passed over.
    """
    entries = [each for each in history if isinstance(each, Action | Observation)]
    kept: list[HistoryEntry] = []
    room = MAX_HISTORY_CHARACTERS
    for each in reversed(entries[-MAX_ENTRIES:]):
        text = each.content if isinstance(each, Observation) else each.written or arguments_text(each.tool_args)
        bounded = _cut(text)
        room -= len(bounded)
        if room < 0:
            break
        if bounded == text:
            kept.append(each)
        elif isinstance(each, Observation):
            kept.append(replace(each, content=bounded))
        else:
            kept.append(replace(each, written=bounded))
    while kept and len(kept) < len(entries) and isinstance(kept[-1], Observation):
        kept.pop()  # a result without its call says little
    return tuple(reversed(kept)), len(entries) - len(kept)


def _cut(text: str) -> str:
    if len(text) <= MAX_ENTRY_CHARACTERS:
        return text
    return f"{text[:MAX_ENTRY_CHARACTERS]}\n... ({len(text) - MAX_ENTRY_CHARACTERS:,} more characters are left out)"


def history_messages(task: str, history: Iterable[object]) -> tuple[Message, ...]:
    """The history in words, then the task.

    Args:
        task: in the user's words.
        history: oldest first.
    """
    kept, left_out = newest(history)
    if not kept:
        return (User(text=task),)
    first = "What was done so far for the task below"
    first += f" ({left_out} earlier entries are left out):" if left_out else ":"
    made: list[Message] = [User(text=first)]
    for entry in kept:
        if isinstance(entry, Observation):
            made.append(User(text=f"Tool result: {entry.content}"))
        else:
            written = entry.written or arguments_text(entry.tool_args)
            made.append(Assistant(text=f"Calling tool: {entry.tool_name[:64]} with args: {written}"))
    return (*made, User(text=task))
