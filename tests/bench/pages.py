"""Runs as the report page may have to show them, and how tests read a page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from html.parser import HTMLParser
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from bench.samples import ENTRIES, a_round, cell, results, sample, steady
from callgate.bench.results import ModelUsed

_VOID = {"meta"}
HOSTILE = (
    "</script><script>alert(1)</script> <img src=x onerror=y> \"q\" 'a' & &lt; \x00\x1b[31m \u202egnp \ud800 "
    + "W" * 90
)
SHOWN = (
    "</script><script>alert(1)</script> <img src=x onerror=y> \"q\" 'a' & &lt; \\u0000\\u001b[31m \\u202egnp \\ud800 "
)
REAL = ModelUsed(simulated=False, name="a-real-model", wire="anthropic", endpoint="https://models.example/v1")
NOTHING = a_round(model=0.0, tools=0.0, overhead=0.0, input_tokens=0, output_tokens=0)

SAMPLES = {
    "full": sample(),
    "interrupted": sample(interrupted="Ctrl-C"),
    "one workload": results(cell("direct", steady(9.0)), cell("plan", steady(2.0)), cell("monty", steady(2.1))),
    "rows only": results(rows=sample().rows, model=None, entries=()),
    "peers fail": results(cell("plan", steady(2.0)), *(cell(each.name) for each in ENTRIES if not each.ours)),
    "real": sample(model=REAL),
    "nobody is right": results(cell("direct", outcome="wrong"), cell("plan", outcome="cannot", reason="no way")),
    "nothing": results(model=None, entries=()),
    "tasks, nothing measured": replace(sample(), cells=[], rows=[], interrupted="Ctrl-C"),
    "no waits": results(cell("direct", [NOTHING])),
    "extremes": results(
        cell("direct", steady(900.0, input_tokens=9_800_000, output_tokens=0)),
        cell("plan", [a_round(0.002, tools=1e-7, overhead=1e-6, input_tokens=0, output_tokens=1)]),
        cell("monty", steady(3.0), outcome="wrong", reason=HOSTILE),
    ),
}  # fmt: skip


class Balance(HTMLParser):
    """Every element that is opened is closed, in order; notes what there is."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.faults: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.faults.append(tag)


@lru_cache
def tree(page: str) -> Element:
    """The page, read as XML, which is stricter than HTML."""
    without = page.removeprefix("<!DOCTYPE html>\n")
    return ElementTree.fromstring(re.sub(r"<meta ([^>]*)>", r"<meta \1/>", without))


def words(element: Element | None) -> str:
    assert element is not None
    return " ".join("".join(element.itertext()).replace("\u00a0", " ").split())


def section(page: Element, name: str) -> Element:
    found = page.find(f".//section[@id='{name}']")
    assert found is not None, name
    return found


def rows(root: Element, name: str, kind: str) -> Iterator[tuple[str, str]]:
    for row in section(root, name).iterfind(f".//table[@class='{kind}']/tbody/tr"):
        if row.get("class") != "group":
            yield words(row.find("th")), words(row)
