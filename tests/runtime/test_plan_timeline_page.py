"""The timeline of a plan as a page: what it says, what it draws, and what no text can do to it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callgate.runtime.plans.result import PlanResult
from callgate.runtime.plans.timeline_page import timeline_page
from callgate.runtime.plans.timeline_rows import (
    visible,
)
from callgate.runtime.plans.timeline_style import STYLE
from runtime.timelines import CHAIN, CONTROL, HOSTILE, Checked, call, hostile, ran, results, step, texts


@settings(deadline=None)
@given(results(), st.none() | texts)
def test_the_page_of_any_run_is_balanced_and_can_be_written(result: PlanResult, title: str | None) -> None:
    page = timeline_page(result, title)
    Checked(page)
    page.encode()
    assert not CONTROL.search(page)


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_no_text_becomes_markup(text: str) -> None:
    page = timeline_page(hostile(text), title=text)
    harmless = timeline_page(hostile("harmless"), title="harmless")
    assert {tag for tag, _ in Checked(page).seen} == {tag for tag, _ in Checked(harmless).seen}
    assert {name for _, attrs in Checked(page).seen for name in attrs} == {
        name for _, attrs in Checked(harmless).seen for name in attrs
    }
    assert visible(text) in Checked(page).text


def test_the_page_loads_nothing_and_runs_nothing() -> None:
    page = timeline_page(CHAIN)
    tags = {tag for tag, _ in Checked(page).seen}
    assert not tags & {"script", "link", "img", "iframe", "object", "form", "base"}
    assert Checked(page).attributes("content")[0].startswith("default-src 'none'; style-src 'unsafe-inline'")
    assert "url(" not in page
    assert "@import" not in page
    assert all(href.startswith("#s") for href in Checked(page).attributes("href"))


def test_the_page_is_a_table_that_can_be_read_aloud() -> None:
    page = Checked(timeline_page(CHAIN, "Run 7"))
    assert page.attributes("lang") == ["en"]
    assert "width=device-width, initial-scale=1" in page.attributes("content")
    assert page.attributes("scope").count("row") == 4
    assert page.attributes("scope").count("col") == 4
    assert "from 1.00 s to 4.00 s" in page.text
    assert "on the critical path" in page.text
    assert page.attributes("id") == ["s0", "s1", "s2", "s3"]


def test_a_for_each_is_one_bar_and_its_calls_are_in_its_table() -> None:
    calls = [call(n, n * 0.1, 0.5, "failed" if n == 3 else "succeeded", error="gone") for n in range(1, 61)]
    page = timeline_page(ran(step("each", 0.1, 6.5, items=60, calls=tuple(range(1, 61))), calls=calls))
    assert page.split("class=legend")[0].count('class="bar good"') == 1
    assert "36 more calls are left out here" in page
    assert "failed <span class=why>gone</span>" in page


def test_a_step_can_be_opened_for_everything_that_is_known_of_it() -> None:
    page = Checked(
        timeline_page(
            ran(
                step("a", 0.0, 1.0, arguments={"city": "Oslo"}, result_json='{"temp":[1,2]}', attempts=1, after=("z",)),
                step("b", 2.0, 1.0, wave=1, needs=("a",), status="failed", error="gone", kind="ToolError"),
                outputs={"a": {}},
            )
        )
    )
    for told in (
        '{\n  "city": "Oslo"\n}', '{\n  "temp": [\n    1,\n    2\n  ]\n}', "could have begun 1.00 s earlier",
        "gone ToolError", "1.00 s, output",
    ):  # fmt: skip
        assert told in page.text
    opened = [("open" in attrs) for tag, attrs in page.seen if tag == "details"]
    assert opened == [False, True]


def test_a_long_value_is_cut_and_its_bytes_are_counted() -> None:
    page = timeline_page(ran(step("a", 0.0, 1.0, result_json='"' + "<" * 100_000 + '"')))
    assert "cut: 100,002 bytes in all" in page
    assert len(page) < 30_000


def test_values_that_are_no_json_or_too_deep_are_shown_as_they_can_be() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    text = "[" * 30_000 + "]" * 30_000
    page = timeline_page(ran(step("a", 0.0, 1.0, arguments=deep, result_json=text), step("b", 0, 1, result_json="{")))
    assert "cannot be shown: RecursionError" in page
    assert "cut: 60,000 bytes in all" in page
    while deep:  # to take it apart without recursion
        deep = deep.pop()


@pytest.mark.slow
def test_the_page_of_10000_hostile_steps_stays_small() -> None:
    name, ids = "&" * 256, range(10_000)
    calls = [call(n + 1, n * 0.01, 1.0, "failed", error="<" * 5000) for n in ids]
    steps = [
        step(
            f"{n}{name}", n * 0.01, 1.0, tool=name, wave=n // 100, error="\U000e0041" * 5000, status="failed",
            needs=tuple(f"{k}{name}" for k in range(200)), warnings=("<" * 5000,) * 50, items=50,
            arguments={"a": "<" * 9000}, result_json='"' + "\U000e0041" * 9000 + '"',
            calls=tuple(range(n // 50 * 50 + 1, n // 50 * 50 + 51)),
        )
        for n in ids
    ]  # fmt: skip
    page = timeline_page(ran(*steps, calls=calls, goal="<" * 100_000))
    assert len(page.encode()) < 8_000_000
    assert "9,600 more steps are left out here (9,600 failed, none longer than 1.00 s)" in page
    assert re.search("What there is to tell of [0-9]+ more steps is left out here", page)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_colours_have_the_contrast_that_wcag_asks_for(scheme: int) -> None:
    colours = dict(re.findall(r"--(\w+): (#\w+);", STYLE.split("@media (prefers-color-scheme: dark)")[scheme]))
    for ground in ("paper", "band"):
        for text in ("ink", "soft", "link", "good", "bad", "unknown", "idle"):
            assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
        assert contrast(colours["gem"], colours[ground]) >= 3


def contrast(one: str, other: str) -> float:
    """https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio"""

    def luminance(colour: str) -> float:
        digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
        parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
        red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)
