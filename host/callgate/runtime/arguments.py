"""The arguments of a call on their way from the caller to the tool."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from callgate.errors import InvalidArguments, ToolError
from callgate.tools import Tool
from callgate.tools.encoding import compact_json
from callgate.tools.faults import described

from .attempt import crashed

__all__ = ["as_dict", "copy_of", "validated_by"]


def validated_by(tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
    """What the tool is called with. Raises `ToolError`; of any other exception only that there was one."""
    try:
        return tool.validate(arguments)
    except ToolError:
        raise
    except Exception as error:  # a validator of the operator's own
        raise crashed(tool, error) from None


def copy_of(arguments: dict[str, Any]) -> dict[str, Any]:
    """Through JSON: nothing is shared."""
    copy: dict[str, Any] = json.loads(compact_json(arguments))
    return copy


def as_dict(tool: Tool, arguments: Any) -> dict[str, Any]:
    """Raises `InvalidArguments` for what is no object."""
    if isinstance(arguments, Mapping):
        return dict(arguments)
    raise InvalidArguments(
        f"tool {tool.name!r}: the arguments must be an object, got {described(arguments)}", tool=tool.name
    )
