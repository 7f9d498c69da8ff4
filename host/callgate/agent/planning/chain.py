"""A chain of choices put together anew, where some that a model or a selector gave are left out. Judges none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from .choice_references import positions_in, renumbered
from .tool_plan import ToolChoice

__all__ = ["chain_of", "circular", "without_orphans"]


def circular(choices: Mapping[int, ToolChoice]) -> dict[int, list[int]]:
    """The choices that cannot be had because they refer to each other in a circle, or to one that does.

    Args:
        choices: by their positions.

    Returns:
        By their positions: those that they wait for and cannot be had before them.
    """
    waiting = {place: positions_in(dict(choice.parameters)) & choices.keys() for place, choice in choices.items()}
    while ready := [place for place, needs in waiting.items() if needs.isdisjoint(waiting)]:
        for place in ready:
            del waiting[place]
    return {place: sorted(needs & waiting.keys()) for place, needs in waiting.items()}


def without_orphans(choices: dict[int, ToolChoice]) -> dict[int, ToolChoice]:
    """Take out the choices that need one that is not there, and those that need these.

    Args:
        choices: by their positions; changed.

    Returns:
        Those that were taken out.
    """
    lost: dict[int, ToolChoice] = {}
    while orphans := [place for place, choice in choices.items() if not _needs(choice) <= choices.keys()]:
        for place in orphans:
            lost[place] = choices.pop(place)
    return lost


def chain_of(choices: Mapping[int, ToolChoice]) -> tuple[tuple[ToolChoice, ...], list[str]]:
    """The choices numbered from 0, the same call once; and the names of what was repeated.

    Args:
        choices: by the positions that they had; each needs only others of these.
    """
    places: dict[int, int] = {}
    kept: list[ToolChoice] = []
    repeated: list[str] = []
    for position in sorted(choices):
        choice = choices[position]
        call = (choice.tool, choice.parameters)
        same = next((place for place, each in enumerate(kept) if (each.tool, each.parameters) == call), None)
        if same is not None:
            repeated.append(choice.tool)
            places[position] = same
        else:
            places[position] = len(kept)
            kept.append(choice)
    chain = tuple(
        replace(
            choice,
            parameters=renumbered(dict(choice.parameters), places),
            depends_on=tuple(dict.fromkeys(places[each] for each in choice.depends_on if places[each] != place)),
        )
        for place, choice in enumerate(kept)
    )
    return chain, repeated


def _needs(choice: ToolChoice) -> set[int]:
    return positions_in(dict(choice.parameters)) | set(choice.depends_on)
