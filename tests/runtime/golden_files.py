"""Golden files: what people and models are shown, byte for byte, in `tests/runtime/golden`.

A change of what is shown is seen as a change of these files. Write them anew, and read what has changed:

    CALLGATE_GOLDEN=write .venv/bin/pytest tests/runtime -k golden && git diff tests/runtime/golden
"""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["same"]

FOLDER = Path(__file__).parent / "golden"


def same(name: str, text: str) -> None:
    """Hold a text against its golden file, or write that file.

    Args:
        name: of the file.
        text: its content.
    """
    path = FOLDER / name.replace(",", "").replace(" ", "_")
    if os.environ.get("CALLGATE_GOLDEN") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
