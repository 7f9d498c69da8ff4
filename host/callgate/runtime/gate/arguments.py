"""The arguments of a call: as a dict, validated, copied, measured, and as a cache key.

Large values are handled in turns: after a few milliseconds of work the event loop runs other tasks.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import anyio.lowlevel

from callgate.errors import InvalidArguments, ToolError
from callgate.tools import Tool
from callgate.tools.decoding import decoding
from callgate.tools.encoding import canonical_json, compact_json, encoding
from callgate.tools.faults import described
from callgate.tools.turns import LARGE_BYTES, Work

from .failures import crashed

__all__ = [
    "as_dict", "copy_of", "in_turns", "key_of", "turn_of_others", "validated", "validated_by", "weighing", "weight",
]  # fmt: skip

T = TypeVar("T")

_ROUNDS = 3
_VALUES_A_TURN = 20_000
_VALUES_A_RUN = 1_000
_RUN = 50
"""Values that take as long as one run takes besides its values."""
_FLAT = frozenset({str, int, float, bool, type(None)})
_TEXTS = {str}
_EMPTY_TEXT = sys.getsizeof("")
"""Bytes that an ASCII text takes besides its characters."""


def as_dict(tool: Tool, arguments: Any) -> dict[str, Any]:
    """The arguments as a dict. Raises `InvalidArguments` if they are not an object."""
    if isinstance(arguments, Mapping):
        return dict(arguments)
    raise InvalidArguments(
        f"tool {tool.name!r}: the arguments must be an object, got {described(arguments)}", tool=tool.name
    )


def validated_by(tool: Tool, arguments: dict[str, Any], *, are_json: bool = False) -> dict[str, Any]:
    """The arguments that the tool receives. Raises `ToolError`; other exceptions are hidden as `ToolCrashed`.

    Args:
        tool: the tool.
        arguments: as the caller gave them.
        are_json: whether they are JSON values for sure, since callgate read them from JSON text.
    """
    try:
        if are_json and (ready := tool.copied(arguments, large=False)) is not None:
            return ready
        return tool.validate(arguments)
    except ToolError:
        raise
    except Exception as error:  # a validator of the operator's own
        raise crashed(tool, error) from None


async def validated(tool: Tool, arguments: dict[str, Any], *, are_json: bool = False) -> dict[str, Any]:
    """Do the work of `validated_by`; validate large arguments in turns."""
    if not _large(arguments):
        return validated_by(tool, arguments, are_json=are_json)
    try:
        if are_json and (ready := tool.copied(arguments, large=True)) is not None:
            return ready
        return await in_turns(tool.validating(arguments))
    except ToolError:
        raise
    except Exception as error:
        raise crashed(tool, error) from None


async def key_of(tool: Tool, arguments: dict[str, Any]) -> str:
    """The cache key of a call; the order of the arguments' keys does not matter."""
    if _large(arguments):
        text = hashlib.blake2b((await in_turns(encoding(arguments, sort_keys=True))).encode()).hexdigest()
    else:
        text = canonical_json(arguments)
    return f"{tool.name}\n{text}"


async def copy_of(arguments: dict[str, Any]) -> dict[str, Any]:
    """Copy `arguments` through JSON."""
    if _large(arguments):
        made: dict[str, Any] = await in_turns(decoding(await in_turns(encoding(arguments))))
    else:  # at once: a call that needs no approval must not overtake it
        made = json.loads(compact_json(arguments))
    return made


async def in_turns(work: Work[T]) -> T:
    """Run long work to its end, with turns for other tasks in between. Raises what the work raises."""
    while True:
        await turn_of_others()
        try:
            next(work)
        except StopIteration as done:
            result: T = done.value
            break
    await turn_of_others()
    return result


async def turn_of_others() -> None:
    """Let every other task go on whose time has come, between two long steps of work.

    One checkpoint is too few: where a task's sleep has ended, asyncio runs its timer in one round of the loop and the
    task in the next, and in each of them the work would make a step.
    """
    for _ in range(_ROUNDS):
        await anyio.lowlevel.checkpoint()


def _large(arguments: dict[str, Any]) -> bool:
    return weight(arguments, LARGE_BYTES) > LARGE_BYTES


def weight(value: Any, enough: int) -> int:
    """Memory of a JSON value in bytes, about. Counting stops above `enough`."""
    if type(value) in _FLAT:
        return sys.getsizeof(value)
    if type(value) is dict and len(value) < 32:  # most calls' arguments
        total = sys.getsizeof(value)
        for key, item in value.items():
            if type(item) not in _FLAT:
                break
            total += sys.getsizeof(key) + sys.getsizeof(item)
        else:
            return total
    total = 0
    keys: set[int] = set()
    levels: list[Iterator[Any]] = [iter((value,))]
    while levels and total <= enough:
        for item in levels[-1]:
            total += sys.getsizeof(item)
            if isinstance(item, dict):
                levels.append(_inside(item, keys))
                break
            if isinstance(item, (list, tuple)):
                levels.append(iter(item))
                break
            if total > enough:
                break
        else:
            levels.pop()
    return total


def _inside(value: dict[Any, Any], keys: set[int]) -> Iterator[Any]:
    """The values of `value`, and those of its keys that are not in `keys`."""
    for key, below in value.items():
        if id(key) not in keys:
            keys.add(id(key))
            yield key
        yield below


def weighing(value: Any, enough: int) -> Work[int]:
    """Do the work of `weight` for many values: in runs, and in turns.

    Memory counts, not characters: one emoji makes every character of its text take four bytes. A key that several
    objects share counts once, since the JSON decoder shares it.
    """
    total = seen = 0
    keys: set[int] = set()
    runs: list[tuple[Iterator[Any], bool]] = [(iter((value,)), False)]
    while runs and total <= enough:
        members, are_keys = runs[-1]
        run = list(itertools.islice(members, _VALUES_A_RUN))
        if not run:
            runs.pop()
            continue
        seen += len(run) + _RUN
        if seen > _VALUES_A_TURN:
            seen = 0
            yield
        if are_keys:
            named = {id(key): key for key in run}
            run = [key for each, key in named.items() if each not in keys]
            keys.update(named)
        kinds = set(map(type, run))
        if kinds == _TEXTS and (together := "".join(run)).isascii():
            total += len(together) + len(run) * _EMPTY_TEXT
            continue
        total += sum(map(sys.getsizeof, run))
        if not kinds <= _FLAT:
            objects = [item for item in run if isinstance(item, dict)]
            arrays = [item for item in run if isinstance(item, (list, tuple))]
            runs.append((itertools.chain.from_iterable(map(dict.values, objects)), False))
            runs.append((itertools.chain.from_iterable(objects), True))
            runs.append((itertools.chain.from_iterable(arrays), False))
    return total
