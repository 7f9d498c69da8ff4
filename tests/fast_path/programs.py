"""The grammar: programs that call the tools of `catalogue`, statement by statement.

What is drawn knows which variables are bound and roughly to what kind of value, so that most programs run to their end;
those that do not were drawn so, from `odd_templates.BAD`. Everything shrinks towards fewer statements and towards the
first entry of each table.
"""

from __future__ import annotations

import functools
import io
import tokenize
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from fast_path.expressions import Choose, Theme
from fast_path.statement_templates import FINALS
from fast_path.statements import Statements

__all__ = ["THEMES", "Program", "programs", "write"]


@dataclass(frozen=True)
class Program:
    """What is run."""

    source: str
    inputs: dict[str, Any] = field(default_factory=dict)


THEMES = {
    "sequential": Theme(("assign", "fetch", "assign", "print", "unpack", "call"), calls=250),
    "gathered": Theme(("gather", "gather", "slot", "fetch", "print", "call"), calls=200),
    "looping": Theme(("loop", "loop", "fetch", "print", "gather", "change"), most=5),
    "branching": Theme(("branch", "branch", "fetch", "assign", "print", "loop", "call"), calls=200, most=5),
    "changing": Theme(("change", "change", "fetch", "alias", "loop", "call", "print")),
    "pure": Theme(("print", "assign", "unpack", "print", "change"), calls=20, most=4),
    "effects": Theme(("effect", "effect", "fetch", "loop", "branch", "gather", "print"), calls=100),
    "failing": Theme(("assign", "fetch", "print", "loop", "gather", "call", "branch", "change"), bad=40, calls=200),
    "outside": Theme(("outside", "fetch", "print", "loop", "call"), bad=5, edge=30, most=4),
    "long": Theme(
        ("assign", "fetch", "print", "gather", "loop", "branch", "change", "effect", "call"), bad=1, edge=0, most=16
    ),
    "mixed": Theme(
        ("assign", "fetch", "print", "gather", "loop", "branch", "change", "unpack", "slot", "alias", "effect", "call"),
        bad=6, edge=3, most=8,
    ),
}  # fmt: skip
"""What programs are about."""

_INPUTS: dict[str, tuple[str, Any]] = {
    "city": ("str", "Oslo"),
    "numbers": ("ints", [3, 1, 2]),
    "words": ("strs", ["b", "a", "日"]),
    "order": ("weather", {
        "city": "x", "temp": 4, "unit": "C", "tags": ["t"], "wind": {"speed": 1.5, "gusts": [1, 2]}, "note": None
    }),
    "limit": ("int", 7),
    "nothing": ("any", None),
    "ratio": ("float", 2.5),
    "item": ("row", {"id": 1, "name": "n", "value": 2, "price": 0.5, "items": [1, 2], "keys": {"a": 5}}),
}  # fmt: skip
_ENDS = ("asyncio.run({})", "await {}")
_ODD_ENDS = (
    "print(await {})", "x = await {}\nprint(x)", "x = asyncio.run({})\nx", "print(asyncio.run({}))", "{}",
    'if __name__ == "__main__":\n    asyncio.run({})', "for _ in [1, 2]:\n    await {}",
)  # fmt: skip


class _Writer(Statements):
    """A program in the making."""

    def program(self) -> Program:
        inputs = {}
        if self.chance(150):
            for _ in range(1 + self._choose(3)):
                name = self.one_of(list(_INPUTS))
                kind, inputs[name] = _INPUTS[name]
                self.bind(name, kind)
        in_main = self.chance(20 if inputs else 180)
        lines = self._fetch() if self.chance(600) else []
        lines += self.block(1, self._theme.most) + self.await_slots()
        final = self._final()
        if in_main:
            main = self.one_of(("x", "get_number", "é")) if self.chance(20) else self.one_of(("main", "run"))
            end = self.one_of(_ODD_ENDS if self.chance(60) else _ENDS).format(f"{main}()")
            lines += [f"return {final}"] if final else []
            head = f"async def {main}()" + (" -> None:" if self.chance(100) else ":")
            lines = [head, *("    " + line for line in lines), end]
        elif final:
            lines.append(f"return {final}" if self.chance(100) else final)
        if self.chance(100) and not any("'''" in line for line in lines):
            lines = [each for line in lines for each in self._with_noise(line)]
        source = self._with_head("\n".join(lines) + "\n")
        return Program(self._broken(source) if self.chance(100) else source, inputs)

    def _broken(self, source: str) -> str:
        """The same with some lines broken within brackets."""
        lines = source.split("\n")
        depth, places = 0, []
        try:
            for token in tokenize.generate_tokens(io.StringIO(source).readline):
                if depth > 0 and token.type in (tokenize.NAME, tokenize.OP, tokenize.NUMBER) and self._choose(5) == 4:
                    places.append(token.start)
                depth += (token.string in "([{") - (token.string in ")]}") if token.type == tokenize.OP else 0
        except (tokenize.TokenError, IndentationError):
            return source
        for line, column in reversed(places):
            lines[line - 1 : line] = [lines[line - 1][:column], "  " + lines[line - 1][column:]]
        return "\n".join(lines)

    def _with_noise(self, line: str) -> list[str]:
        form = self._choose(12)
        return {9: [line, ""], 10: [line + "  # so"], 11: ["# é", line]}.get(form, [line])

    def _final(self) -> str:
        form = self._choose(10)
        if form < 3:
            return ""
        if form < 6 and self._kinds:
            return self.one_of(list(self._kinds))
        return self.fill(self.one_of(FINALS), 2) if form < 8 else self.expression("any", 3)

    def _with_head(self, source: str) -> str:
        head = [f"import {module}" for module in ("asyncio", "json") if f"{module}." in source and not self.chance(5)]
        if self.chance(60):
            head.append(self.one_of(("import asyncio, json", "'''What it does.'''", "# what it does", "")))
        source = "\n".join([*head, source])
        return source.replace("\n", "\r\n") if self.chance(10) else source


def write(choose: Choose, theme: str) -> Program:
    """The program of this theme, a key of `THEMES`, that these choices lead to."""
    return _Writer(choose, THEMES[theme]).program()


@functools.cache
def _below(count: int) -> st.SearchStrategy[int]:
    return st.integers(0, count - 1)


@st.composite
def programs(draw: st.DrawFn, theme: str) -> Program:
    """Programs of this theme, a key of `THEMES`."""
    return write(lambda count: draw(_below(count)), theme)
