"""Results as notebooks show them: what is in the HTML and the Markdown, and what never is, whatever a program did."""

from __future__ import annotations

import base64
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgate import Artifact, CallRecord, CodeResult, PlanResult, RunError, RunUsage
from runtime.drawn import GIF, HTML, JPEG, SVG, WEBP, artifact, png, png_header
from runtime.timelines import HOSTILE, Checked, call, ran, results, step, texts

TAGS = {"div", "b", "span", "pre", "figure", "img", "figcaption"}
ATTRIBUTES = {"style", "src", "alt"}
SCRIPT = "</pre><script>alert(1)</script>"


def checked(markup: str) -> Checked:
    """The parsed markup: it balances, and has nothing that loads or runs."""
    page = Checked(markup.replace("<img ", "<br ").replace('max-width:100%">', 'max-width:100%">'))
    assert {tag for tag, _ in page.seen} <= TAGS | {"br"}
    assert {name for _, attributes in page.seen for name in attributes} <= ATTRIBUTES
    assert all(src.startswith("data:image/") and "svg" not in src for src in page.attributes("src"))
    assert not any("url" in style or "expression" in style for style in page.attributes("style"))
    markup.encode()
    return page


def code(**fields: Any) -> CodeResult:
    return CodeResult(**{"ok": "error" not in fields, "usage": RunUsage(wall_seconds=0.1), **fields})


def test_a_program_shows_its_value_prints_pictures_and_calls() -> None:
    shown = code(
        value={"total": 3}, logs="line 1\nline 2\n", artifacts=[artifact(png(), "plot.png")],
        calls=[call(1, 0.0, 0.05, "succeeded"), call(2, 0.05, 0.05, "failed")], sandbox="jail, tier 1: all of it",
        notes=["one was dropped"],
    )  # fmt: skip
    page = checked(shown._repr_html_())
    for words in ('"total": 3', "line 1\nline 2", "plot.png", "100 ms, jail, tier 1", "✗", "failed", "one was dropped"):
        assert words in page.text, words
    assert page.attributes("src") == [f"data:image/png;base64,{base64.b64encode(png()).decode()}"]
    text = shown._repr_markdown_()
    assert f"![picture](data:image/png;base64,{base64.b64encode(png()).decode()})" in text
    for words in ('"total": 3', "line 1\nline 2", "plot.png (image/png,", "one was dropped"):
        assert words in text, words


def test_a_failed_program_shows_its_error_and_what_it_printed_before() -> None:
    error = RunError("ValueError", "bad", 2, "Traceback\n  line 2\nValueError: bad\n")
    shown = code(error=error, logs="so far\n", value_repr="late")
    for text in (checked(shown._repr_html_()).text, shown._repr_markdown_()):
        assert "The program failed" in text
        assert "ValueError: bad" in text
        assert "so far" in text
        assert "late" not in text


def test_a_plan_shows_its_outputs_and_its_steps_in_time() -> None:
    plan = ran(
        step("a", 0.0, 0.2), step("b", 0.2, 0.2, needs=("a",), status="failed", error="no such region"),
        step("c", None, 0.0, needs=("b",), status="skipped"), wall=0.4,
    )  # fmt: skip
    shown = PlanResult(
        ok=False, outputs={"a": {"n": 1}}, steps=plan.steps, usage=plan.usage, goal="Sales",
        artifacts=[artifact(png(), "plot.png"), NAMED["a page"]],
    )  # fmt: skip
    page = checked(shown._repr_html_())
    for words in ("Sales", "1/3 steps succeeded", '"n": 1', "b: no such region", "skipped"):
        assert words in page.text, words
    widths = [float(width) for width in re.findall(r";width:([\d.]+)%", shown._repr_html_())]
    assert widths == [50.0, 50.0, 0.0]
    assert "no such region" in shown._repr_markdown_()
    assert '"n": 1' in shown._repr_markdown_()
    assert len(page.attributes("src")) == shown._repr_markdown_().count("](data:image/png;base64,") == 1
    assert "page.html (text/html" in page.text
    assert "page.html (text/html" in shown._repr_markdown_()


def test_a_plan_that_was_refused_says_so() -> None:
    shown = PlanResult(ok=False, error=RunError("PlanDenied", "not today"))
    assert "not today" in checked(shown._repr_html_()).text
    assert "not today" in shown._repr_markdown_()


@pytest.mark.parametrize("data", [png(), GIF, JPEG, WEBP])
def test_pictures_are_inline(data: bytes) -> None:
    assert base64.b64encode(data).decode() in code(artifacts=[artifact(data, "a")])._repr_html_()


NAMED = {
    "a drawing": artifact(SVG, "drawing.svg"),
    "a page": artifact(HTML, "page.html"),
    "what is called a picture": artifact(b"PK\x03\x04", "a.png", "image/png"),
    "a page that is called a picture": artifact(HTML, "a.png", "image/png"),
    "a picture of ten thousand million pixels": artifact(png_header(100_000, 100_000), "bomb.png"),
    "a picture of 3 MB": artifact(png() + bytes(3_000_000), "large.png"),
}


@pytest.mark.parametrize("name", NAMED)
def test_what_a_page_must_not_show_is_named(name: str) -> None:
    shown = code(artifacts=[NAMED[name]])
    page = checked(shown._repr_html_())
    assert page.attributes("src") == []
    assert f"{NAMED[name].name} (" in page.text
    text = shown._repr_markdown_()
    assert "](data:" not in text
    assert f"{NAMED[name].name} (" in text
    assert len(shown._repr_html_()) < 2_000


def test_all_pictures_together_are_bounded() -> None:
    shown = code(artifacts=[artifact(png(seed=n) + bytes(1_900_000), f"{n}.png") for n in range(32)])
    assert len(checked(shown._repr_html_()).attributes("src")) == 4
    assert len(shown._repr_html_()) < 12_000_000
    assert shown._repr_markdown_().count("](data:") == 4


@pytest.mark.parametrize("text", [*HOSTILE, SCRIPT, '"><img src=x onerror=alert(1)>', "{left}", "\x1b[31m", "\ud800"])
def test_texts_of_programs_tools_and_models_are_escaped_and_printable(text: str) -> None:
    record = CallRecord(id=1, tool=text, arguments={}, caller="code", started_seconds=0.0, error=text)
    named = Artifact(name=text, media_type=text, data=png())
    for shown in (
        code(value=text, logs=text, notes=[text], calls=[record], artifacts=[named, NAMED["a page"]], sandbox=text),
        code(value={text: [text]}, error=RunError(text, text, 1, text)),
        code(value_repr=text),
        PlanResult(ok=True, outputs={text: text}, steps=[step(text, 0.0, 1.0, tool=text, error=text)], goal=text),
        PlanResult(ok=False, error=RunError("LimitReached", text, limit="wall_seconds"), steps=[step(text, 0.0, 1.0)]),
    ):
        page = checked(shown._repr_html_())
        assert "\x1b" not in page.text
        shown._repr_markdown_().encode()


@given(texts, texts, st.integers(0, 5))
def test_no_text_leaves_its_fence(text: str, more: str, ticks: int) -> None:
    shown = code(value=f"{text}\n{'`' * ticks}\n{more}\n```\n<b>", logs=more)._repr_markdown_()
    inside, fence = False, ""
    outside = []
    for line in shown.split("\n"):
        if not inside and (opened := re.fullmatch("(`{3,})text", line)):
            inside, fence = True, opened[1]
        elif inside and line == fence:
            inside = False
        elif not inside:
            outside.append(line)
    assert not inside
    assert set(outside) <= {"", "prints:", "**✓ The program ended well** in 100 ms"}


@given(results())
def test_every_plan_can_be_shown(result: PlanResult) -> None:
    checked(result._repr_html_())
    result._repr_markdown_().encode()


def test_what_is_shown_is_bounded_for_any_run() -> None:
    calls = [call(n, 0.0, 0.1, "failed", error="e" * 10_000) for n in range(1, 5_000)]
    large = code(
        value=["v" * 1_000] * 2_000, logs="l" * 1_000_000, calls=calls, notes=["n" * 10_000] * 500,
        artifacts=[artifact(b"x", "a" * 100)] * 5_000,
    )  # fmt: skip
    assert len(large._repr_html_()) < 600_000
    assert len(large._repr_markdown_()) < 200_000
    assert "4,959 more calls" in large._repr_html_()
    outputs = {f"o{n}": "x" * 100_000 for n in range(1_000)}
    plan = PlanResult(
        ok=True, outputs=outputs, steps=[step(f"s{n}", 0.0, 1.0) for n in range(1_000)], goal="g" * 10_000
    )
    assert len(plan._repr_html_()) < 600_000
    assert len(plan._repr_markdown_()) < 600_000


def test_a_value_that_is_nested_too_deeply_is_words() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert "cannot be shown" in code(value=deep)._repr_html_()
