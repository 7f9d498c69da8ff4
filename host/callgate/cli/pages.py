"""Pages of runs: ``--trace OUT.html`` of the commands that run something."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from .words import explain, one_line, say

if TYPE_CHECKING:
    from callgate import CodeResult, PlanResult
    from callgate.agent import AgentResult

__all__ = ["save_page", "write_page"]


def save_page(result: CodeResult | PlanResult | AgentResult, options: dict[str, Any]) -> bool:
    """Write the page that ``--trace`` asks for, if it does; False if it cannot be written, which is said."""
    if options["trace"] is None:
        return True
    return write_page(result.trace(), options["trace"], quiet=options["json"])


def write_page(page: str, path: Path, *, quiet: bool = False) -> bool:
    """Write a page and say where it is; False if it cannot be written, which is said."""
    from callgate.runtime.trace.page import saved

    try:
        saved(page, path)
    except OSError as error:
        explain(f"the page {path} cannot be written: {error.strerror}", "name another file")
        return False
    if not quiet:
        say(f"page: {one_line(str(path))}")
    return True
