"""What of a tool is searched."""

from __future__ import annotations

import time
from typing import Any

from callgate.search.document import document_text, meaning_text, name_text, parameter_texts, profile_of
from callgate.tools import Tool, tool


def made(name: str = "t", description: str = "", schema: dict[str, Any] | None = None, **options: Any) -> Tool:
    return Tool.from_schema(name, description, schema or {"type": "object"}, print, **options)


def test_names_and_capabilities_count_three_times() -> None:
    counts = profile_of(made("send_mail", "send one", capabilities=["post office"])).counts
    assert counts == {"send": 4, "mail": 3, "one": 1, "post": 3, "offic": 3}


def test_a_tool_of_a_server_has_the_name_it_has_there_and_its_servers() -> None:
    assert name_text(made("github_create_issue", server="github", server_tool="createIssue")) == "github createIssue"
    assert name_text(made("create_issue")) == "create_issue"


def test_category_parameters_and_examples_are_read_and_limitations_are_not() -> None:
    @tool(
        category="Finance",
        limitations=["no bonds"],
        examples=[{"query": "Apple shares", "parameters": {"secret": 1}}, "quotes", 17],
    )
    def get_price(symbol: str, currency: str = "USD") -> float:
        """Price of a stock.

        Args:
            symbol: ticker of the company.
            currency: three letters.
        """
        return 0.0

    words = set(document_text(get_price).replace(".", "").split())
    assert {"Finance", "Price", "symbol", "ticker", "currency", "letters", "Apple", "quotes"} <= words
    assert not {"bonds", "secret"} & words


def test_an_encoder_reads_the_name_first_and_no_empty_space() -> None:
    schema = {"type": "object", "properties": {"to": {"type": "string", "description": "Its  reader."}}}
    tool = made(
        "post_send_mail", "Sends\n\n  one.", schema, server="post", server_tool="sendMail", capabilities=["e-mail"]
    )
    assert meaning_text(tool) == "post sendMail: e-mail Sends one. to Its reader."


def test_parameters_are_read_wherever_they_are() -> None:
    schema = {
        "type": "object",
        "description": "of the arguments: not read",
        "properties": {
            "a": {"type": "array", "items": {"properties": {"inner": {"description": "deep", "enum": ["red", 1]}}}},
            "b": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/B~1x"}]},
        },
        "$defs": {"B/x": {"properties": {"referred": {}}}, "unused": {"properties": {"never": {}}}},
    }
    assert list(parameter_texts(schema)) == ["a", "b", "inner", "deep", "red", "referred"]


def test_schemas_that_make_no_sense_or_go_in_circles_are_bounded() -> None:
    circle: dict[str, Any] = {"properties": {"self": {"$ref": "#"}, "child": {"$ref": "#/properties/child"}}}
    assert list(parameter_texts(circle)) == ["self", "child"]
    odd: dict[str, Any] = {
        "properties": {"a": 1, "b": None, 3: {}},
        "items": [1, {"enum": "text"}],
        "anyOf": "x",
        "allOf": [{"$ref": "#/no/where"}, {"$ref": 7}, {"description": 5}],
    }
    assert list(parameter_texts(odd)) == ["a", "b"]
    huge = {"properties": {f"p{n}": {"description": "d" * 1_000, "enum": ["e"] * 1_000} for n in range(20_000)}}
    started = time.process_time()
    assert sum(map(len, parameter_texts(huge))) < 50_000
    profile_of(made("t", "word " * 1_000_000))
    assert time.process_time() - started < 3


def test_a_tool_of_random_words_is_bounded() -> None:
    profile = profile_of(made("known", "known " + " ".join(f"word{n}" for n in range(5_000))))
    assert len(profile.counts) == 256
    assert profile.counts["known"] == 4
