"""The arguments of a call on their way from the caller to the tool. Large ones leave others their turn meanwhile."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from callgate.errors import InvalidArguments, ToolError
from callgate.tools import Tool
from callgate.tools.decoding import decoding
from callgate.tools.encoding import canonical_json, compact_json, encoding
from callgate.tools.faults import described
from callgate.tools.turns import LARGE_BYTES

from .attempt import crashed, in_turns
from .calls import CallUnderWay, weight

__all__ = ["as_dict", "copy_of", "key_of", "validated", "validated_by"]


def validated_by(tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
    """What the tool is called with, at once. Raises `ToolError`; of any other exception only that there was one."""
    try:
        return tool.validate(arguments)
    except ToolError:
        raise
    except Exception as error:  # a validator of the operator's own
        raise crashed(tool, error) from None


async def validated(tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
    """What the tool is called with. Raises what `validated_by` raises."""
    if not _large(arguments):
        return validated_by(tool, arguments)
    try:
        return await in_turns(tool.validating(arguments))
    except ToolError:
        raise
    except Exception as error:
        raise crashed(tool, error) from None


async def key_of(call: CallUnderWay) -> str:
    """The cache key of a call: equal for equal arguments, whatever the order of their keys."""
    if _large(call.given):
        text = hashlib.blake2b((await in_turns(encoding(call.given, sort_keys=True))).encode()).hexdigest()
    else:
        text = canonical_json(call.given)
    return f"{call.tool.name}\n{text}"


async def copy_of(arguments: dict[str, Any]) -> dict[str, Any]:
    """A copy through JSON, which shares nothing with `arguments`."""
    large = _large(arguments)
    copy: dict[str, Any] = (
        await in_turns(decoding(await in_turns(encoding(arguments)))) if large else json.loads(compact_json(arguments))
    )
    return copy


def as_dict(tool: Tool, arguments: Any) -> dict[str, Any]:
    """The arguments as a dict. Raises `InvalidArguments` for what is not an object."""
    if isinstance(arguments, Mapping):
        return dict(arguments)
    raise InvalidArguments(
        f"tool {tool.name!r}: the arguments must be an object, got {described(arguments)}", tool=tool.name
    )


def _large(arguments: dict[str, Any]) -> bool:
    return weight(arguments, LARGE_BYTES) > LARGE_BYTES
