"""What an example needs beyond callgate. Where it is missing, one line says what and how to get it; the example ends.

with needs("anthropic"):
    from anthropic import AsyncAnthropic
"""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

from callgate.extras import how_to_install

__all__ = ["needs"]


@contextlib.contextmanager
def needs(extra: str | None, *packages: str) -> Iterator[None]:
    """End the example with exit code 1 and one line on stderr where an import in the block finds no such package.

    Args:
        extra: callgate's extra that has the package; several, with commas between them; None if no extra has it.
        packages: packages that no extra has.
    """
    try:
        yield
    except ModuleNotFoundError as missing:
        name = (missing.name or "").partition(".")[0]
        if name == "callgate":
            raise
        command = shlex.join(["pip", "install", *packages]) if extra is None else how_to_install(extra, *packages)
        sys.exit(f"{Path(sys.argv[0]).name} needs {name}, which is not installed: {command}")
