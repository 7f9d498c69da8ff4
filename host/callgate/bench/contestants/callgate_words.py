"""What callgate tells a model of a meta-tool: for its own modes, and for peers that have no words for models."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from callgate.bench.workloads.workload import Function
from callgate.runtime import Runtime
from callgate.tools import tool

__all__ = ["words"]


def words(tools: Iterable[Function], meta: str) -> tuple[list[dict[str, Any]], str]:
    """Definitions (name, description, input_schema) and instructions.

    Args:
        tools: that programs or plans may call.
        meta: ``execute_code`` or ``execute_tool_plan``; empty for definitions of the tools themselves.
    """
    sandbox = "jail" if meta == "execute_code" else None  # without one, programs would be told to be graphs
    runtime = Runtime([tool(read_only=True)(each) for each in tools], sandbox=sandbox)
    if not meta:
        return runtime.tool_definitions("anthropic", meta=(), direct="all"), ""
    metas = cast(Any, (meta,))
    return runtime.tool_definitions("anthropic", meta=metas), runtime.instructions(meta=metas)
