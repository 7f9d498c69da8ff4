"""The grammar: programs that wait for several things at once, and whose outcome depends on what comes first.

Everything that is drawn ends by itself, if every call is answered and every timer fires. `choose(n)` is a number from 0
to n - 1, of which 0 is the simplest, as in `fast_path.programs`; half of the themes are that module's own.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from typing import TypeVar

from fast_path import programs as graphs
from fast_path.expressions import Choose
from fast_path.programs import Program
from replays.vocabulary import BLOCKS, COROUTINES, DELAYS, ENDS, HELPERS, JOBS, SYNC_BLOCKS, WORDS

__all__ = ["THEMES", "Program", "write"]

T = TypeVar("T")
THEMES = ("mixed", "nested", "main", "sync", *(f"graph: {theme}" for theme in graphs.THEMES))
"""What programs are about. Those of ``graph`` come from the generator of `fast_path`."""
_MODULES = (
    "asyncio", "contextlib", "contextvars", "datetime", "json", "os", "random", "secrets", "time", "types",
    "uuid", "weakref",
)  # fmt: skip
_BLANK = re.compile(r"@([a-z]+)")
_MOST_BLOCKS = 8
_DEEPEST = 3


class _Writer:
    """One program in the making."""

    def __init__(self, choose: Choose) -> None:
        self._choose = choose
        self._blocks = 0

    def one_of(self, choices: Sequence[T]) -> T:
        return choices[self._choose(len(choices))]

    def filled(self, template: str, depth: int = 0) -> str:
        """The template with all its blanks filled."""

        def fill(blank: re.Match[str]) -> str:
            kind = blank.group(1)
            if kind == "job":
                return self.filled(self.one_of(JOBS if depth < _DEEPEST else JOBS[:4]), depth + 1)
            if kind == "coro":
                return self.filled(self.one_of(COROUTINES if depth < _DEEPEST else COROUTINES[:2]), depth + 1)
            if kind in ("jobs", "coros"):
                each = f"@{kind[:-1]}"
                if self._choose(3) == 2:
                    same = self.filled(each, depth)
                    return f"[{same} for i in range({2 + self._choose(3)})]"
                return f"[{', '.join(self.filled(each, depth) for _ in range(2 + self._choose(3)))}]"
            if kind == "tasks":
                names = "abcd"[: 2 + self._choose(3)]
                made = (f"asyncio.create_task({self.filled('@coro', depth)}, name={name!r})" for name in names)
                return f"[{', '.join(made)}]"
            if kind == "delay":
                return self.one_of(DELAYS)
            if kind == "n":
                return str(1 + self._choose(3))
            return self.one_of(WORDS)

        return _BLANK.sub(fill, template)

    def block(self, depth: int = 0, choices: Sequence[str] = BLOCKS) -> str:
        """The text of one block."""
        self._blocks += 1
        number = self._blocks
        lines = []
        for line in self.one_of(choices).strip().replace("¤", str(number)).split("\n"):
            if line.strip() == "@block":
                inner = (
                    self.block(depth + 1) if depth < 2 and self._blocks < _MOST_BLOCKS else self.filled("await @job")
                )
                lines.append(textwrap.indent(inner, line[: -len("@block")]))
            else:
                lines.append(self.filled(line))
        return "\n".join(lines)

    def body(self, most: int, choices: Sequence[str] = BLOCKS) -> str:
        """Some blocks, one after the other."""
        found = [self.block(0, choices)]
        while len(found) < most and self._blocks < _MOST_BLOCKS and self._choose(4):
            found.append(self.block(0, choices))
        return "\n".join(found)

    def program(self, theme: str) -> str:
        end = self.filled(self.one_of(ENDS))
        if theme == "sync":
            text = f"def plain():\n{textwrap.indent(self.body(3, SYNC_BLOCKS), '    ')}\nplain()"
            if self._choose(2):
                text += f"\nasync def main():\n{textwrap.indent(self.body(2), '    ')}\nasyncio.run(main())\nplain()"
            end = end if "await" not in end else ""
        elif theme == "main":
            text = self.body(3) + (f"\nreturn {end}" if end else "")
            text, end = (
                f"async def main():\n{textwrap.indent(text, '    ')}",
                self.one_of(
                    ("asyncio.run(main())", "await main()", "print(await main())", "await asyncio.create_task(main())")
                ),
            )
        else:
            text = self.body(2 if theme == "nested" else 4)
        return _with_head(f"{text}\n{end}\n")


def _with_head(body: str) -> str:
    """The program with its imports and helpers."""
    helpers: list[str] = []
    while missing := [
        name for name in HELPERS
        if HELPERS[name] not in helpers and re.search(rf"\b{name}\b[(),]", "\n".join([body, *helpers]))
    ]:  # fmt: skip
        helpers.insert(0, HELPERS[missing[0]])
    text = "\n".join(each.strip() for each in [*helpers, body]) + "\n"
    imports = [f"import {module}" for module in _MODULES if f"{module}." in text]
    return "\n".join([*imports, text])


def write(choose: Choose, theme: str) -> Program:
    """The program of this theme, one of `THEMES`, that these choices lead to."""
    if theme.startswith("graph: "):
        return graphs.write(choose, theme.removeprefix("graph: "))
    return Program(_Writer(choose).program(theme))
