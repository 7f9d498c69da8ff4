"""A run as people get it: in a terminal, in Markdown, and as a page. The texts of `sample` are kept beside this file.

After a change that is meant, `PYTHONPATH=tests python tests/bench/test_report.py` writes them again.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from bench.samples import cell, results, sample, steady
from callgate_bench.figures import Row
from callgate_bench.report import drawn
from callgate_bench.report.drawn import MARK, inserted, markdown, page, show
from callgate_bench.report.view import view
from callgate_bench.results import Entry, Results, Task

HERE = Path(__file__).parent
HOSTILE = (
    '</style><script>x</script><img src=x onerror=y> {{ 7*7 }} [l](j:x) `c` **b** | _i_ \x1b[31m \u202e \ud800 "q" \'&'
)


def terminal(run: Results, width: int = 140) -> str:
    told = StringIO()
    show(view(run), Console(file=told, width=width))
    return "".join(f"{line.rstrip()}\n" for line in told.getvalue().splitlines())


def hostile() -> Results:
    """A run with hostile text in whatever a contestant, a tool or a file gives."""
    entries = [Entry(name="monty", title=HOSTILE, mode="code", ours=False, about=HOSTILE, version=HOSTILE)]
    row = Row(key="k", measure=HOSTILE, measured=HOSTILE, target=HOSTILE, peer=HOSTILE, note=HOSTILE)
    cells = [cell("monty", reason=HOSTILE, note=HOSTILE)]
    task = Task(name="weather", title=HOSTILE, about=HOSTILE, task=HOSTILE)
    told = dict.fromkeys(("made", "command", "machine", "load", "sandbox", "interrupted"), HOSTILE)
    return results(*cells, tasks=[task], entries=entries, rows=[row], **told)


@pytest.mark.parametrize(
    ("name", "text"), [("report.txt", terminal(sample())), ("report.md", markdown(view(sample())))]
)
def test_the_report_is_the_one_that_is_kept(name: str, text: str) -> None:
    assert text == (HERE / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [60, 80, 100, 140, 180])
def test_no_line_is_longer_than_the_terminal_and_nothing_is_cut(width: int) -> None:
    text = terminal(sample(), width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    assert ("at once" in " ".join(text.split())) == (width >= 120)


def test_hostile_text_does_not_drive_the_terminal() -> None:
    text = terminal(hostile())
    assert "".join(text.split("\n")).isprintable()
    assert "[l](j:x)" in text.replace("\n", "")


def test_hostile_text_is_text_in_markdown() -> None:
    text = markdown(view(hostile()))
    assert "<script" not in text
    assert "<img" not in text
    assert not re.search(r"(?<!\\)\[l|(?<!\\)`c", text)
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in rows} == {5, 8, 12}, (
        "no row has more columns than its table"
    )


def test_a_page_keeps_what_stands_above_the_mark() -> None:
    text = inserted(f"# Mine\n\n{MARK}\nan older run\n", view(sample()))
    assert text.startswith(f"# Mine\n\n{MARK}\n\n## The last run\n\n**Of 3 workloads")
    assert "an older run" not in text
    assert "### Single things and their targets" in text
    assert "### Who took part" not in text
    assert inserted(text, view(sample())) == text
    assert inserted("no mark", view(sample())) == markdown(view(sample()))


class Read(HTMLParser):
    """What is in a page; `faults` has what is closed but not open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.faults: list[str] = []
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.rows: list[list[str]] = []
        self.said: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in ("meta", "br"):
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.faults.append(tag)

    def handle_data(self, data: str) -> None:
        self.said.append(data)
        if {"td", "th"} & set(self.open[-2:]):
            self.rows[-1][-1] += data.strip()


@pytest.mark.parametrize(
    "run", [sample(), hostile(), results(model=None, entries=[])], ids=["sample", "hostile", "empty"]
)
def test_the_page_is_whole_and_needs_no_script_and_nothing_from_elsewhere(run: Results) -> None:
    text = page(view(run))
    read = Read(text)
    assert (read.faults, read.open) == ([], [])
    assert not set(read.tags) & {"script", "img", "link", "iframe", "object", "svg"}
    assert not read.attributes & {"src", "href", "onerror", "onclick"}
    assert "default-src 'none'" in text
    assert "url(" not in text
    text.encode("utf-8")


def test_the_page_has_every_value_of_the_view() -> None:
    seen = view(sample())
    shown = Read(page(seen)).rows
    kept = [[value.text for value in row] for each in (*seen.summary, *seen.details) for row in each.rows]
    headings = [[column.title for column in each.columns] for each in (*seen.summary, *seen.details)]
    assert [row for row in shown if row not in headings] == kept
    assert [row for row in shown if row in headings] == headings


def test_hostile_text_is_text_on_the_page() -> None:
    read = Read(page(view(hostile())))
    assert "<script>x</script>" in "".join(read.said)
    assert "{{ 7*7 }}" in "".join(read.said)


def test_winners_and_bars_are_on_the_page() -> None:
    text = page(view(results(cell("direct", steady(4.0, 1)), cell("plan", steady(2.0, 1)))))
    assert '<td class="number better">✓ 0.50 / 1.00</td>' in text
    assert text.count('<span class="bar">') == 2
    assert [float(each) for each in re.findall(r'style="width: ([\d.]+)%"', text)] == pytest.approx(
        [97.2, 2.53, 0.25, 47.2, 2.53, 0.25], abs=0.3
    )


def _luminance(colour: str) -> float:
    digits = colour if len(colour) == 6 else "".join(2 * each for each in colour)
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    line = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), line, strict=True))


def test_contrast_is_what_wcag_aa_asks_for_light_and_dark() -> None:
    source = Path(drawn.__file__).with_name("page.html.j2").read_text(encoding="utf-8")
    light, dark = (dict(re.findall(r"--(\w+): #(\w+)", part)) for part in source.split("prefers-color-scheme: dark"))
    assert set(light) == set(dark)
    for colours in (light, dark):
        for name in colours.keys() - {"page", "box", "rule"}:
            for ground in ("page", "box"):
                bright, dim = sorted((_luminance(colours[name]), _luminance(colours[ground])), reverse=True)
                least = 3 if name in ("model", "tools", "own") else 4.5
                assert (bright + 0.05) / (dim + 0.05) >= least, (name, ground)


if __name__ == "__main__":
    (HERE / "report.txt").write_text(terminal(sample()), encoding="utf-8")
    (HERE / "report.md").write_text(markdown(view(sample())), encoding="utf-8")
