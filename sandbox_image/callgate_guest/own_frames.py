"""Tracebacks that a program makes itself show no frame of callgate's: neither those it called nor those that run it.

`program.describe` prunes what the host is told; this is for `traceback.format_exc`, `print_stack`, `logging.exception`
and all else that asks the module `traceback`.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterable
from typing import Any

from .wire import PROGRAM_NAME

_OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep
_PROGRAM = PROGRAM_NAME.rstrip(">")


def hide() -> None:
    """Have the module `traceback` leave out callgate's frames, and those that run the program."""
    summary: Any = traceback.StackSummary
    extract = getattr(summary, "_extract_from_extended_frame_gen", None)
    if extract is None or hasattr(extract, "hides"):  # a Python to come that does it otherwise shows them all
        return

    def extracted(klass: Any, frames: Iterable[Any], /, **options: Any) -> Any:
        return extract.__func__(klass, _without_ours(list(frames)), **options)

    extracted.hides = True  # type: ignore[attr-defined]
    summary._extract_from_extended_frame_gen = classmethod(extracted)


def _without_ours(frames: list[Any]) -> list[Any]:
    """Pairs of a frame and its place, without callgate's."""
    names = [frame.f_code.co_filename for frame, _ in frames]
    if (
        len(frames) > 1 and frames[0][0].f_back is frames[1][0]
    ):  # a stack, the innermost first: the rest runs the program
        own = [place for place, name in enumerate(names) if name.startswith(_PROGRAM)]
        frames = frames[: own[-1] + 1] if own else frames
    return [pair for pair, name in zip(frames, names, strict=False) if not name.startswith(_OURS)]
