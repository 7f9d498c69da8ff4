"""Sources as tools name them, each once, bounded."""

from __future__ import annotations

from typing import Any

import pytest

from callgate.agent.orchestration.results import MAX_SOURCES, MAX_TEXT_CHARACTERS, confidence_of, sources_in


@pytest.mark.parametrize(
    ("result", "found"),
    [
        ({"source": "codex/terminator"}, [("t", "codex/terminator", "")]),
        ({"sources": ["a", "b", "a", " "]}, [("t", "a", ""), ("t", "b", "")]),
        ({"citations": [{"title": "Codex", "url": "https://x", "quote": "5"}]}, [("Codex", "https://x", "5")]),
        ({"citation": {"document": "Codex", "page": 12}}, [("Codex", "12", "")]),
        (
            {"results": [{"section": "with", "text": "The with statement"}, {"score": 1}, "text"]},
            [("t", "with", "The with statement")],
        ),
        ([{"source": {"title": "A", "id": 7}, "text": "words"}], [("A", "7", "words")]),
        ({"hits": [{"source": "a", "text": "x"}], "sources": "b"}, [("t", "b", ""), ("t", "a", "x")]),
        ({"source": None, "sources": [True, 3, {}, {"score": 1}], "hits": {"a": 1}}, []),
        ("a text", []),
        (None, []),
    ],
)
def test_common_shapes_are_read(result: Any, found: list[tuple[str, str, str]]) -> None:
    assert [(each.title, each.location, each.text) for each in sources_in(result, "t")] == found


def test_a_result_with_a_million_sources_is_cut() -> None:
    many = {"sources": [{"title": "x" * 10_000, "url": str(n), "text": "y" * 10_000} for n in range(20_000)]}
    found = sources_in(many, "t")
    assert len(found) == MAX_SOURCES
    assert len(found[0].title) == 300
    assert len(found[0].text) == MAX_TEXT_CHARACTERS
    assert found[0].text.endswith("…")


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ({"confidence": 0.5}, 0.5),
        ({"confidence": 1}, 1.0),
        ({"confidence": True}, None),
        ({"confidence": "0.5"}, None),
        ({"confidence": 1.5}, None),
        ({"confidence": -1}, None),
        ({"confidence": 10**400}, None),
        ({"confidence": float("nan")}, None),
        ([0.5], None),
        ("x", None),
    ],
)
def test_a_confidence_is_a_number_from_0_to_1(result: Any, said: float | None) -> None:
    assert confidence_of(result) == said
