"""A chain of choices: the references between them, which of them can be run, and the chain without the others.

References stand in parameters: ``$ref:c0.field`` and the plan language's other forms. Chooses no tools.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from typing import Any

from callgate.runtime import Runtime

from .tool_plan import DecomposedQuery, ToolChoice

__all__ = ["chain_of", "choice_id", "cycle_in", "positions_in", "renumbered", "usable"]

_IN_TEXT = re.compile(r"(?<=\$\{)\s*c([0-9]{1,4})(?=[\s.\[}])")
_WHOLE = re.compile(r"(?<=^\$ref:)c([0-9]{1,4})(?=[.\[]|$)")
_OBJECT = re.compile(r"^c([0-9]{1,4})(?=[.\[]|$)")
_EXPRESSION = re.compile(r"(?<![\w.\"'])c([0-9]{1,4})(?![\w\"'])")
_BY_POSITION = re.compile(r"steps\[([0-9]{1,4})\](?:\.result\b)?")


def choice_id(position: int) -> str:
    """How references name the choice at a position of the chain, and the step that is made of it."""
    return f"c{position}"


def positions_in(value: Any) -> set[int]:
    """The positions that parameters refer to."""
    found: list[int] = []

    def note(position: int) -> int:
        found.append(position)
        return position

    _mapped(value, note)
    return set(found)


def renumbered(value: Any, positions: Mapping[int, int]) -> Any:
    """Parameters whose references name other positions; ``steps[0].result.field`` becomes ``c0.field``, since steps are
    put into another order.

    Args:
        value: a JSON value; not changed.
        positions: the new ones by the old; one that is not named stays.
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


def cycle_in(graph: Mapping[int, Collection[int]]) -> list[int]:
    """A circle of nodes that wait for each other; empty where there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        found: list[int] = error.args[1]
        return found
    return []


def usable(
    choices: Mapping[int, ToolChoice], query: DecomposedQuery, names: Collection[str], runtime: Runtime
) -> tuple[dict[int, ToolChoice], dict[int, list[str]]]:
    """The choices that can be run, and what is wrong with each of the others, by their positions.

    A choice that only needs one of the others has no fault of its own, and an empty list.

    Args:
        choices: by their positions in the chain.
        query: that they are for.
        names: of the tools that may be chosen.
        runtime: whose plan engine checks the arguments.
    """
    faults: dict[int, list[str]] = {}
    for place, choice in choices.items():
        if choice.tool not in names:
            faults[place] = [f"the tool {choice.tool[:60]!r} may not be used"]
        elif not 0 <= choice.sub_query < len(query.sub_queries):
            faults[place] = ["it is for no sub-query"]
    good = {place: choice for place, choice in choices.items() if place not in faults}
    for place, said in _wrong_arguments(good, names, runtime).items():
        faults[place] = said
        del good[place]
    while circle := cycle_in(
        {place: positions_in(dict(each.parameters)) & good.keys() for place, each in good.items()}
    ):
        for place in set(circle):
            others = ", ".join(choice_id(each) for each in sorted(set(circle) - {place})) or "itself"
            faults[place] = [f"it refers to {others} in a circle"]
            del good[place]
    while orphans := [place for place, choice in good.items() if not _needs(choice) <= good.keys()]:
        for place in orphans:
            faults[place] = []
            del good[place]
    return good, faults


def _wrong_arguments(
    choices: Mapping[int, ToolChoice], names: Collection[str], runtime: Runtime
) -> dict[int, list[str]]:
    """What the plan engine has against the arguments of each choice."""
    if not choices:
        return {}
    places = {choice_id(place): place for place in choices}
    steps = [
        {"id": id, "tool": choices[place].tool, "arguments": dict(choices[place].parameters)}
        for id, place in places.items()
    ]
    found: dict[int, list[str]] = {}
    faults = [each for each in runtime.check_plan({"steps": steps}, tools=names) if each.severity == "error"]
    whole = [str(each) for each in faults if each.step is None and each.code not in ("unknown-step", "cycle")]
    if whole and len(choices) > 1:  # not JSON, nested too deeply, too long: which of them is?
        for place, choice in choices.items():
            found |= _wrong_arguments({place: choice}, names, runtime)
        if found:
            right = {place: choice for place, choice in choices.items() if place not in found}
            return found | _wrong_arguments(right, names, runtime)
    if whole:
        return dict.fromkeys(choices, whole)
    for fault in faults:
        if fault.step in places and fault.code not in ("unknown-step", "cycle"):
            hint = f"; {fault.hint}" if fault.hint else ""
            found.setdefault(places[fault.step], []).append(f"{fault.message}{hint}")
    return found


def chain_of(choices: Mapping[int, ToolChoice]) -> tuple[tuple[ToolChoice, ...], list[str]]:
    """The choices numbered from 0, equal calls once; and the tools of the calls that were repeated.

    Args:
        choices: by the positions that they had; each needs only others of these.
    """
    places: dict[int, int] = {}
    kept: list[ToolChoice] = []
    repeated: list[str] = []
    for position in sorted(choices):
        choice = choices[position]
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


def _needs(choice: ToolChoice) -> set[int]:
    return positions_in(dict(choice.parameters)) | set(choice.depends_on)
