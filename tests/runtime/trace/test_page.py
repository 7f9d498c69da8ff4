"""The page of a run: what it shows, what no text can do to it, and how large it gets."""

from __future__ import annotations

import math
import re
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callgate import Redaction, Runtime, tool
from callgate.artifacts import Artifact
from callgate.program import Finding
from callgate.runtime.result import PrintMark, RunError, RunUsage
from callgate.runtime.trace.page import run_page
from runtime.timelines import CHAIN, CONTROL, HOSTILE, Checked, hostile, ran, results, step, texts
from runtime.trace.runs import HOSTILE_TEXTS, PICTURE, call, hostile_program, program

MOST_BYTES = 10_000_000


def text_of(page: str) -> str:
    return " ".join(Checked(page).text.split())


# what it shows


def test_a_call_stands_beside_the_line_that_made_it_with_arguments_and_result() -> None:
    page = program().trace()
    line = page[page.index('<span class="n">1</span>') : page.index('<span class="n">2</span>')]
    assert "look_up" in line
    assert "&quot;Oslo&quot;" in line
    assert "&quot;temp&quot;" in line
    assert "500 ms" in line


def test_a_print_stands_beside_the_line_that_printed_with_its_time() -> None:
    page = program().trace()
    line = page[page.index('<span class="n">2</span>') : page.index('<span class="n">3</span>')]
    assert "four degrees" in line
    assert "700 ms" in line


def test_many_calls_of_one_line_are_folded_and_counted_with_the_failed_ones_first() -> None:
    calls = [call(n, 0.0, 0.1, 1, status="failed" if n == 70 else "succeeded") for n in range(1, 101)]
    page = program(calls=calls).trace()
    assert "× 100" in page
    assert "1 not succeeded" in page
    assert "… and 50 more calls" in page
    assert "70, failed" in page


def test_the_line_that_failed_is_marked_and_the_traceback_is_shown() -> None:
    page = program(ok=False, value=None, error=RunError("ToolError", "gone", 2, "Traceback: line 2")).trace()
    failed = re.findall('<div class="line failed"><span class="n">([0-9]+)', page)
    assert failed == ["2"]
    assert "Traceback: line 2" in page
    assert "failed" in text_of(page)[:60]


def test_calls_without_a_line_are_listed_by_themselves() -> None:
    page = text_of(program(calls=[call(1, 0, 1, 1), call(2, 0, 1, None, tool="astray")]).trace())
    assert "Calls of no known line" in page
    assert "astray" in page


def test_calls_that_overlap_stand_in_rows_of_their_own() -> None:
    page = program(calls=[call(n, 0.0, 1.0, 1) for n in range(1, 11)], limits=None).trace()
    assert page.count('<b class="ok" style="left:0.00%;width:100.00%">') == 10


def test_many_calls_share_a_row_for_each_line_whose_height_is_how_many_ran_at_once() -> None:
    calls = [call(n, 0.0, 5.0, 1) for n in range(30)] + [call(n, 5.0, 5.0, 1) for n in range(30, 40)]
    calls += [call(n, 0.0, 10.0, 2, status="failed" if n % 2 else "succeeded") for n in range(40, 60)]
    page = program(calls=calls, prints=[], usage=RunUsage(wall_seconds=10.0)).trace()
    first, second = re.findall('<div class="row crowd">.*?</div>', page)
    assert ("line 1 × 40" in first, "30 at once" in first, "line 2 × 20" in second) == (True, True, True)
    heights = re.findall("left:([0-9.]+)%;width:[0-9.]+%;height:([0-9.]+)%", first)
    assert {height for left, height in heights if float(left) < 50} == {"100.0"}
    assert {height for left, height in heights if float(left) >= 50} == {"33.3"}
    assert set(re.findall('class="bad" style="[^"]*height:([0-9.]+)%', second)) == {"50.0"}


def test_what_the_check_found_and_the_error_stand_beside_their_line() -> None:
    found = Finding("syntax", 2, 1, "that is wrong", "write this", "warning")
    page = program(ok=False, value=None, error=RunError("ToolError", "gone", 3), findings=[found]).trace()
    lines = page.split('<div class="line')
    assert "that is wrong; write this" in lines[2]
    assert "ToolError: gone" in lines[3]
    assert lines[3].startswith(" failed")


def test_approval_attempts_cache_and_what_was_used_of_each_limit_are_told() -> None:
    calls = [call(1, 0, 1, 1, approval="granted", approved_by="Ada", attempts=3), call(2, 0, 1, 1, cached=True)]
    page = text_of(program(calls=calls).trace())
    for words in ("approved by Ada", "3 attempts", "cached", "1.00 s of 60.0 s", "2 of 100,000"):
        assert words in page


def test_small_pictures_are_in_the_page_and_other_files_are_named() -> None:
    svg = Artifact(name="a.svg", media_type="image/svg+xml", data=b"<svg/>")
    page = program(artifacts=[Artifact.from_bytes(PICTURE, "chart.png"), svg]).trace()
    assert [each[:22] for each in Checked(page).attributes("src")] == ["data:image/png;base64,"]
    assert "chart.png (image/png" in page
    assert "a.svg (image/svg+xml, 6 bytes)" in page


def test_a_plan_has_its_steps_by_wave_its_critical_path_and_each_step_in_full() -> None:
    page = text_of(
        ran(
            step("a", 0.0, 1.0, arguments={"city": "Oslo"}, result_json='{"temp":[1,2]}', attempts=1),
            step("b", 2.0, 1.0, wave=1, needs=("a",), status="failed", error="gone", kind="ToolError"),
            step("c", wave=1, needs=("b",), error="no need", cause="b"),
            outputs={"a": {}},
        ).trace()
    )
    for words in ("wave 0", "wave 1", "critical path", '"city": "Oslo"', "ToolError: gone", "no need", "needsa"):
        assert words in page


def test_what_did_not_succeed_is_open_from_the_beginning() -> None:
    page = Checked(ran(step("a", 0.0, 1.0, status="failed"), step("b", 0.0, 1.0)).trace())
    assert ["open" in attrs for tag, attrs in page.seen if tag == "details"] == [True, False]


def test_the_title_is_the_given_one_or_the_goal() -> None:
    assert "<title>Run 7</title>" in CHAIN.trace("Run 7")
    assert "<title>Pay</title>" in ran(step("a", 0, 1), goal="Pay").trace()
    assert "<title>A program&#x27;s run</title>" in program().trace()


@pytest.mark.anyio
async def test_a_real_program_and_a_real_plan_have_pages(tmp_path: Path) -> None:
    @tool(read_only=True)
    async def double(number: int) -> int:
        "Doubles."
        return 2 * number

    async with Runtime([double], sandbox=None) as runtime:
        code = await runtime.execute_code("from tools import double\nawait double(number=21)")
        plan = await runtime.execute_tool_plan({"steps": [{"id": "a", "tool": "double", "arguments": {"number": 4}}]})
    assert code.save_trace(tmp_path / "code.html") == tmp_path / "code.html"
    assert "42" in text_of((tmp_path / "code.html").read_text(encoding="utf-8"))
    plan.save_trace(tmp_path / "plan.html")
    assert "double" in (tmp_path / "plan.html").read_text(encoding="utf-8")


def test_the_file_is_replaced_whole_and_only_its_owner_may_read_it(tmp_path: Path) -> None:
    file = tmp_path / "out.html"
    file.write_text("before")
    program().save_trace(file)
    assert file.read_text(encoding="utf-8").endswith("</html>\n")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["out.html"]
    with pytest.raises(OSError, match="No such file"):
        program().save_trace(tmp_path / "no" / "out.html")


# what no text can do


def shape(page: str) -> tuple[set[str], set[str]]:
    seen = Checked(page).seen
    return {tag for tag, _ in seen}, {name for _, attrs in seen for name in attrs}


@pytest.mark.parametrize("text", [*HOSTILE_TEXTS, *HOSTILE], ids=lambda text: ascii(text[:20]))
def test_no_text_becomes_markup(text: str) -> None:
    for made, harmless in ((hostile_program(text), hostile_program("a")), (hostile(text), hostile("a"))):
        page = run_page(made, text)
        known, shown = shape(run_page(harmless, "a")), shape(page)
        assert shown[0] <= known[0] | {"span"}
        assert shown[1] <= known[1]
        assert not CONTROL.search(page)
        page.encode()


def test_the_page_loads_nothing_and_runs_nothing() -> None:
    for page in (program().trace(), CHAIN.trace()):
        checked = Checked(page)
        assert not {tag for tag, _ in checked.seen} & {"script", "link", "iframe", "object", "form", "base", "svg"}
        assert checked.attributes("content")[0] == (
            "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
        )
        assert checked.attributes("lang") == ["en"]
        assert "url(" not in page
        assert "@import" not in page
        assert checked.attributes("href") == []


@settings(deadline=None)
@given(results(), st.none() | texts)
def test_the_page_of_any_plan_is_balanced_and_can_be_written(result: Any, title: str | None) -> None:
    page = run_page(result, title)
    Checked(page)
    page.encode()
    assert not CONTROL.search(page)


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan, -1.0, 1e300])
def test_no_number_breaks_the_axis(number: float) -> None:
    calls = [call(1, number, 1.0, 1), call(2, 0.0, number, 1), *(call(n, number, number, 1) for n in range(3, 60))]
    for made in (calls[:2], calls):
        page = program(calls=made, prints=[PrintMark(number, 1, 0)]).trace()
        for style in Checked(page).attributes("style"):
            assert all(0 <= float(each) <= 100 for each in re.findall(r"([-0-9.a-z]+)%", style)), style


# how large it gets


def test_a_long_value_is_cut_and_the_rest_is_counted() -> None:
    page = program(value="<" * 100_000).trace()
    assert "… (80,000 more characters)" in page


def test_values_that_are_no_json_or_too_deep_are_shown_as_they_can_be() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    page = program(
        value=deep, calls=[call(1, 0, 1, 1, arguments={"a": deep}, result="[" * 4000, result_bytes=9)]
    ).trace()
    assert "[redacted]" in page
    while deep:  # to take it apart without recursion
        deep = deep.pop()


def test_of_large_arguments_only_as_much_is_redacted_as_can_be_shown() -> None:
    redacted = 0

    def redact(text: str) -> str:
        nonlocal redacted
        redacted += len(text)
        return text

    calls = [call(n, 0, 1, n, arguments={"a": "<" * 64_000, "b": [1] * 9_000}) for n in range(1, 1001)]
    page = run_page(program("f()\n" * 1000, calls=calls), redaction=Redaction(redact=redact))
    assert len(page) < 5_000_000
    assert redacted < 4_000_000  # of 64 MB


def test_the_beginning_of_a_large_value_is_shown_and_says_that_it_was_cut() -> None:
    shown = text_of(program(value=[{"n": n} for n in range(100_000)]).trace())
    assert '"n": 700 }' in shown
    assert '"n": 9000 }' not in shown
    assert "}, …" in shown
    assert "}, …" not in text_of(program(value=[{"n": n} for n in range(100)]).trace())


@pytest.mark.slow
@pytest.mark.parametrize("text", ["\U000e0041", "<", "&\n"], ids=ascii)
def test_the_page_of_10000_hostile_calls_and_texts_of_10_megabytes_stays_small(text: str) -> None:
    long = text * 10_000_000
    calls = [
        call(n, n * 0.01, 1.0, n % 4000, tool=text * 256, status="failed", error=text * 5000, approved_by=text * 5000,
             arguments={"a": text * 4000}, result=text * 4000, result_bytes=9)
        for n in range(10_000)
    ]  # fmt: skip
    marks = [PrintMark(n * 0.01, n, n * 50) for n in range(1, 1000)]
    artifacts = [Artifact.from_bytes(PICTURE + b"\0" * 1_900_000, f"{n}.png") for n in range(20)]
    page = program(
        f"{text * 100}\n" * 10_000, calls=calls, logs=long, value=long, inputs=long, prints=marks, notes=[long] * 100,
        speculative=calls, artifacts=artifacts, error=RunError(long, long, 1, long), ok=False,
    ).trace(long)  # fmt: skip
    assert len(page.encode()) < MOST_BYTES
    Checked(page)


@pytest.mark.slow
def test_the_page_of_10000_hostile_steps_stays_small() -> None:
    name, ids = "&" * 256, range(10_000)
    steps = [
        step(
            f"{n}{name}", n * 0.01, 1.0, tool=name, wave=n // 100, error="\U000e0041" * 5000, status="failed",
            needs=tuple(f"{k}{name}" for k in range(200)), warnings=("<" * 5000,) * 50, items=50,
            arguments={"a": "<" * 9000}, result_json='"' + "\U000e0041" * 9000 + '"',
        )
        for n in ids
    ]  # fmt: skip
    page = ran(*steps, goal="<" * 100_000).trace()
    assert len(page.encode()) < MOST_BYTES
    assert re.search("… and [0-9,]+ more steps", page)


def test_a_call_that_began_while_the_program_was_written_says_so() -> None:
    text = text_of(program(calls=[call(1, -2.2, 0.5, 1, early=True), call(2, 0.1, 0.1, 1, early=True)]).trace())
    assert "2.20 s before the start, while the program was written, took 500 ms" in text
    assert "100 ms after the start, before the program came to it, took 100 ms" in text
    assert "Calls at the left edge began while the program was written." in text
    assert "while the program was written" not in text_of(program().trace())
