"""A server's listing into tools: names, annotations, schemas, and what was odd about them.

Slow for thousands of tools (each schema is compiled), so it runs in a worker thread; it touches nothing that is shared.
"""

from __future__ import annotations

import dataclasses
import logging
import unicodedata
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from callgate.errors import ConfigurationError
from callgate.mcp.verbatim import HINTS, ImportedTool, flags_of
from callgate.tools import Tool
from callgate.tools.annotations import UntypedResult
from callgate.tools.json_schema import SchemaResult
from callgate.tools.names import imported_name

from .artifacts import Artifacts
from .connection import Listing
from .results import Answer, Unplaced
from .schemas import usable_input, usable_output
from .status import one_line

__all__ = ["Adjust", "Call", "imported"]

logger = logging.getLogger("callgate.mcp")

Adjust = Callable[[Tool], Tool | None]
"""The operator's word about a tool: changed with `dataclasses.replace`, or None to leave it out."""
Call = Callable[[str, dict[str, Any], Answer, bool], Awaitable[Any]]
"""Makes a call: the server's own name of the tool, arguments, how to read the answer, is repeating it harmless."""

MAX_DESCRIPTION_CHARACTERS = 8 * 1024
MAX_TITLE_CHARACTERS = 200


def imported(
    server: str,
    listing: Listing,
    call: Call,
    artifacts: Artifacts,
    *,
    timeout_seconds: float | None,
    adjust: Adjust | None,
    unplaced: Unplaced,
    hide: Callable[[str], str],
) -> list[Tool]:
    """The tools of a listing, sorted so that the same tools get the same names, in whatever order they are listed."""

    def answering(name: str, contract: SchemaResult | UntypedResult, unwrap: bool) -> Answer:
        return Answer(artifacts, server, name, contract, unwrap, unplaced)

    tools = []
    for name, raw in sorted(listing.tools.items(), key=lambda item: (_changed(server, item[0]), item[0])):
        try:
            made = _tool(server, name, raw, listing.warn, call, answering, timeout_seconds)
            made = dataclasses.replace(made, description=hide(made.description), **_words(raw, hide))
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
    warn: Callable[[str], None],
    call: Call,
    answering: Callable[[str, SchemaResult | UntypedResult, bool], Answer],
    timeout_seconds: float | None,
) -> ImportedTool:
    known_as = imported_name(server, name)
    scripts = _scripts(name)
    if "LATIN" in scripts and len(scripts) > 1:
        warn(f"the tool {one_line(name, 60)!r} mixes {' and '.join(sorted(scripts))} letters in its name: look twice")
    hints = _hints(raw)
    flags = flags_of(hints)
    arguments_contract = usable_input(name, raw.get("inputSchema"), warn)
    result_contract, unwrap = usable_output(name, raw.get("outputSchema"), warn)
    answer = answering(name, result_contract, unwrap)

    async def function(**arguments: Any) -> Any:
        return await call(name, arguments, answer, flags["idempotent"])

    # As `Tool.from_schema` does it; the schemas are compiled already.
    return ImportedTool(
        name=known_as,
        description=_description(raw, hints),
        function=function,
        is_async=True,
        input_contract=arguments_contract,
        result_contract=result_contract,
        server=server,
        server_tool=name,
        read_only=flags["read_only"],
        idempotent=flags["idempotent"],
        destructive=flags["destructive"],
        timeout_seconds=timeout_seconds,
    )


def _hints(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    hints = raw.get("annotations")
    return hints if isinstance(hints, Mapping) else {}


def _words(raw: Mapping[str, Any], hide: Callable[[str], str]) -> dict[str, Any]:
    """What a tool says for people: see `ImportedTool`."""

    def title(of: Mapping[str, Any]) -> str | None:
        text = of.get("title")
        if not isinstance(text, str):
            return None
        return one_line(hide(text[:MAX_DESCRIPTION_CHARACTERS]), MAX_TITLE_CHARACTERS) or None

    hints = _hints(raw)
    annotations: dict[str, Any] = {name: hints[name] for name in HINTS if isinstance(hints.get(name), bool)}
    if (known_as := title(hints)) is not None:
        annotations["title"] = known_as
    return {"title": title(raw), "annotations": annotations}


def _adjusted(tool: Tool, adjust: Adjust) -> Tool | None:
    try:
        adjusted = adjust(tool)
    except Exception as error:
        logger.exception("adjust failed for the tool %r of the MCP server %r", tool.server_tool, tool.server)
        raise ConfigurationError(f"adjust failed with {type(error).__name__}") from None
    as_given: object = adjusted  # by the operator, whatever the annotation says
    if as_given is not None and not (isinstance(as_given, Tool) and as_given.server == tool.server):
        raise ConfigurationError("adjust must return the tool, changed with dataclasses.replace, or None")
    return adjusted


def _description(raw: Mapping[str, Any], hints: Mapping[str, Any]) -> str:
    for text in (raw.get("description"), raw.get("title"), hints.get("title")):
        if isinstance(text, str) and text.strip():
            kept = "".join(c if c.isprintable() or c in "\n\t" else " " for c in text[: MAX_DESCRIPTION_CHARACTERS + 1])
            cut = len(text) > MAX_DESCRIPTION_CHARACTERS
            return (kept[:MAX_DESCRIPTION_CHARACTERS] + " ..." if cut else kept).strip()
    return ""


def _changed(server: str, name: str) -> bool:
    return imported_name(server, name) != f"{server}_{name}"


def _scripts(name: str) -> set[str]:
    """The scripts of its letters: a Cyrillic a among Latin letters is there to deceive."""
    if name.isascii():
        return set()
    return {unicodedata.name(c, "?").split(" ")[0] for c in name[:256] if c.isalpha()}
