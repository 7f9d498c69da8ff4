"""The arguments of a call on their way from the caller to the tool."""

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

from .attempt import crashed, in_turns

__all__ = ["as_dict", "copied_in_turns", "copy_of", "in_turns", "key_of", "validated_by", "validated_in_turns"]


def validated_by(tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
    """What the tool is called with. Raises `ToolError`; of any other exception only that there was one."""
    try:
        return tool.validate(arguments)
    except ToolError:
        raise
    except Exception as error:  # a validator of the operator's own
        raise crashed(tool, error) from None


async def validated_in_turns(tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
    """The same, for arguments that are large: others have their turn meanwhile."""
    try:
        return await in_turns(tool.validating(arguments))
    except ToolError:
        raise
    except Exception as error:
        raise crashed(tool, error) from None


async def key_of(tool: Tool, arguments: dict[str, Any], large: bool) -> str:
    """Under what the result of a call is kept: the same for equal arguments, whatever the order of their keys. Empty
    for a tool whose results are not kept."""
    if tool.cache_seconds is None:
        return ""
    if not large:
        return f"{tool.name}\n{canonical_json(arguments)}"
    text = await in_turns(encoding(arguments, sort_keys=True))
    return f"{tool.name}\n{hashlib.blake2b(text.encode()).hexdigest()}"


def copy_of(arguments: dict[str, Any]) -> dict[str, Any]:
    """Through JSON: nothing is shared."""
    copy: dict[str, Any] = json.loads(compact_json(arguments))
    return copy


async def copied_in_turns(arguments: dict[str, Any]) -> dict[str, Any]:
    """The same, for arguments that are large."""
    copy: dict[str, Any] = await in_turns(decoding(await in_turns(encoding(arguments))))
    return copy


def as_dict(tool: Tool, arguments: Any) -> dict[str, Any]:
    """Raises `InvalidArguments` for what is no object."""
    if isinstance(arguments, Mapping):
        return dict(arguments)
    raise InvalidArguments(
        f"tool {tool.name!r}: the arguments must be an object, got {described(arguments)}", tool=tool.name
    )
