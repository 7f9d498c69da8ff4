"""References between the choices of a chain, as they stand in parameters: ``$ref:c0.field`` and the plan language's
other forms. Finds and renumbers them; looks up nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["choice_id", "positions_in", "renumbered", "spelled_by_id"]

_IN_TEXT = re.compile(r"(?<=\$\{)\s*c([0-9]{1,4})(?=[\s.\[}])")
_WHOLE = re.compile(r"(?<=^\$ref:)c([0-9]{1,4})(?=[.\[]|$)")
_OBJECT = re.compile(r"^c([0-9]{1,4})(?=[.\[]|$)")
_EXPRESSION = re.compile(r"(?<![\w.\"'])c([0-9]{1,4})(?![\w\"'])")
_BY_POSITION = re.compile(r"steps\[([0-9]{1,4})\](?:\.result\b)?")


def choice_id(position: int) -> str:
    """What references call the choice at a position of the chain, and the step that is made of it."""
    return f"c{position}"


def positions_in(value: Any) -> set[int]:
    """The positions that parameters refer to."""
    found: set[int] = set()

    def note(match: re.Match[str]) -> str:
        found.add(int(match[1]))
        return match[0]

    _mapped(value, lambda text, pattern: pattern.sub(note, text))
    return found


def renumbered(value: Any, positions: Mapping[int, int]) -> Any:
    """Parameters whose references name other positions.

    Args:
        value: a JSON value; not changed.
        positions: the new ones by the old; one that is not named stays.
    """

    def rename(match: re.Match[str]) -> str:
        old = int(match[1])
        return match[0].replace(f"c{match[1]}", choice_id(positions.get(old, old)))

    return _mapped(value, lambda text, pattern: pattern.sub(rename, text))


def spelled_by_id(value: Any) -> Any:
    """Parameters in which ``steps[0].result.field`` is written ``c0.field``: positions change when steps are put in
    order."""
    match value:
        case str() if value.startswith("$ref:") or "${" in value:
            return _BY_POSITION.sub(r"c\1", value)
        case {"$ref": str() as text, **rest} if not rest:
            return {"$ref": _BY_POSITION.sub(r"c\1", text)}
        case dict():
            return {key: spelled_by_id(each) for key, each in value.items()}
        case list():
            return [spelled_by_id(each) for each in value]
        case _:
            return value


def _mapped(value: Any, change: Callable[[str, re.Pattern[str]], str]) -> Any:
    match value:
        case str():
            if value.startswith("$ref:"):
                return change(value, _WHOLE)
            return change(value, _IN_TEXT) if "${" in value else value
        case {"$ref": str() as text, **rest} if not rest:
            return {"$ref": change(text, _OBJECT)}
        case {"$expr": str() as text, **rest} if not rest:
            return {"$expr": change(text, _EXPRESSION)}
        case {"$literal": _, **rest} if not rest:
            return value
        case dict():
            return {key: _mapped(each, change) for key, each in value.items()}
        case list():
            return [_mapped(each, change) for each in value]
        case _:
            return value
