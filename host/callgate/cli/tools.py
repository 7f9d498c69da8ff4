"""``callgate tools``: what a file, a module or MCP servers offer, as a program sees it."""

from __future__ import annotations

import json
from typing import Any

import click

from callgate.tools import Registry, Tool
from callgate.tools.stubs import DETAILS, Detail, signature, stubs

from .live import data_only, log_to_stderr
from .load import load_tools
from .mcp_option import Ask, ask_option, listed, mcp_option, servers_from
from .options import tools_option
from .words import OK, Stop, emit, say

__all__ = ["command"]


@click.command("tools", short_help="List the tools of a file, a module or MCP servers, or print typed stubs of them.")
@tools_option
@mcp_option
@ask_option
@click.option("--stubs", "as_stubs", is_flag=True, help="Print a Python module of typed stubs.")
@click.option(
    "--detail",
    type=click.Choice(DETAILS),
    help="How much stubs tell. names: that the tools are there; signatures: their types, and a line of what they do; "
    "full, the default: everything.",
)
@click.option("--json", "as_json", is_flag=True, help="Print names, schemas and options as a JSON list.")
def command(
    tool_files: tuple[str, ...],
    mcp_file: str | None,
    ask: tuple[str, ...],
    as_stubs: bool,
    detail: Detail | None,
    as_json: bool,
) -> int:
    """List tools: each with its signature and the first line of what it does.

    The stubs are importable Python that passes mypy --strict and pyright, sorted and stable, for a model's prompt or an
    editor.
    """
    if not tool_files and mcp_file is None:
        raise Stop(
            "there are no tools to list",
            "name them with --tools FILE.py, or --tools package.module:NAME, or MCP servers with --mcp FILE",
        )
    if as_stubs and as_json:
        raise Stop("--stubs and --json cannot both be on stdout", "choose one of them")
    if detail is not None and not as_stubs:
        raise Stop("--detail says how much stubs tell", "use it together with --stubs")
    with data_only():
        asking = Ask(ask)
        registry = asking.of(load_tools(tool_files))
        servers = servers_from(mcp_file, asking)
        log_to_stderr(verbose=False)
        registry = listed(servers, registry, ask=asking, warnings=True)
    if not len(registry):
        raise Stop(f"there are no tools to list: {mcp_file} gives none", "each server has to be up, and to have tools")
    if as_stubs:
        emit(stubs(registry, detail=detail or "full").rstrip("\n"))
    elif as_json:
        emit(json.dumps([_entry(registry, tool) for tool in registry], ensure_ascii=False))
    else:
        emit("\n".join(_lines(registry, tool) for tool in registry))
        say(f"{len(registry)} tool{'s' if len(registry) != 1 else ''}")
    return OK


def _lines(registry: Registry, tool: Tool) -> str:
    name = registry.callable_name(tool.name)
    marks = [
        word
        for word, holds in (
            ("read-only", tool.read_only),
            ("idempotent", tool.idempotent),
            ("destructive", tool.destructive),
            ("asks for approval", tool.requires_approval),
        )
        if holds
    ]
    first = tool.description.strip().partition("\n")[0]
    told = f"{first} [{', '.join(marks)}]" if marks else first
    return f"{signature(tool, name)}\n    {told}"


def _entry(registry: Registry, tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "python_name": registry.callable_name(tool.name),
        "description": tool.description,
        "input_schema": tool.input_schema,
        "output_schema": tool.output_schema,
        "read_only": tool.read_only,
        "idempotent": tool.idempotent,
        "destructive": tool.destructive,
        "requires_approval": tool.requires_approval,
        "server": tool.server,
        "allowed_callers": tool.allowed_callers,
    }
