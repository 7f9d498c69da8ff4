"""The system text of a task: the operator's words, how to choose among the tools, and the
strategic plan that the task is part of. Pure."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["PLAN_CHARACTERS", "plan_block", "system_text"]

PLAN_CHARACTERS = 1_500
"""Of a strategic plan, as JSON: the bound of the tool choice mechanism."""


def system_text(*, own: str, instructions: str = "", strategic_plan: Any = None) -> str:
    """The parts that there are, with a blank line between them.

    Args:
        own: the operator's.
        instructions: how to choose among the tools, and when direct calls, a plan or a program is best.
        strategic_plan: phases of workers with their goals, or any other JSON value; None without.
    """
    parts = (own.strip(), instructions.strip(), plan_block(strategic_plan).strip())
    return "\n\n".join(part for part in parts if part)


def plan_block(strategic_plan: Any) -> str:
    """The strategic plan as a part of the system text, cut after 1,500 characters; empty where there is none.

    Args:
        strategic_plan: a JSON value, for instance ``{"phases": [{"worker": "data-analysis", "goals": "..."}]}``; or
            text.
    """
    if not strategic_plan:
        return ""
    written = strategic_plan
    if not isinstance(written, str):
        try:
            written = json.dumps(strategic_plan, indent=2, ensure_ascii=False, default=str)
        except (ValueError, RecursionError):
            written = str(strategic_plan)
    return f"\nSTRATEGIC PLAN:\n{written[:PLAN_CHARACTERS]}\n"
