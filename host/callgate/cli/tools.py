"""``callgate tools``: what a file, a module or MCP servers offer, as a program sees it."""

from __future__ import annotations

from typing import Any

import click

from callgate.tools import Registry, Tool
from callgate.tools.stubs import DETAILS, signature, stubs

from .offer import Offer
from .options import option, options, shared
from .words import Exit, Stop, counted, data_only, emit, emit_json, log_to_stderr, say

__all__ = ["command"]

_MARKS = {"read_only": "read-only", "idempotent": "idempotent", "destructive": "destructive", "requires_approval": "asks for approval"}  # fmt: skip  # noqa: E501
_FIELDS = ("name", "description", "input_schema", "output_schema", *_MARKS, "server", "allowed_callers")


class Stubs:
    """Tools as a Python module."""

    stubs = option(is_flag=True)
    """Print a Python module of typed stubs."""
    detail = option(type=click.Choice(DETAILS))
    """Detail of the stubs. names: only the names; signatures: types, and a line of what each tool does; full, the
    default: everything."""


@click.command("tools")
@shared("tools", "mcp", "ask")
@options(Stubs)
@shared("json")
def command(**options: Any) -> int:
    """List tools: each with its signature and the first line of what it does.

    The stubs are importable Python that passes mypy --strict and pyright, sorted and stable, for a model's prompt or an
    editor.
    """
    mcp_file, as_stubs, detail, as_json = (options[name] for name in ("mcp", "stubs", "detail", "json"))
    if not options["tools"] and mcp_file is None:
        tip = "name them with --tools FILE.py, or --tools package.module:NAME, or MCP servers with --mcp FILE"
        raise Stop("there are no tools to list", tip)
    if as_stubs and as_json:
        raise Stop("--stubs and --json cannot both be on stdout", "choose one of them")
    if detail is not None and not as_stubs:
        raise Stop("--detail says how much stubs tell", "use it together with --stubs")
    log_to_stderr()
    with data_only():
        registry = Offer(options).look(warnings=True)
    if not len(registry):
        raise Stop(f"there are no tools to list: {mcp_file} gives none", "each server has to be up, and to have tools")
    if as_stubs:
        emit(stubs(registry, detail=detail or "full").rstrip("\n"))
    elif as_json:
        emit_json([_entry(registry, tool) for tool in registry])
    else:
        emit("\n".join(_lines(registry, tool) for tool in registry))
        say(counted(len(registry), "tool"))
    return Exit.OK


def _lines(registry: Registry, tool: Tool) -> str:
    marks = ", ".join(word for name, word in _MARKS.items() if getattr(tool, name))
    first = tool.description.strip().partition("\n")[0]
    return f"{signature(tool, registry.callable_name(tool.name))}\n    {first}{f' [{marks}]' if marks else ''}"


def _entry(registry: Registry, tool: Tool) -> dict[str, Any]:
    return {"python_name": registry.callable_name(tool.name), **{name: getattr(tool, name) for name in _FIELDS}}
