"""The page of a run as one HTML document, and its file."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from callgate.runtime.plans.result import PlanResult

from .document import document
from .markup import Sheet
from .plan import plan_cards, plan_sections, plan_status
from .program import program_cards, program_sections, program_status

if TYPE_CHECKING:
    from callgate.runtime.redaction import Redaction
    from callgate.runtime.result import CodeResult

__all__ = ["run_page", "saved"]


def run_page(result: CodeResult | PlanResult, title: str | None = None, redaction: Redaction | None = None) -> str:
    """A program's or a plan's run as a self-contained HTML document.

    Args:
        result: of a program or a plan.
        title: of the document; by default a plan's goal, or what it is.
        redaction: of all texts and values; by default the runtime's.

    Returns:
        10 MB at most. All of it can be written as UTF-8.
    """
    sheet = Sheet(redaction, result.redactor)
    if isinstance(result, PlanResult):
        (status, tone), kind, name = plan_status(result), "plan", result.goal or "A plan's run"
        body, cards = plan_sections(sheet, result), plan_cards(result)
    else:
        (status, tone), kind, name = program_status(result), "program", "A program's run"
        body, cards = program_sections(sheet, result), program_cards(result)
    heading = sheet.line(title or name, 300)
    return document(title=heading, kind=kind, status=status, tone=tone, cards=cards, body=body)


def saved(page: str, path: str | os.PathLike[str]) -> Path:
    """Write a page: the file is there whole or not at all, and its owner alone may read it. Raises `OSError`.

    Args:
        page: as HTML.
        path: of the file, which is replaced.
    """
    wanted = Path(path)
    if wanted.exists() and not wanted.is_file():  # a pipe, /dev/stdout
        wanted.write_text(page, encoding="utf-8")
        return wanted
    descriptor, name = tempfile.mkstemp(dir=wanted.parent, prefix=".callgate-")
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(page)
        os.replace(name, wanted)
    except BaseException:
        os.unlink(name)
        raise
    return wanted
