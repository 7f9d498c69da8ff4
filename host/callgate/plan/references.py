"""Read references: which step or item they stand for, and the path into its value. Compiles no values.

    $ref:id.path      a whole text value; stands for the value with its type
    $item.path        a whole text value; stands for the item of a `for_each`, $index for its number
    ${id.path}        inside longer text; inserts text
    {"$ref": "id"}    the object dialect; also "steps[0].result.path", by position from 0

An id is matched against the steps that exist, the longest first, so an id may hold dots, spaces or hyphens.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from typing import NamedTuple

from callgate.tools.faults import did_you_mean

from .paths import NAME, Path, PathFault, path_text, read_path

__all__ = ["INDEX", "ITEM", "Names", "Reference", "read_reference"]

ITEM = -1
"""Source of a reference to the item that a `for_each` is at."""
INDEX = -2
"""Source of a reference to the item's number, from 0."""
_OWN = {"item": ITEM, "index": INDEX}
_POSITION = re.compile(r"steps\[([0-9]{1,9})\]")
_WORD = re.compile(r"[^.\[}]*")
_DELIMITER = re.compile(r"[.\[}]")
MAX_ID_CHARACTERS = 256
_STEPS_SHOWN = 12
_IDS_COMPARED = 500
_MAX_SUGGESTIONS = 8
"""Searches for the nearest id in one plan; one takes milliseconds where there are many ids."""
_MAX_LOOKED_AT = 2 * 1024 * 1024
"""Characters of a plan that are searched for other notations; every form that may be one counts as 400."""


class Reference(NamedTuple):
    """One reference that was read."""

    source: int
    """The step's index in the plan, or `ITEM` or `INDEX`."""
    path: Path
    text: str
    """The reference as written, for messages."""
    place: tuple[str | int, ...]
    """Where the reference stands in the step, e.g. ``("arguments", "city")``."""
    nullable: bool
    """Whether a path that leads nowhere gives null and a warning; otherwise the step fails."""


class Names:
    """The names that references may use: the steps of one plan, and inside a `for_each` its item.

    Args:
        ids: of the steps, in the plan's order; `note` adds to them.
    """

    def __init__(self, ids: Iterable[str] = ()) -> None:
        self.order: list[str] = []
        """The ids of all steps, those with faults included."""
        self.ids: dict[str, int] = {}
        """The first step of each id."""
        self.item = False
        """Whether `item` and `index` mean something: true while the arguments of a `for_each` are compiled."""
        self._suggestions = _MAX_SUGGESTIONS
        self._may_look_at = _MAX_LOOKED_AT
        self._delimited = False
        for name in ids:
            self.note(name)

    def note(self, name: str) -> None:
        """Add the id of the next step."""
        self.ids.setdefault(name, len(self.order))
        self.order.append(name)
        if not self._delimited and _DELIMITER.search(name) and not _POSITION.fullmatch(name):
            self._delimited = True

    def at(self, position: int) -> str | None:
        """Return the id of the step at a position, from 0; None beyond the last."""
        return self.order[position] if 0 <= position < len(self.order) else None

    def may_look(self, characters: int) -> bool:
        """Count characters searched for other notations. Returns False once a plan has used up its share."""
        self._may_look_at -= characters
        return self._may_look_at >= 0

    def step_at(self, text: str, start: int) -> tuple[str, int] | None:
        """Return the longest id of a step that stands at `start`, and where it ends."""
        end = _WORD.match(text, start, start + MAX_ID_CHARACTERS + 1).end()  # type: ignore[union-attr]  # never None
        ends = [end]
        if self._delimited:
            ends += [match.start() for match in _DELIMITER.finditer(text, end + 1, start + MAX_ID_CHARACTERS + 1)]
            ends.append(min(len(text), start + MAX_ID_CHARACTERS))
        for end in reversed(ends):
            name = text[start:end]
            if name in self.ids and (end == len(text) or text[end] in ".[}"):
                return name, end
            name = name.rstrip()  # `${ id }`
            if text[end : end + 1] == "}" and name in self.ids:
                return name, start + len(name)
        return None

    def unknown(self, name: str) -> PathFault:
        """Return the fault of naming a step that does not exist."""
        self._suggestions -= 1
        known = itertools.islice(self.ids, _IDS_COMPARED if self._suggestions >= 0 else 0)
        hint = did_you_mean(name, known).removeprefix("; ")
        if not hint:
            shown = [each[:40] for each in self.order[:_STEPS_SHOWN]]
            more = f" and {len(self.order) - len(shown)} more" if len(self.order) > len(shown) else ""
            hint = f"the steps are: {', '.join(shown)}{more}"
        return PathFault(f"there is no step {name[:80]!r}", hint, "unknown-step")


def read_reference(text: str, start: int, names: Names) -> tuple[int, Path, int]:
    """Read the reference at `start`. Returns its source, its path and where it ends.

    Raises:
        PathFault: the reference cannot be read, or names no step.
    """
    position = _POSITION.match(text, start)
    if position is not None:
        return _by_position(text, position, names)
    found = names.step_at(text, start)
    if found is not None:
        name, end = found
        path, end = read_path(text, end)
        return names.ids[name], path, end
    word = NAME.match(text, start)
    name = word.group() if word else ""
    if names.item and name in _OWN:
        path, end = read_path(text, start + len(name))
        if path and name == "index":
            raise PathFault(f"'index' is a number and has no {path_text(path)!r}", "write $index alone")
        return _OWN[name], path, end
    if not name:
        raise PathFault("there is no step's id", "write $ref: and the id of a step, for example $ref:s1.field")
    if name in names.ids:  # its id ends, and what follows is neither a path nor the end
        return names.ids[name], (), start + len(name)
    if name == "steps":
        hint = "write the step's id and the path into its result: s1.field; or steps[0].result.field"
        raise PathFault("there is no step 'steps'", hint, "unknown-step")
    if name in _OWN:
        hint = "'item' and 'index' stand for something in a `for_each`"
        raise PathFault(f"there is no step {name!r}, and no item either", hint, "unknown-step")
    raise names.unknown(name)


def _by_position(text: str, position: re.Match[str], names: Names) -> tuple[int, Path, int]:
    index = int(position[1])
    if index >= len(names.order):
        last = f"steps[0] to steps[{len(names.order) - 1}]" if len(names.order) > 1 else "steps[0] alone"
        raise PathFault(f"there is no {position.group()}", f"positions count from 0; there is {last}", "unknown-step")
    path, end = read_path(text, position.end())
    if path and path[0] != "result":
        hint = f"write {position.group()}.result{path_text(path)[:80]}"
        raise PathFault(f"after {position.group()} comes '.result', not {path_text(path[:1])!r}", hint)
    return index, path[1:], end
