"""Expressions and calls, drawn from the tables of `vocabulary`. Knows which variables are bound, roughly to what."""

from __future__ import annotations

import contextlib
import keyword
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from fast_path.odd_templates import BAD, EDGE, ODD_FINALS
from fast_path.statement_templates import CALLS
from fast_path.vocabulary import EXPRESSIONS, NAMES, TEXTS

__all__ = ["Choose", "Expressions", "Theme"]

T = TypeVar("T")
Choose = Callable[[int], int]
"""`choose(n)` is a number from 0 to n - 1; 0 is the simplest."""

_BLANK = re.compile(r"@([A-Z_]+|~?[a-z]+)((?:[§¤][a-z]+)*)|\$([a-z]+)|⏎")
_VARIABLE = re.compile(r"\$([a-z]+)")
_RECORDS = frozenset({"weather", "row", "rows"})
_LARGEST = 60
"""So many expressions a program has, about."""


@dataclass(frozen=True)
class Theme:
    """What a program is mostly about."""

    statements: tuple[str, ...]
    """Kinds of statements; one that stands here twice is twice as likely."""
    bad: int = 2
    """In so many of 1,000 expressions something is wrong."""
    edge: int = 2
    """So many of 1,000 expressions are at the edge of the covered subset."""
    calls: int = 150
    """So many of 1,000 expressions are calls, where there may be some."""
    most: int = 6
    """Statements of the top level."""


class Expressions:
    """The expressions of one program in the making."""

    def __init__(self, choose: Choose, theme: Theme) -> None:
        self._choose = choose
        self._theme = theme
        self._kinds: dict[str, str] = {}
        """The variables that are bound."""
        self._slots: dict[str, str] = {}
        """Those that hold a call that was not awaited yet."""
        self._held: set[str] = set()
        """Those that ever did: seldom used for anything else."""
        self._excluded: frozenset[str] = frozenset()
        """Families of tools that would depend on time, because of calls that are going on."""
        self._calls_allowed = True
        self._size = 0

    # choosing

    def one_of(self, choices: Sequence[T]) -> T:
        return choices[self._choose(len(choices))]

    def chance(self, of_a_thousand: int) -> bool:
        return self._choose(1000) >= 1000 - of_a_thousand

    # names

    def fresh(self, *besides: str) -> str:
        """A name that is not bound, and none of these."""
        used = {*self._kinds, *self._slots, *besides}
        if not self.chance(20):
            used |= self._held
        return self.one_of([name for name in NAMES if name not in used] or NAMES)

    def bind(self, name: str, kind: str) -> None:
        self._slots.pop(name, None)
        self._kinds[name] = kind

    def hold(self, name: str) -> None:
        """It holds a call, or a list of them."""
        self._kinds.pop(name, None)
        self._held.add(name)

    def known(self, kind: str) -> list[str]:
        return [name for name, of in self._kinds.items() if of == kind]

    def has_variables(self, template: str) -> bool:
        """Whether there is a variable for each `$kind` of the template."""
        return all(map(self.known, _VARIABLE.findall(template)))

    @contextlib.contextmanager
    def binding(self, names: dict[str, str]) -> Iterator[None]:
        before = self._kinds
        self._kinds = {**before, **names}
        try:
            yield
        finally:
            self._kinds = before

    @contextlib.contextmanager
    def without_calls(self) -> Iterator[None]:
        before, self._calls_allowed = self._calls_allowed, False
        try:
            yield
        finally:
            self._calls_allowed = before

    # expressions

    def expression(self, kind: str, depth: int = 2) -> str:
        """The text of one of this kind; it can stand as an operand."""
        self._size += 1
        if self.chance(self._theme.bad):
            return f"({self.fill(self.one_of(BAD), depth - 1)})"
        if self.chance(self._theme.edge):
            return f"({self.fill(self.one_of(EDGE), depth - 1)})"
        known = self.known(kind)
        if known and self.chance(850 if kind in _RECORDS else 500):
            return self.one_of(known)
        if self._calls_allowed and depth > 0 and self.chance(700 if kind in _RECORDS else self._theme.calls):
            return f"(await {self.call(kind, depth)})"
        texts = EXPRESSIONS[kind]
        if depth <= 0 or self._size > _LARGEST:
            return known[-1] if known else self.one_of([text for text in texts if "@" not in text and "$" not in text])
        if kind in _RECORDS and not known:
            return texts[0]
        return self.fill(self.one_of([text for text in texts if self.has_variables(text)]), depth - 1)

    def call(self, kind: str, depth: int = 2, families: Sequence[str] = ("read", "write", "state")) -> str:
        """A call of a tool that gives this kind, without its `await`."""
        wanted = ["bad"] if self.chance(self._theme.bad) else [each for each in families if each not in self._excluded]
        found = [text for of, family, text in CALLS if family in wanted and kind in (of, "any")]
        if not found:
            found = [text for _, family, text in CALLS if family in (wanted or ["read"])]
        return self.fill(self.one_of(found), depth - 1)

    def fill(self, template: str, depth: int) -> str:
        """The template with its blanks filled."""
        names: dict[str, str] = {}
        for mark in "§¤":
            if mark in template:
                new = [name for name in NAMES if name not in self._kinds and name not in names.values()]
                names[mark] = self.one_of(new or NAMES)
        broken = "⏎" in template and self.chance(150)

        def filled(blank: re.Match[str]) -> str:
            what, bound, variable = blank.groups()
            if variable is not None:
                known = self.known(variable)
                return self.one_of(known) if known else self.expression(variable, 1)
            if what is None:
                return "\n  " if broken else ""
            with self.binding({names[mark]: kind for mark, kind in re.findall("([§¤])([a-z]+)", bound)}):
                return self._blank(what, depth)

        text = _BLANK.sub(filled, template)
        for mark, name in names.items():
            text = text.replace(mark, name)
        return text

    def _blank(self, what: str, depth: int) -> str:
        if what in ("F", "G", "H"):
            return self._in_text({"F": "any", "G": self.one_of(("float", "int")), "H": "int"}[what], depth)
        if what in TEXTS:
            return self.one_of(TEXTS[what])
        if what in ("bad", "odd"):
            return self.fill(self.one_of(BAD if what == "bad" else ODD_FINALS), depth)
        if what.startswith("~"):
            with self.without_calls():
                return self.expression(what[1:], depth)
        return self.expression(what, depth)

    def _in_text(self, kind: str, depth: int) -> str:
        """An expression that may stand in an f-string of single quotes; before Python 3.12 not every one may."""
        text = self.expression(kind, depth)
        if text.isidentifier() and not keyword.iskeyword(text):
            return text
        if any(mark in text for mark in "'\"\\\n#"):
            return self.one_of([name for name, of in self._kinds.items() if kind in (of, "any")] or ["7"])
        return f"({text})"
