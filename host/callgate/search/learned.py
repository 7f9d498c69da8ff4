"""Lessons of earlier queries: which tool answered which words. Counts words; has no model.

1. A lesson is a pair: the terms of a query, and the tool that was then called and succeeded.
2. A tool's lessons are merged into one text, and BM25 compares a new query with that text, as with the tool's own text.
   So the search can name the words that found a tool, and the number of queries they came from.
3. The newest 32 lessons of each tool count, and the newest 8,192 of all tools; older ones are forgotten. A repeated
   query counts once.
4. Numbers and words above 32 characters are not stored, and neither is the order of words: "pay invoice 4711 for Ada"
   is stored as `ada invoic pay`.
5. A new lesson counts at the next search; with hundreds of lessons, once 2 of 100 are new.

Has no clock and no file, and knows tools by name only: `on_note` gets each new lesson. Belongs to one event loop, like
`Statistics`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from .lanes import STEP
from .postings import Postings, Profile
from .words import query_terms

__all__ = ["MAX_LESSONS", "MAX_PER_TOOL", "Learned", "Lesson"]

Lesson = tuple[str, tuple[str, ...]]
"""Tool, and the terms of the query, sorted."""

MAX_PER_TOOL = 32
"""Most lessons of one tool: so many queries show what people ask the tool for; more would add rare questions."""
MAX_LESSONS = 8_192
"""Most lessons in all. With queries of 40 words they take 14 MB, and 0.1 s to count whenever 2 of 100 are new."""
_MAX_TERMS = 32
_MAX_TERM_CHARACTERS = 32
_MAX_TOOL_CHARACTERS = 256
_BEST = 40
"""Most tools that lessons add to a ranking."""


class Learned:
    """Lessons by tool."""

    def __init__(self) -> None:
        self._lessons: dict[Lesson, None] = {}  # the newest last
        self._by_tool: dict[str, dict[Lesson, None]] = {}  # the same, by tool
        self._names: list[str] = []
        self._places: dict[str, int] = {}
        self._postings = Postings(())
        self._new = 0
        self.on_note: Callable[[Lesson], None] | None = None
        """Called with each new lesson; set by the code that stores lessons."""

    def __len__(self) -> int:
        return len(self._lessons)

    def learn(self, query: str, tool: str) -> None:
        """Learn from a query.

        Args:
            query: the query; without words it teaches nothing.
            tool: name of the tool that answered the query.
        """
        terms = sorted(term for term in query_terms(query) if _is_useful(term))[:_MAX_TERMS]
        if not terms or not tool or len(tool) > _MAX_TOOL_CHARACTERS:
            return
        lesson = (tool, tuple(terms))
        self._take(lesson)
        if self.on_note is not None:
            self.on_note(lesson)

    def of(self, tool: str) -> int:
        """The number of this tool's lessons."""
        return len(self._by_tool.get(tool, ()))

    def scores(self, terms: Mapping[str, int]) -> dict[str, float]:
        """The learned scores of a query: BM25 by tool, for the best tools.

        Args:
            terms: the terms of the query, and how often each occurs.
        """
        if not self._lessons:
            return {}
        if self._new and self._new * 50 >= len(self._lessons):
            self._count()
        sums = self._postings.sums(terms)
        return {self._names[place]: sums.numbers[place] * STEP for place in sums.best(_BEST)}

    def words(self, tool: str, terms: Iterable[str]) -> list[str]:
        """The terms that earlier queries used for the tool."""
        place = self._places.get(tool)
        return [] if place is None else [term for term in terms if self._postings.has(term, place)]

    def load(self, lessons: Iterable[Lesson]) -> None:
        """Load lessons of earlier runs, the oldest first, without calling `on_note`."""
        newer = list(self._lessons)
        for lesson in (*lessons, *newer):
            self._take(lesson)

    def _take(self, lesson: Lesson) -> None:
        of_tool = self._by_tool.setdefault(lesson[0], {})
        if lesson in of_tool:  # it is the newest now
            del self._lessons[lesson], of_tool[lesson]
        else:
            self._new += 1
        self._lessons[lesson] = of_tool[lesson] = None
        if len(of_tool) > MAX_PER_TOOL:
            self._forget(next(iter(of_tool)))
        elif len(self._lessons) > MAX_LESSONS:
            self._forget(next(iter(self._lessons)))

    def _forget(self, lesson: Lesson) -> None:
        of_tool = self._by_tool[lesson[0]]
        del self._lessons[lesson], of_tool[lesson]
        if not of_tool:
            del self._by_tool[lesson[0]]

    def _count(self) -> None:
        counts: dict[str, Counter[str]] = {}
        for tool, terms in self._lessons:
            counts.setdefault(tool, Counter()).update(terms)
        self._names = sorted(counts)
        self._places = {name: place for place, name in enumerate(self._names)}
        self._postings = Postings([Profile(counts[name], counts[name].total()) for name in self._names])
        self._new = 0


def _is_useful(term: str) -> bool:
    return 0 < len(term) <= _MAX_TERM_CHARACTERS and not term.isdigit()
