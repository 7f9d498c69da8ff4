"""Whatever a model writes, reading it gives choices within bounds and faults in words; it never raises."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.planning.rulebook import RULEBOOK, answer, chosen, decomposed, rulebook
from callgate.agent.planning.prompts import repair, selection_request
from callgate.agent.planning.reading import MAX_CHOICES, Reading, json_in, read_decomposition, read_selection
from callgate.agent.planning.tool_plan import MAX_PARTS

NAMES = [each.name for each in RULEBOOK]
QUERY = decomposed("a or b", "about a", "about b")
RUNTIME = rulebook()


def read(text: str) -> Reading:
    value, _, fault = json_in(text)
    found = read_selection(value, QUERY, NAMES, RUNTIME.registry.resolve)
    return Reading(faults=[fault]) if value is None else found


def hold(text: str) -> None:
    found = read(text)
    assert len(found.choices) <= MAX_CHOICES
    for place, choice in found.choices.items():
        assert 0 <= place < MAX_CHOICES
        assert choice.tool in NAMES
        assert 0 <= choice.sub_query < 2
        assert 0 <= choice.confidence <= 1
        assert place not in choice.depends_on
        assert all(0 <= each < MAX_CHOICES for each in choice.depends_on)
    parts, faults = read_decomposition(json_in(text)[0], "q")
    assert (parts is None) == bool(faults)
    if parts is not None:
        assert 1 <= len(parts.sub_queries) <= MAX_PARTS
        assert all(part.text and 0 <= part.confidence <= 1 for part in parts.sub_queries)
    assert len(repair([*found.faults, *faults])) < 10_000


@given(st.text(max_size=300))
def test_any_text_is_read(text: str) -> None:
    hold(text)


ANY = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=10), st.sampled_from(NAMES)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.sampled_from(
                ["toolChain", "subQueries", "tool", "parameters", "subQuery", "confidence", "dependsOn", "text", "x"]
            ),
            inner,
            max_size=5,
        ),
    ),
    max_leaves=20,
)


@given(ANY, st.sampled_from(["toolChain", "tool_chain", "subQueries", "sub_queries"]))
def test_any_json_is_read(value: Any, field: str) -> None:
    hold(json.dumps({field: value if isinstance(value, list) else [value]}))


@given(st.data())
def test_an_answer_that_breaks_off_anywhere_is_read(data: st.DataObject) -> None:
    text = answer(chosen("vector-search", "about a", query='a{b"}'), chosen("keyword-search", "about b", query="[b]"))
    hold(text[: data.draw(st.integers(0, len(text)))])


def test_every_place_where_half_an_answer_ends_gives_only_whole_entries() -> None:
    entries = [chosen("vector-search", "about a", query="a"), chosen("keyword-search", "about b", query="b")]
    text = answer(*entries)
    ends = [text.index(json.dumps(each)) + len(json.dumps(each)) for each in entries]
    for cut in range(len(text)):
        found = read(text[:cut])
        assert len(found.choices) == sum(end <= cut for end in ends)
        assert json_in(text[:cut])[2]


@pytest.mark.parametrize(
    "text",
    [
        "[" * 150_000,
        "{" * 150_000,
        '{"toolChain": ' + "[" * 100_000 + "]" * 100_000 + "}",
        "```json\n" * 20_000,
        '"' * 150_000,
        "<think>" * 20_000,
        '{"toolChain": [' + "{}," * 60_000 + "{}]}",
        '{"toolChain": [{"confidence": ' + "9" * 100_000 + "}]}",
        json.dumps({"toolChain": [{"tool": "v" * 100_000, "parameters": {}}]}),
        json.dumps({"toolChain": [{"tool": "vector-search", "parameters": {"query": "${" * 30_000}}]}),
        json.dumps({"reasoning": "\ud800\x1b[2J" * 1000, "toolChain": []}),
    ],
)
def test_large_and_hostile_answers_are_read(text: str) -> None:
    hold(text)


def test_needs_that_are_repeated_count_once_and_nothing_needs_itself() -> None:
    entry = {**chosen("vector-search", query="x"), "dependsOn": [1, 0] * 16}
    text = json.dumps({"toolChain": [chosen("keyword-search", query="y"), entry]})
    hold(text)
    assert read(text).choices[1].depends_on == (0,)
    parts, _ = read_decomposition({"subQueries": ["a", {"text": "b", "dependsOn": [0] * 32}]}, "q")
    assert parts is not None
    assert parts.sub_queries[1].depends_on == (0,)
    assert len(selection_request(parts, None)) < 1_000


@pytest.mark.parametrize(
    "value",
    [
        {"subQueries": [{}] * 60_000},
        {"subQueries": [{"text": "a", "dependsOn": [99] * 60_000}]},
        {"toolChain": [{**chosen("vector-search", query="x"), "dependsOn": [""] * 60_000}]},
    ],
)
def test_a_list_of_thousands_of_faults_is_one_fault(value: Any) -> None:
    if "toolChain" in value:
        faults = read_selection(value, QUERY, NAMES, RUNTIME.registry.resolve).faults
    else:
        faults = read_decomposition(value, "q")[1]
    assert len(faults) == 1
    assert "at most 32 items" in faults[0]
