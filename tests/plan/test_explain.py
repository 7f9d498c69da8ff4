"""A plan in words, as JSON and as a flowchart: what is there, and that no text becomes markup."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgate.plan.explain import ExplainedStep, explain, explained
from plan.plans import TEXTS, compiled, step

PLAN = {
    "goal": "compare",
    "steps": [
        step("tokyo", "get_weather", arguments={"city": "Tokyo"}),
        step("oslo", "get_weather", arguments={"city": "Oslo"}, critical=True, timeout_seconds=5),
        step("all", for_each="$ref:tokyo.list", arguments={"x": "$item"}, when="$ref:oslo.ok"),
        step("last", "give", execution_mode="sequential", after=["oslo"], arguments={"x": "a" * 100}),
    ],
    "output_steps": ["all"],
}


def of(plan: Any, form: Any, **options: Any) -> str:
    return explain(explained(compiled(plan)), form, **options)


def test_a_plan_in_words() -> None:
    assert of(PLAN, "text", goal="compare", outputs=["all"]).splitlines() == [
        "goal: compare",
        "wave 0, 2 steps in parallel",
        '  tokyo: get_weather(city="Tokyo")',
        '  oslo: get_weather(city="Oslo")',
        "      timeout_seconds: 5.0",
        "      critical: true",
        "wave 1",
        '  all: take(x="$item")',
        '      for_each: "$ref:tokyo.list"',
        '      when: "$ref:oslo.ok"',
        "      waits for oslo, tokyo",
        "wave 2",
        f'  last: give(x="{"a" * 58}…)',
        "      begins after oslo, all",
        "outputs: all",
    ]


def test_all_steps_as_outputs_are_not_listed() -> None:
    assert of({"steps": [step("a")]}, "text", outputs=["a"]) == "wave 0\n  a: take()"


def test_a_plan_as_json_is_the_plan_with_waves_and_needs() -> None:
    told = json.loads(of(PLAN, "json", goal="compare", outputs=["all"]))
    assert (told["goal"], told["output_steps"]) == ("compare", ["all"])
    assert [(each["id"], each["wave"], each["needs"]) for each in told["steps"]] == [
        ("tokyo", 0, []), ("oslo", 0, []), ("all", 1, ["oslo", "tokyo"]), ("last", 2, []),
    ]  # fmt: skip
    assert told["steps"][3]["after"] == ["oslo", "all"]
    assert told["steps"][1]["critical"] is True
    assert told["steps"][0]["arguments"] == {"city": "Tokyo"}


def test_what_is_told_as_json_can_be_run_again() -> None:
    told = json.loads(of(PLAN, "json", goal="compare", outputs=["all"]))
    for each in told["steps"]:
        for name in ("wave", "needs"):
            each.pop(name, None)
    again = compiled(told)
    assert [each.after for each in again.steps] == [each.after for each in compiled(PLAN).steps]
    assert again.waves == compiled(PLAN).waves
    told["steps"][3]["after"] = ["oslo"]
    assert compiled(told).model == compiled(PLAN).model


def test_a_plan_as_a_flowchart() -> None:
    assert of(PLAN, "mermaid", outputs=["all"]).splitlines() == [
        "flowchart LR",
        '  s0["<b>tokyo</b><br/>get_weather"]',
        '  s1["<b>oslo</b><br/>get_weather"]',
        '  s2(["<b>all</b><br/>take<br/>for each item"])',
        '  s3["<b>last</b><br/>give"]',
        "  s1 --> s2",
        "  s0 --> s2",
        "  s1 -.-> s3",
        "  s2 -.-> s3",
    ]


def test_there_are_three_forms() -> None:
    with pytest.raises(ValueError, match=r"^there is no form 'html'; there are: text, json, mermaid$"):
        explain([], "html")  # type: ignore[arg-type]


RUN = [
    ExplainedStep("a", "take", 0, (), status="succeeded", duration_seconds=0.0125, warnings=("w1",)),
    ExplainedStep("b", "take", 1, ("a",), status="failed", error="boom", duration_seconds=1),
    ExplainedStep("c", "take", 1, ("a",), ("b",), status="unknown_outcome", error="late", duration_seconds=30),
    ExplainedStep("d", "take", 2, ("b",), status="skipped", error="Skipped because dependency 'b' failed"),
]


def test_what_became_of_each_step_is_told_in_words() -> None:
    assert explain(RUN, "text").splitlines() == [
        "wave 0",
        "  a: take()",
        "      succeeded in 12 ms",
        "      warning: w1",
        "wave 1, 2 steps in parallel",
        "  b: take()",
        "      waits for a",
        "      failed in 1.00 s: boom",
        "  c: take()",
        "      waits for a",
        "      begins after b",
        "      unknown_outcome in 30.0 s: late",
        "wave 2",
        "  d: take()",
        "      waits for b",
        "      skipped: Skipped because dependency 'b' failed",
    ]


def test_what_became_of_each_step_is_told_as_json_and_in_colours() -> None:
    told = json.loads(explain(RUN, "json"))
    assert [(each["status"], each.get("error"), each.get("warnings")) for each in told["steps"]] == [
        ("succeeded", None, ["w1"]), ("failed", "boom", None), ("unknown_outcome", "late", None),
        ("skipped", "Skipped because dependency 'b' failed", None),
    ]  # fmt: skip
    chart = explain(RUN, "mermaid").splitlines()
    assert [line for line in chart if line.startswith("  class ")] == [
        "  class s0 succeeded", "  class s1 failed", "  class s2 unknown_outcome", "  class s3 skipped",
    ]  # fmt: skip
    assert sum(line.startswith("  classDef ") for line in chart) == 4


NODE = re.compile(r'  s\d+(\[|\(\[)"<b>([^"<>]*)</b><br/>([^"<>]*)"(\]|\]\))')
HOSTILE = TEXTS | st.sampled_from(
    [
        '"]; click s0 "https://evil"',
        "</b><script>alert(1)</script>",
        "a\nb --> c",
        "%%{init: {}}%%",
        "`x`",
        "#quot;",
        "end",
    ]
)


@given(st.lists(HOSTILE, min_size=1, max_size=4, unique=True), HOSTILE)
def test_no_text_of_a_plan_becomes_markup(ids: list[str], tool: str) -> None:
    steps = [ExplainedStep(name, tool, 0, tuple(ids[:number])) for number, name in enumerate(ids)]
    lines = explain(steps, "mermaid", outputs=ids[:1]).split("\n")
    assert lines[0] == "flowchart LR"
    nodes = lines[1 : 1 + len(ids)]
    for line, name in zip(nodes, ids, strict=True):
        found = NODE.fullmatch(line)
        assert found, line
        shown = re.sub(r"#(\d+);", lambda code: chr(int(code[1])), found[2])
        assert shown == (name if len(name) <= 60 else f"{name[:59]}…")
    assert all(re.fullmatch(r"  s\d+ --> s\d+", line) for line in lines[1 + len(ids) :])


@given(HOSTILE, HOSTILE)
def test_json_of_any_plan_can_be_read(name: str, tool: str) -> None:
    told = json.loads(
        explain([ExplainedStep(name, tool, 0, (), written={"id": name, "tool": tool})], "json", goal=name)
    )
    assert told["steps"][0]["id"] == name
