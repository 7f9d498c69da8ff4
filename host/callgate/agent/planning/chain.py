"""A chain of choices: the references between them, which of them can run, and the chain without the others.

References stand in parameters: ``$ref:c0.field`` and the plan language's other forms. Chooses no tools.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from callgate.runtime import Runtime

from .selection import ToolChoice
from .tool_plan import DecomposedQuery, cycle_in

__all__ = ["chain_of", "choice_id", "positions_in", "renumbered", "usable"]

_IN_TEXT = re.compile(r"(?<=\$\{)\s*c([0-9]{1,4})(?=[\s.\[}])")
_WHOLE = re.compile(r"(?<=^\$ref:)c([0-9]{1,4})(?=[.\[]|$)")
_OBJECT = re.compile(r"^c([0-9]{1,4})(?=[.\[]|$)")
_EXPRESSION = re.compile(r"(?<![\w.\"'])c([0-9]{1,4})(?![\w\"'])")
_BY_POSITION = re.compile(r"steps\[([0-9]{1,4})\](?:\.result\b)?")


def choice_id(position: int) -> str:
    """The name of the choice at a position of the chain, and of the step that is made of it."""
    return f"c{position}"


def positions_in(value: Any) -> set[int]:
    """The positions that parameters refer to."""
    found: set[int] = set()

    def note(position: int) -> int:
        found.add(position)
        return position

    _mapped(value, note)
    return found


def renumbered(value: Any, positions: Mapping[int, int]) -> Any:
    """Parameters with references to other positions. ``steps[0].result.field`` becomes ``c0.field``, because the steps
    of the plan have another order.

    Args:
        value: a JSON value; not changed.
        positions: the new positions by the old ones; a position that is missing here stays.
    """
    return _mapped(value, lambda position: positions.get(position, position))


def _mapped(value: Any, change: Callable[[int], int]) -> Any:
    def changed(text: str, pattern: re.Pattern[str]) -> str:
        by_id = _BY_POSITION.sub(r"c\1", text)
        return pattern.sub(lambda match: match[0].replace(f"c{match[1]}", choice_id(change(int(match[1])))), by_id)

    match value:
        case str() if value.startswith("$ref:"):
            return changed(value, _WHOLE)
        case str() if "${" in value:
            return changed(value, _IN_TEXT)
        case {"$ref": str() as text, **rest} if not rest:
            return {"$ref": changed(text, _OBJECT)}
        case {"$expr": str() as text, **rest} if not rest:
            return {"$expr": changed(text, _EXPRESSION)}
        case {"$literal": _, **rest} if not rest:
            return value
        case dict():
            return {key: _mapped(each, change) for key, each in value.items()}
        case list():
            return [_mapped(each, change) for each in value]
        case _:
            return value


def usable(
    choices: Mapping[int, ToolChoice], query: DecomposedQuery, names: Collection[str], runtime: Runtime
) -> tuple[dict[int, ToolChoice], dict[int, list[str]]]:
    """Divide the choices into those that can run and those that cannot.

    Args:
        choices: by their positions in the chain.
        query: the query that they are for.
        names: of the tools that may be chosen.
        runtime: its plan engine checks the arguments.

    Returns:
        The choices that can run; and the faults of each other choice.
    """
    good, faults = dict(choices), dict[int, list[str]]()

    def leave_out(found: Mapping[int, list[str]]) -> bool:
        faults.update(found)
        for place in found:
            del good[place]
        return bool(found)

    for place, choice in choices.items():
        if choice.tool not in names:
            leave_out({place: [f"the tool {choice.tool[:60]!r} may not be used"]})
        elif not 0 <= choice.sub_query < len(query.sub_queries):
            leave_out({place: ["its sub-query does not exist"]})
    leave_out(_wrong_arguments(good, names, runtime))
    needs = {place: positions_in(dict(choice.parameters)) for place, choice in good.items()}
    while circle := set(cycle_in({place: needs[place] & good.keys() for place in good})):
        leave_out({place: [_in_a_circle(circle - {place})] for place in circle})
    while leave_out(
        {
            place: [f"it needs {choice_id(need)}, which is missing or cannot be used" for need in sorted(missing)]
            for place, choice in good.items()
            if (missing := (needs[place] | set(choice.depends_on)) - good.keys())
        }
    ):
        pass
    return good, faults


def _in_a_circle(others: Collection[int]) -> str:
    return f"it refers to {', '.join(map(choice_id, sorted(others))) or 'itself'} in a circle"


def _wrong_arguments(
    choices: Mapping[int, ToolChoice], names: Collection[str], runtime: Runtime
) -> dict[int, list[str]]:
    """The plan engine's faults of each choice's arguments."""
    steps = [
        {"id": choice_id(place), "tool": choice.tool, "arguments": dict(choice.parameters)}
        for place, choice in choices.items()
    ]
    found: dict[int, list[str]] = {}
    whole: list[str] = []
    for fault in runtime.check_plan({"steps": steps}, tools=names) if steps else ():
        if fault.severity != "error" or fault.code in ("unknown-step", "cycle"):
            continue
        if fault.step is None:
            whole.append(str(fault))
        else:
            hint = f"; {fault.hint}" if fault.hint else ""
            found.setdefault(int(fault.step[1:]), []).append(f"{fault.message}{hint}")
    if whole and len(choices) == 1:
        return dict.fromkeys(choices, whole)
    if whole:  # not JSON, nested too deeply or too long: find the choice that is
        for place, choice in choices.items():
            found |= _wrong_arguments({place: choice}, names, runtime)
    return found


def chain_of(choices: Mapping[int, ToolChoice]) -> tuple[tuple[ToolChoice, ...], list[str]]:
    """Number the choices from 0, with equal calls once.

    Args:
        choices: by their positions in the chain; each needs only others of these.

    Returns:
        The chain, and the tools of the calls that were repeated.
    """
    places: dict[int, int] = {}
    kept: list[ToolChoice] = []
    repeated: list[str] = []
    for position, choice in sorted(choices.items()):
        call = (choice.tool, choice.parameters)
        places[position] = next((n for n, each in enumerate(kept) if (each.tool, each.parameters) == call), len(kept))
        if places[position] == len(kept):
            kept.append(choice)
        else:
            repeated.append(choice.tool)
    return tuple(
        replace(
            choice,
            parameters=renumbered(dict(choice.parameters), places),
            depends_on=tuple(dict.fromkeys(places[each] for each in choice.depends_on if places[each] != place)),
        )
        for place, choice in enumerate(kept)
    ), repeated
