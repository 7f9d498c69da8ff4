"""Queries into parts: what a model writes, what is wrong with it, and what callers may bring."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent.planning.rulebook import decomposed, planner
from callgate import ConfigurationError
from callgate.agent.models.scripted import Say, ScriptedModel, Turn
from callgate.agent.planning.asking import Asked
from callgate.agent.planning.decomposition import FAILED_CONFIDENCE, Decomposer
from callgate.agent.planning.tool_plan import MAX_PARTS, DecomposedQuery, SubQuery, as_one_part, checked_decomposition

pytestmark = pytest.mark.anyio


def written(*parts: Any, **fields: Any) -> str:
    return json.dumps({"queryType": "multi-hop", "confidence": 0.8, "subQueries": list(parts), **fields})


async def taken_apart(*turns: Turn, query: str = "A, and then B?") -> tuple[Asked[DecomposedQuery], ScriptedModel]:
    model = ScriptedModel(turns)
    return await Decomposer(model).decompose(query), model


async def test_a_query_comes_in_parts_with_confidences_and_dependencies() -> None:
    found, model = await taken_apart(
        written(
            {"text": "What is A?", "kind": "lookup", "confidence": 0.9, "dependsOn": []},
            {"text": "What is B of A?", "kind": "lookup", "confidence": 0.7, "dependsOn": [0]},
        )
    )
    query = found.reading
    assert query.query == "A, and then B?"
    assert [part.text for part in query.sub_queries] == ["What is A?", "What is B of A?"]
    assert [part.depends_on for part in query.sub_queries] == [(), (0,)]
    assert [part.confidence for part in query.sub_queries] == [0.9, 0.7]
    assert (query.query_type, query.confidence) == ("multi-hop", 0.8)
    assert found.faults == []
    assert found.usage.output_tokens > 0
    assert model.requests[0].json_schema is not None


async def test_both_spellings_are_read_and_bare_texts_too() -> None:
    found, _ = await taken_apart(
        json.dumps(
            {"query_type": "list", "confidence": "0.9", "sub_queries": ["one", {"text": "two", "depends_on": [0]}]}
        )
    )
    assert [part.text for part in found.reading.sub_queries] == ["one", "two"]
    assert found.reading.sub_queries[1].depends_on == (0,)
    assert found.reading.query_type == "list"


BAD = [
    pytest.param("Sure! First I would look up A.", "prose", id="prose"),
    pytest.param('{"queryType": "list", "subQueries": [{"text": "A", "ki', "breaks off", id="half a JSON"),
    pytest.param("", "empty", id="nothing"),
    pytest.param("[]", "not 0", id="no parts"),
    pytest.param('{"parts": 3}', "subQueries: Field required", id="another object"),
    pytest.param(written({"kind": "lookup"}), "subQueries[0].text: Field required", id="no text"),
    pytest.param(written({"text": "A", "dependsOn": [3]}), "depends on 3", id="a part that does not exist"),
    pytest.param(written({"text": "A", "dependsOn": [0]}), "depends on 0", id="itself"),
    pytest.param(
        written({"text": "A", "dependsOn": [1]}, {"text": "B", "dependsOn": [0]}), "in a circle", id="each other"
    ),
    pytest.param(written(*[{"text": f"part {n}"} for n in range(13)]), "from 1 to 12", id="too many"),
    pytest.param('{"subQueries": ' + "[" * 100_000, "breaks off", id="endless brackets"),
    pytest.param("x" * 300_000, "at most 200000", id="endless"),
    pytest.param('{"subQueries": NaN}', "valid list, got nan", id="no JSON value"),
]


@pytest.mark.parametrize(("text", "fault"), BAD)
async def test_a_bad_answer_is_asked_again_with_its_faults(text: str, fault: str) -> None:
    found, model = await taken_apart(text, written({"text": "What is A?"}))
    assert [part.text for part in found.reading.sub_queries] == ["What is A?"]
    assert fault in str(model.requests[1].messages[-1])
    assert any(fault in each for each in found.faults)


@pytest.mark.parametrize(("text", "fault"), BAD)
async def test_after_two_bad_answers_the_query_is_one_part_with_low_confidence(text: str, fault: str) -> None:
    found, model = await taken_apart(text, text)
    assert found.reading == as_one_part("A, and then B?", FAILED_CONFIDENCE)
    assert len(model.requests) == 2
    assert any(fault in each for each in found.faults)


async def test_an_answer_that_was_cut_is_said_to_be_too_long() -> None:
    _, model = await taken_apart(Say(text='{"subQueries": [{"te', cut=True), written({"text": "A"}))
    assert "cut at the limit of its tokens" in str(model.requests[1].messages[-1])


async def test_a_callers_own_decomposition_is_taken_as_it_is() -> None:
    given = decomposed("Q", "one", SubQuery(text="two", depends_on=(0,)))
    assert checked_decomposition(given) is given


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (decomposed("Q"), "from 1 to 12 sub-queries, not 0"),
        (decomposed("Q", *["x"] * (MAX_PARTS + 1)), "from 1 to 12 sub-queries, not 13"),
        (decomposed("Q", " "), "the text of sub-query 0"),
        (decomposed("Q", "x" * 5000), "the text of sub-query 0"),
        (decomposed("Q", SubQuery(text="x", depends_on=(1,))), "depends on 1, the position of no other"),
        (decomposed("Q", SubQuery(text="x", depends_on=(0,))), "depends on 0, the position of no other"),
        (decomposed("Q", SubQuery(text="x", depends_on=(1,)), SubQuery(text="y", depends_on=(0,))), "in a circle"),
        (decomposed("Q", SubQuery(text="x", confidence=2)), "a number from 0 to 1, not 2"),
        (decomposed("Q", "x", confidence=-0.1), "confidence must be a number from 0 to 1"),
        (decomposed("Q", "x", hypothetical_confidence=float("nan")), "hypothetical_confidence"),
    ],
)
async def test_a_decomposition_that_cannot_be_one_is_refused(given: Any, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        checked_decomposition(given)
    planning, _ = planner()
    with pytest.raises(ConfigurationError, match=problem):
        await planning.plan("Q", given)
