"""The question whether a call may be made, in words. Pure: knows a call's arguments, and what a person can be shown.

1. What is shown is what is meant: nothing in it that a terminal obeys, that turns the order of letters, or that cannot
   be seen. Escapes stand for such characters, and JSON's quotes keep an argument's text apart from the question's own.
2. What is left out is said, and how much: at the value that is cut, and again where the question is put. Every argument
   has its share, so that a long one cannot push a short one out of sight.
"""

from __future__ import annotations

import json
import re
from typing import Any

from callgate.runtime import ApprovalRequest
from callgate.tools.faults import printable

__all__ = ["MAX_SHOWN", "question"]

MAX_SHOWN = 2_000
"""Characters of all arguments together; a few more for names and marks."""
_MOST_ARGUMENTS = 40
_MOST_NAME = 100
_LEAST = 20
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Letters and marks that Unicode calls printable, and that nobody sees."""


def question(request: ApprovalRequest) -> str:
    """What a person is asked before this call. Raises `RecursionError` where nobody could write its arguments down."""
    who = {"code": "program", "direct": "model"}.get(request.caller, request.caller)
    kind = "destructive tool" if request.tool.destructive else "tool"
    shown, left_out = _arguments(request.arguments)
    whole = ""
    if left_out:
        whole = (
            f" You do not see all of it: {left_out}. If that matters, say no, and have the arguments printed "
            "before the call is made again."
        )
    return f"The {who} wants to call the {kind} {_visible(request.tool.name)} with {shown}.{whole} Allow it?"


def _arguments(arguments: dict[str, Any]) -> tuple[str, str]:
    """The arguments, and what of them is left out."""
    text = _json(arguments)
    if len(text) <= MAX_SHOWN:
        return _visible(text), ""
    listed = list(arguments.items())[:_MOST_ARGUMENTS]
    values = {name: _json(value) for name, value in listed}
    share = _share([len(value) for value in values.values()])
    parts, missing = [], 0
    for name, value in values.items():
        told, cut = _cut(arguments[name], value, share)
        missing += cut
        parts.append(f"{_json(name[:_MOST_NAME])}: {told}")
    more = len(arguments) - len(listed)
    left_out = [f"{missing:,} characters"] if missing else []
    if more:
        parts.append(f"[{more:,} more arguments not shown]")
        left_out.append(f"{more:,} arguments")
    return f"{{{', '.join(parts)}}}", f"{' and '.join(left_out)} are left out"


def _share(lengths: list[int]) -> int:
    """So many characters each value may have, so that all have room: the short ones leave theirs to the long ones."""
    room = MAX_SHOWN
    for done, length in enumerate(sorted(lengths)):
        share = room // (len(lengths) - done)
        if length > share:
            return max(share, _LEAST)
        room -= length
    return MAX_SHOWN


def _cut(value: Any, text: str, share: int) -> tuple[str, int]:
    """A value's text with the middle left out, and how many characters that is."""
    if len(text) <= share:
        return _visible(text), 0
    half = share // 2
    if isinstance(value, str):  # each piece in quotes of its own
        missing = len(value) - 2 * half
        first, last = _json(value[:half]), _json(value[-half:])
    else:
        missing = len(text) - 2 * half
        first, last = text[:half], text[-half:]
    if missing <= 0:
        return _visible(text), 0
    return f"{_visible(first)} [{missing:,} characters not shown] {_visible(last)}", missing


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _visible(text: str) -> str:
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode(), printable(text))
