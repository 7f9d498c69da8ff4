"""From what a model sent to a JSON object: text, text in text, arguments as text. Knows JSON; no field but `plan`.

A value is written as JSON and read again, so that what is read here is nobody else's, is JSON, and has a known size.
Whatever may be long is work in turns, see `callgate.tools.turns`.
"""

from __future__ import annotations

import json
from typing import Any

from callgate.tools.decoding import counting, decoding
from callgate.tools.encoding import NotJson, TooLong, compact_json, encoding
from callgate.tools.faults import described
from callgate.tools.turns import LARGE_BYTES, Work, at_once

from .faults import PlanFault
from .sizes import json_size, memory_of
from .templates import MAX_DEPTH

__all__ = ["MAX_VALUES", "decode_arguments", "decode_plan", "decoding_arguments", "decoding_plan", "too_deep"]

_NO_BOUND = 1 << 62  # the plan that it stands in was measured
MAX_VALUES = 2_000_000
"""Objects, arrays and members of one plan, counted before it is read. 16 MiB of empty arrays would be five million
values and a gigabyte of memory; a plan of 100,000 steps with four arguments each has a million."""
_SMALL_BYTES = 16 * 1024 * 1024
"""What a plan may take in memory however small `memory_bytes` is."""
_MEMBERS_A_TURN = 20_000
_SHAPE = 'a plan is an object: {"steps": [{"id": "a", "tool": "…", "arguments": {…}}], "output_steps": ["a"]}'


def decode_plan(
    given: Any, max_bytes: int, faults: list[PlanFault], max_memory_bytes: int = _NO_BOUND
) -> dict[str, Any] | None:
    """The same as `decoding_plan`, at once."""
    return at_once(decoding_plan(given, max_bytes, faults, max_memory_bytes))


def decoding_plan(
    given: Any, max_bytes: int, faults: list[PlanFault], max_memory_bytes: int = _NO_BOUND
) -> Work[dict[str, Any] | None]:
    """The plan as an object, or None and a fault; in turns where it is large.

    Args:
        given: an object, or its JSON as text (also as text in text, in a Markdown fence, or under the key ``plan``).
        max_bytes: of it as JSON.
        faults: what is wrong is added here, and what was repaired.
        max_memory_bytes: of it in memory, about.
    """
    try:
        text = given if isinstance(given, str) else (yield from _written(given, max_bytes))
        value = yield from _read(text, None, "", "the plan", max_bytes, faults, max_memory_bytes)
        if isinstance(value, str):
            value = yield from _read_again(value, None, "", "the plan", max_bytes, faults, max_memory_bytes)
        if isinstance(value, dict) and "plan" in value and "steps" not in value:
            if len(value) > 1:
                _repaired(faults, None, "", "what stands beside 'plan' was not read; put it into the plan")
            value = value["plan"]
            if isinstance(value, str):
                value = yield from _read(value, None, "plan", "'plan'", max_bytes, faults, max_memory_bytes)
            if isinstance(value, str):
                value = yield from _read_again(value, None, "plan", "'plan'", max_bytes, faults, max_memory_bytes)
    except NotJson as fault:
        faults.append(PlanFault("not-json", None, "", f"the plan is not JSON: {fault}", _SHAPE))
        return None
    except _Refused as refused:
        faults.append(refused.fault)
        return None
    if not isinstance(value, dict):
        faults.append(PlanFault("shape", None, "", f"the plan is {described(value)}", _SHAPE))
        return None
    if (yield from _measuring_depth(value)):
        faults.append(_depth_fault(None, "", "the plan"))
        return None
    return value


def decode_arguments(given: Any, step: str, place: str, faults: list[PlanFault]) -> dict[str, Any] | None:
    """The same as `decoding_arguments`, at once."""
    return at_once(decoding_arguments(given, step, place, faults))


def decoding_arguments(given: Any, step: str, place: str, faults: list[PlanFault]) -> Work[dict[str, Any] | None]:
    """Arguments that did not come as an object: as JSON text, or as JSON text in JSON text; None and a fault."""
    value = given
    if isinstance(value, str) and value.startswith("$ref:"):
        _repaired(faults, step, place, f"{value[:80]!r} was read as an object: the result stands for all arguments")
        return {"$ref": value.removeprefix("$ref:")}
    try:
        if isinstance(value, str):
            value = (yield from _read(value, step, place, "'arguments'", _NO_BOUND, faults)) if value.strip() else None
        if isinstance(value, str):
            value = yield from _read_again(value, step, place, "'arguments'", _NO_BOUND, faults)
    except _Refused as refused:
        faults.append(refused.fault)
        return None
    if value is None:  # no arguments
        return {}
    if not isinstance(value, dict):
        hint = 'write an object: "arguments": {"name": value}'
        faults.append(PlanFault("shape", step, place, f"'arguments' must be an object, got {described(value)}", hint))
        return None
    if (yield from _measuring_depth(value)):
        faults.append(_depth_fault(step, place, "'arguments'"))
        return None
    return value


class _Refused(Exception):
    def __init__(self, fault: PlanFault) -> None:
        super().__init__(str(fault))
        self.fault = fault


def _written(value: Any, max_bytes: int) -> Work[str]:
    """The JSON text of what was given as an object. Raises `NotJson`, and `_Refused` where it would be far too long."""
    if json_size(value, LARGE_BYTES) <= LARGE_BYTES:
        return compact_json(value, "plan")
    try:
        return (yield from encoding(value, "plan", 4 * max_bytes))
    except TooLong:
        message = f"the plan has more than {4 * max_bytes} characters; max_message_bytes is {max_bytes}"
        raise _Refused(_too_large(None, "", message)) from None


def _read(
    text: str,
    step: str | None,
    place: str,
    what: str,
    max_bytes: int,
    faults: list[PlanFault],
    max_memory_bytes: int = _NO_BOUND,
) -> Work[Any]:
    """The value of a JSON text. Raises `_Refused` where it is none."""
    if len(text) * 4 > max_bytes and (size := len(text.encode("utf-8", "replace"))) > max_bytes:
        message = f"{what} is {size} bytes, more than max_message_bytes, which is {max_bytes}"
        raise _Refused(_too_large(step, place, message))
    if len(text) > MAX_VALUES and (yield from counting(text.encode("utf-8", "replace"), MAX_VALUES)) > MAX_VALUES:
        message = f"{what} has more than {MAX_VALUES} values"
        raise _Refused(PlanFault("too-large", step, place, message, "split it"))
    if len(text) > max_memory_bytes // 256 and (size := memory_of(text)) > max(max_memory_bytes, _SMALL_BYTES):
        message = f"{what} would take {size} bytes of memory, more than memory_bytes, which is {max_memory_bytes}"
        raise _Refused(_too_large(step, place, message))
    stripped = text.strip()
    if stripped.startswith("```") and stripped.endswith("```") and "\n" in stripped:
        stripped = stripped[stripped.index("\n") + 1 : -3]
        _repaired(faults, step, place, f"{what} stood in a Markdown fence; it was read all the same")
    try:
        yield
        value = yield from decoding(stripped)
        if "\\u" in stripped or not stripped.isascii():
            yield from encoding(value)  # half of a surrogate pair could be sent to nobody
    except RecursionError:
        raise _Refused(_depth_fault(step, place, what)) from None
    except json.JSONDecodeError as error:
        near = stripped[max(error.pos - 20, 0) : error.pos + 20]
        message = f"{what} is not JSON: {error.msg} at line {error.lineno} column {error.colno}, near {near!r}"
        hint = 'quote keys and text with ", leave out trailing commas and comments' if stripped else _SHAPE
        raise _Refused(PlanFault("not-json", step, place, message, hint)) from None
    except (ValueError, NotJson) as error:
        raise _Refused(PlanFault("not-json", step, place, f"{what} is not JSON: {error}")) from None
    return value


def _read_again(
    text: str,
    step: str | None,
    place: str,
    what: str,
    max_bytes: int,
    faults: list[PlanFault],
    max_memory_bytes: int = _NO_BOUND,
) -> Work[Any]:
    value = yield from _read(text, step, place, what, max_bytes, faults, max_memory_bytes)
    _repaired(faults, step, place, f"{what} was JSON text in JSON text; it was read all the same")
    return value


def _too_large(step: str | None, place: str, message: str) -> PlanFault:
    return PlanFault("too-large", step, place, message, "split it, or let the operator raise the limit")


def _depth_fault(step: str | None, place: str, what: str) -> PlanFault:
    return PlanFault("too-large", step, place, f"{what} is nested more than {MAX_DEPTH} levels deep", "flatten it")


def _repaired(faults: list[PlanFault], step: str | None, place: str, message: str) -> None:
    faults.append(PlanFault("repaired", step, place, message, "", "warning"))


def too_deep(value: Any) -> bool:
    """Whether a JSON value has more than `MAX_DEPTH` levels of objects and arrays."""
    return at_once(_measuring_depth(value))


def _measuring_depth(value: Any) -> Work[bool]:
    level = [value]
    seen = 0
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for item in level:
            members = item.values() if type(item) is dict else item if type(item) is list else ()
            below.extend([member for member in members if type(member) is dict or type(member) is list])
            seen += 1 + len(members)
            if seen > _MEMBERS_A_TURN:
                seen = 0
                yield
        if not below:
            return False
        level = below
    return True
