"""Turns a server's listing into tools: names, annotations, schemas, and warnings.

1. An unusable part of a tool is left out with a warning, and the tool stays. A schema is tried as it is; then with its
   wrong keywords translated or dropped (`schema_repair`); then only the names, types and descriptions of its parameters
   are kept. The server checks its arguments itself in any case.
2. An output schema of a closed object is opened for the key ``artifacts``, for handles of images and files that come
   beside the structured content.
3. The operator's `adjust` has the last word about each tool.

`imported` is slow for thousands of tools (each schema is compiled), so it runs in a worker thread and changes nothing
that is shared.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import anyio

from callgate.errors import ConfigurationError
from callgate.mcp.verbatim import HINTS, ImportedTool, flags_of
from callgate.tools import Tool
from callgate.tools.annotations import UntypedResult
from callgate.tools.json_schema import SchemaArguments, SchemaResult, own_copy
from callgate.tools.names import imported_name
from callgate.tools.schema_repair import repaired

from .connection import Listing
from .status import one_line

__all__ = ["Adjust", "Calling", "imported", "usable_input", "usable_output"]

logger = logging.getLogger("callgate.mcp")

Adjust = Callable[[Tool], Tool | None]
"""The operator's word about a tool: returns the tool, changed with `dataclasses.replace`, or None to leave it out."""
Calling = Callable[[str, SchemaResult | UntypedResult, bool, bool], Callable[..., Awaitable[Any]]]
"""Makes a tool's function from the server's own name, the contract of the value, whether the value is under ``result``,
and whether a call may be repeated."""
Warn = Callable[[str], None]
Contract = TypeVar("Contract", SchemaArguments, SchemaResult)

MAX_DESCRIPTION_CHARACTERS = 8 * 1024
MAX_TITLE_CHARACTERS = 200
MAX_NOTES = 3
"""Changes to one schema that the status lists; further ones are only counted."""
MAX_NAMES = 1000
"""Parameters that are kept of an unusable schema; with more parameters, none are kept."""
MAX_WORDS = 1000
"""Characters of the description of such a parameter."""
WRAPPED = "x-fastmcp-wrap-result"
"""FastMCP's mark of an output schema that wraps a value that is not an object under ``result``."""
_ARTIFACTS = {"type": "array", "items": {"type": "object"}, "description": "handles of images and files, if any"}
_TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object"})


def imported(
    server: str,
    listing: Listing,
    calling: Calling,
    *,
    timeout_seconds: float | None,
    places: anyio.Semaphore,
    adjust: Adjust | None,
    hide: Callable[[str], str],
) -> list[Tool]:
    """The tools of a listing, sorted so that their names do not depend on the order of the listing."""

    def is_renamed(name: str) -> bool:
        return imported_name(server, name) != f"{server}_{name}"

    tools = []
    for name, raw in sorted(listing.tools.items(), key=lambda item: (is_renamed(item[0]), item[0])):
        try:
            made = _tool(server, name, raw, listing.warn, calling, timeout_seconds, places, hide)
            tool = made if adjust is None else _adjusted(made, adjust)
        except (ConfigurationError, RecursionError) as error:
            listing.warn(f"the tool {one_line(name, 60)!r} is left out: {one_line(str(error), 200)}")
            continue
        if tool is not None:
            tools.append(tool)
    return tools


def _tool(
    server: str,
    name: str,
    raw: Mapping[str, Any],
    warn: Warn,
    calling: Calling,
    timeout_seconds: float | None,
    places: anyio.Semaphore,
    hide: Callable[[str], str],
) -> ImportedTool:
    hints: Mapping[str, Any] = given if isinstance(given := raw.get("annotations"), Mapping) else {}
    flags = flags_of(hints)
    arguments_contract = usable_input(name, raw.get("inputSchema"), warn)
    result_contract, unwrap = usable_output(name, raw.get("outputSchema"), warn)

    def title(of: Mapping[str, Any]) -> str | None:
        text = of.get("title")
        whole = hide(text[:MAX_DESCRIPTION_CHARACTERS]) if isinstance(text, str) else ""
        return one_line(whole, MAX_TITLE_CHARACTERS) or None

    annotations: dict[str, Any] = {hint: hints[hint] for hint in HINTS if isinstance(hints.get(hint), bool)}
    if (known_as := title(hints)) is not None:
        annotations["title"] = known_as
    # As `Tool.from_schema` does it; the schemas are compiled already.
    return ImportedTool(
        name=imported_name(server, name),
        description=hide(_description(raw, hints)),
        function=calling(name, result_contract, unwrap, flags["idempotent"]),
        is_async=True,
        input_contract=arguments_contract,
        result_contract=result_contract,
        server=server,
        server_tool=name,
        read_only=flags["read_only"],
        idempotent=flags["idempotent"],
        destructive=flags["destructive"],
        timeout_seconds=timeout_seconds,
        places=places,
        title=title(raw),
        annotations=annotations,
    )


def _adjusted(tool: Tool, adjust: Adjust) -> Tool | None:
    try:
        adjusted: object = adjust(tool)
    except Exception as error:
        logger.exception("adjust failed for the tool %r of the MCP server %r", tool.server_tool, tool.server)
        raise ConfigurationError(f"adjust failed with {type(error).__name__}") from None
    if adjusted is None or (isinstance(adjusted, Tool) and adjusted.server == tool.server):
        return adjusted
    raise ConfigurationError("adjust must return the tool, changed with dataclasses.replace, or None")


def _description(raw: Mapping[str, Any], hints: Mapping[str, Any]) -> str:
    for text in (raw.get("description"), raw.get("title"), hints.get("title")):
        if isinstance(text, str) and text.strip():
            kept = "".join(c if c.isprintable() or c in "\n\t" else " " for c in text[:MAX_DESCRIPTION_CHARACTERS])
            return (f"{kept} ..." if len(text) > MAX_DESCRIPTION_CHARACTERS else kept).strip()
    return ""


def usable_input(tool: str, schema: object, warn: Warn) -> SchemaArguments:
    """The contract of a tool's arguments, from the usable part of its schema."""
    if not isinstance(schema, dict):
        if schema is not None:
            warn(f"the tool {one_line(tool, 60)!r}: its input schema is not an object; any arguments are passed on")
        return SchemaArguments(tool, {})
    kind = schema.get("type")
    may_be_object = kind is None or kind == "object" or (isinstance(kind, list) and "object" in kind)
    given = {**schema, "type": "object"} if may_be_object else schema
    contract, reason = _usable(tool, "input", given, SchemaArguments, warn)
    if contract is not None:
        return contract
    known = _by_name_alone(tool, schema)
    what = "only the names and types of its parameters are used" if known.names else "any arguments are passed on"
    warn(f"{reason}; {what}")
    return known


def usable_output(tool: str, schema: object, warn: Warn) -> tuple[SchemaResult | UntypedResult, bool]:
    """The contract of a tool's results, from the usable part of its schema; whether the value is under ``result``."""
    if not isinstance(schema, dict):
        if schema is not None:
            warn(f"the tool {one_line(tool, 60)!r}: its output schema is not an object; results are not checked")
        return UntypedResult(), False
    properties = schema.get("properties")
    inner = properties.get("result") if isinstance(properties, dict) else None
    given, unwrap = schema, False
    if schema.get(WRAPPED) is True and isinstance(inner, dict):
        definitions = {key: schema[key] for key in ("$defs", "definitions", "$schema") if key in schema}
        given, unwrap = {**definitions, **inner}, True
    contract, reason = _usable(tool, "output", _with_room(given), SchemaResult, warn)
    if contract is None:
        warn(f"{reason}; results are not checked")
    return contract if contract is not None and contract.schema else UntypedResult(), unwrap


def _usable(
    tool: str, which: str, schema: dict[str, Any], contract: Callable[[str, dict[str, Any]], Contract], warn: Warn
) -> tuple[Contract | None, str]:
    """The contract, with the schema repaired if need be; or None, and the reason."""
    try:
        return contract(tool, schema), ""
    except ConfigurationError as error:
        reason = one_line(str(error).partition(": ")[2] or str(error), 200)  # without "tool '...'", which may be long
    name = f"the tool {one_line(tool, 60)!r}: "
    try:
        mended, notes = repaired(own_copy(schema, "the schema"))
        made = contract(tool, mended)
    except (ConfigurationError, RecursionError):
        return None, name + reason
    if not notes:
        warn(f"{name}{reason}; it is read as one of draft 2020-12")
        return made, ""
    shown = "; ".join(one_line(note, 160) for note in notes[:MAX_NOTES])
    more = f"; and {len(notes) - MAX_NOTES} more changes" if len(notes) > MAX_NOTES else ""
    warn(f"{name}the {which} schema is not a valid JSON Schema: {shown}{more}")
    return made, ""


def _with_room(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with a property ``artifacts``, if the object takes only the keys that it names."""
    properties = schema.get("properties", {})
    open_ = schema.get("additionalProperties", True) is True and schema.get("unevaluatedProperties", True) is True
    if open_ or schema.get("type") != "object" or not isinstance(properties, dict) or "artifacts" in properties:
        return schema
    return {**schema, "properties": {**properties, "artifacts": _ARTIFACTS}}


def _by_name_alone(tool: str, schema: dict[str, Any]) -> SchemaArguments:
    """A contract of the names, types and descriptions of the parameters at the top: what a model needs most."""
    properties = schema.get("properties")
    if not isinstance(properties, dict) or len(properties) > MAX_NAMES:
        return SchemaArguments(tool, {})
    known: dict[str, Any] = {}
    for name, each in properties.items():
        given = each if isinstance(each, dict) else {}
        description, kind = given.get("description"), given.get("type")
        known[name] = {"description": description[:MAX_WORDS]} if isinstance(description, str) else {}
        if isinstance(kind, str) and kind in _TYPES:
            known[name]["type"] = kind
    listed = schema.get("required")
    required = [name for name in known if isinstance(listed, list) and name in listed[:MAX_NAMES]]
    try:
        return SchemaArguments(
            tool, {"type": "object", "properties": known, "required": required, "additionalProperties": True}
        )
    except ConfigurationError:  # half of a surrogate pair, or an endless name
        return SchemaArguments(tool, {})
