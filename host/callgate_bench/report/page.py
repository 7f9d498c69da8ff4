"""The view of a run as one HTML page: no script, nothing from elsewhere, light and dark. The one file with Jinja2."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from callgate_bench.report.view import View

__all__ = ["page"]

_PAGES = Environment(
    loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
    lstrip_blocks=True,
)  # fmt: skip


def page(view: View) -> str:
    """The page, whole, for a file in UTF-8."""
    return _PAGES.get_template("page.html.j2").render(view=view)
