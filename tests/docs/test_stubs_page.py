"""What docs/stubs.md shows is what is written; its figures are those of the code and of the benchmark."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from callgate.tools import Registry, Tool
from callgate.tools.stubs import conjunction, reading, signature, stubs

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "stubs.md").read_text(encoding="utf-8")
CREATE = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "description": "One line.", "minLength": 1, "maxLength": 80},
        "state": {"enum": ["open", "shut"], "default": "open"},
        "due": {"type": "string", "format": "date"},
    },
    "required": ["title"],
}
ISSUE = {
    "title": "Issue",
    "description": "An issue, as it stands.",
    "type": "object",
    "properties": {
        "number": {"type": "integer", "description": "Its number.", "minimum": 1},
        "labels": {"type": "array", "items": {"type": "string"}, "default": ["new"]},
    },
    "required": ["number"],
}


def test_the_stub_that_is_shown_is_what_is_written() -> None:
    made = Tool.from_schema("github_create_issue", "Create an issue.", CREATE, dict, output_schema=ISSUE)
    text = stubs(Registry([replace(made, server="github", server_tool="create_issue")]))
    shown = re.findall(r"^```text\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[0]
    assert text.endswith(f"\n\n\n{shown}")


def test_odd_arguments_are_given_as_the_page_says() -> None:
    schema = {"type": "object", "properties": {"from": {"type": "string"}}, "required": ["from"]}
    made = Tool.from_schema("convert", "", schema, dict)
    assert signature(made, "convert") == "convert(**{'from': str}) -> Any"
    assert 'await convert(**{"from": "EUR"})' in PAGE


@pytest.mark.parametrize(
    "limit",
    [
        f"keys and alternatives included | {reading.MOST_PARTS:,} |",
        f"keys of an object | {reading.MOST_FIELDS}; a key of 1 to {reading.MOST_KEY_CHARACTERS} characters |",
        f"values of an `enum` | {reading.MOST_VALUES}, {reading.MOST_VALUE_CHARACTERS:,} characters |",
        f"alternatives | {reading.MOST_VALUES}; {reading.MOST_BRANCHES} beside other keywords",
        f"references lead to included | {conjunction.MOST_TOGETHER} |",
        f"levels of lists and alternatives | {reading.MOST_DEPTH} |",
    ],
)
def test_the_limits_are_those_of_the_code(limit: str) -> None:
    assert limit in PAGE


def test_the_tokens_are_those_of_the_benchmark() -> None:
    measured = (DOCS / "benchmarks-definitions.md").read_text(encoding="utf-8")
    (row,) = re.findall(r"^\| tokens of the stubs, 500 tools .*$", measured, re.MULTILINE)
    found = dict(re.findall(r"(\w+):? [\d,]+ \((\d+) a tool\)", row))
    told = dict(re.findall(r'^`"(\w+)"` \|.*\| (\d+)$', PAGE, re.MULTILINE))
    assert told == {detail: found[detail] for detail in ("names", "signatures", "full")}
    assert f"whose JSON Schemas take {found['Schemas']} each" in PAGE
