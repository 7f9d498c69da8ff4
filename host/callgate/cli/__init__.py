"""The command line: arguments in, words for people out, stable exit codes. One file per command, imported when needed.

Data goes to stdout, words to stderr. Exit codes: 0 ok, 1 the program failed, 2 usage, 3 no sandbox, 4 a limit was
reached, 130 interrupted, 141 the reader of stdout has gone away.
"""

from __future__ import annotations

from .commands import main

__all__ = ["main"]
