"""What earlier queries have taught: which tool answered which words. No model, only counts.

1. A lesson is a pair: the terms of a query, and the tool that was then called and succeeded.
2. A tool's lessons are put together into one text, and a new query is compared with that by BM25, the same as with the
   tool's own text. So it can be said which words brought a tool up, and from how many queries.
3. Of each tool the newest 32 lessons count, of all tools the newest 8,192; what is older is forgotten. A query that is
   repeated counts once, however often.
4. Numbers and words of more than 32 characters are not kept, and no word's place is: what is kept of "pay invoice
   4711 for Ada" is `ada invoic pay`.
5. A new lesson counts at the next search, unless there are hundreds already: then when 2 of 100 are new.

Knows no clock, no file, no tools but by name: whoever keeps lessons is called with each. Belongs to one event loop,
like `Statistics`.
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
"""So many different queries say what a tool is asked for; more would only bring back what is seldom asked."""
MAX_LESSONS = 8_192
"""Full, with queries of 40 words, that is 14 MB, and 0.1 s to count, which is when 2 of 100 are new."""
_MAX_TERMS = 32
_MAX_TERM_CHARACTERS = 32
_MAX_TOOL_CHARACTERS = 256
_BEST = 40
"""So many of the tools that earlier queries point to are looked at."""


class Learned:
    """Lessons by tool."""

    def __init__(self) -> None:
        self._lessons: dict[Lesson, None] = {}  # the newest last
        self._by_tool: dict[str, dict[Lesson, None]] = {}  # as well
        self._names: list[str] = []
        self._places: dict[str, int] = {}
        self._postings = Postings(())
        self._new = 0
        self.on_note: Callable[[Lesson], None] | None = None
        """Called with each new lesson; set by whoever keeps them."""

    def __len__(self) -> int:
        return len(self._lessons)

    def learn(self, query: str, tool: str) -> None:
        """Take a lesson.

        Args:
            query: what was searched for; nothing is learned from one without words.
            tool: name of the tool that answered it.
        """
        terms = sorted(term for term in query_terms(query) if _kept(term))[:_MAX_TERMS]
        if not terms or not tool or len(tool) > _MAX_TOOL_CHARACTERS:
            return
        lesson = (tool, tuple(terms))
        self._take(lesson)
        if self.on_note is not None:
            self.on_note(lesson)

    def of(self, tool: str) -> int:
        """How many different queries have taught something of this tool."""
        return len(self._by_tool.get(tool, ()))

    def scores(self, terms: Mapping[str, int]) -> dict[str, float]:
        """What earlier queries say of a new one: BM25 by tool, for the tools they point to most.

        Args:
            terms: of the query, and how often it says each.
        """
        if not self._lessons:
            return {}
        if self._new and self._new * 50 >= len(self._lessons):
            self._count()
        sums = self._postings.sums(terms)
        return {self._names[place]: sums.numbers[place] * STEP for place in sums.best(_BEST)}

    def words(self, tool: str, terms: Iterable[str]) -> list[str]:
        """Those of the terms that earlier queries used for the tool."""
        place = self._places.get(tool)
        return [] if place is None else [term for term in terms if self._postings.has(term, place)]

    def load(self, lessons: Iterable[Lesson]) -> None:
        """Begin with lessons of earlier times, the oldest first. They are no new lessons."""
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


def _kept(term: str) -> bool:
    return 0 < len(term) <= _MAX_TERM_CHARACTERS and not term.isdigit()
