"""Two public sets of tools and queries: the search finds more of what answers than other engines did."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from callgate.runtime.discovery.search import ToolSearch
from callgate.search.learned import Learned
from callgate.tools import Registry
from callgate_bench.singles.search import FOUND_BY_OTHERS, SETS, Query, ToolSet, many_tools, read_set, recall

FOLDER = Path(__file__).parents[3] / "shared" / "data" / "toolsearch"


@pytest.fixture(scope="module", params=sorted(SETS))
def tools(request: pytest.FixtureRequest) -> ToolSet:
    return read(request.param)


def read(beginning: str) -> ToolSet:
    found = read_set(FOLDER, beginning)
    if found is None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"there is no {beginning} in {FOLDER}")
        pytest.skip(f"there is no {beginning} in {FOLDER}")
    return found


def half(query: Query) -> int:
    """0 for the queries that constants were chosen on, 1 for those that were held out. By the text alone, so that a
    query that occurs twice is in one half."""
    return hashlib.sha256(query.text.encode()).digest()[0] & 1


def halves(queries: Iterable[Query]) -> tuple[list[Query], list[Query]]:
    sides: tuple[list[Query], list[Query]] = ([], [])
    for query in queries:
        sides[half(query)].append(query)
    return sides


def names(search: ToolSearch, query: str) -> list[str]:
    return [each.tool.name for each in search.find(query, limit=10).found]


def test_recall_is_above_that_of_others_on_either_half_of_the_queries(tools: ToolSet) -> None:
    search = ToolSearch(Registry(tools.tools()))
    (beginning,) = (each for each in SETS if SETS[each] == tools.name)
    others = max(FOUND_BY_OTHERS[beginning].values())
    for queries in (tools.queries, *halves(tools.queries)):
        assert recall(queries, lambda text: names(search, text)) > others


def test_half_of_the_queries_teaches_something_about_the_other(tools: ToolSet) -> None:
    before = ToolSearch(Registry(tools.tools()))
    for taught, tested in (halves(tools.queries), halves(tools.queries)[::-1]):
        after = ToolSearch(Registry(tools.tools()), Learned())
        for query in taught:
            for tool in query.relevant:
                after.learn(query.text, tool)
        gain = recall(tested, lambda text, s=after: names(s, text)) - recall(tested, lambda text: names(before, text))  # type: ignore[misc]
        assert gain > 0.01


def test_every_tool_is_found_by_its_name(tools: ToolSet) -> None:
    search = ToolSearch(Registry(tools.tools()))
    for id in tools.texts:
        assert names(search, id)[0] == id


def test_sets_are_read_as_they_stand(tools: ToolSet) -> None:
    assert {len(tools.texts), len(tools.queries)} in ({2_479, 765}, {1_287, 2_351})
    for tool, (id, text) in zip(tools.tools(), tools.texts.items(), strict=True):
        words = [tool.category or "", tool.server or "", tool.server_tool or tool.name, tool.description]
        assert " ".join(" ".join(words).split()) == " ".join(text.split()), id


def test_a_query_that_occurs_twice_is_in_one_half() -> None:
    assert half(Query("rain in Oslo", ("a",))) == half(Query("rain in Oslo", ("b",)))


def test_many_tools_are_many() -> None:
    sets = [read(beginning) for beginning in SETS]
    made = many_tools(sets, 4_000)
    assert len({tool.name for tool in made}) == 4_000
