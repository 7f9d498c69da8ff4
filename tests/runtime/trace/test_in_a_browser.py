"""Pages in Chromium: nothing runs, nothing is asked for, and nothing is wider than the window."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from callgate import CodeResult, PlanResult
from callgate.runtime.trace.page import run_page
from runtime.timelines import CHAIN, hostile
from runtime.trace.browser import Browser, browser_or_skip
from runtime.trace.runs import HOSTILE_TEXTS, call, hostile_program, large_programs, program

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    yield from browser_or_skip(tmp_path_factory.mktemp("chromium"))


PAGES: dict[str, CodeResult | PlanResult] = {
    "program": program(),
    "many calls": program(calls=[call(n, n * 0.01, 0.3, 1) for n in range(500)]),
    "plan": CHAIN,
    **large_programs(),
    **{f"hostile program {n}": hostile_program(text) for n, text in enumerate(HOSTILE_TEXTS)},
    **{f"hostile plan {n}": hostile(text) for n, text in enumerate(HOSTILE_TEXTS)},
}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_wide_and_narrow_windows_and_runs_and_loads_nothing(
    browser: Browser, tmp_path: Path, name: str
) -> None:
    file = tmp_path / "page.html"
    file.write_text(run_page(PAGES[name]), encoding="utf-8")
    for width, dark in ((1280, False), (390, True)):
        seen = browser.look(file, width, dark=dark)
        assert (seen.console, seen.requests, seen.scripts, seen.handlers, seen.pwned) == ([], [], 0, [], False)
        browser.open_all()
        found = browser.again()
        assert (found["wider"], found["scrolls"]) == ([], False)


def test_on_paper_steps_are_open_and_calls_are_lines(browser: Browser, tmp_path: Path) -> None:
    for name, result, selector, shown in (
        ("plan", CHAIN, "details.step:not([open]) dl", True),
        ("program", program(), "details.call:not([open]) dl", False),
    ):
        file = tmp_path / f"{name}.html"
        file.write_text(run_page(result), encoding="utf-8")
        browser.look(file, 1280)
        assert set(browser.are_on_paper(selector)) == {shown}
