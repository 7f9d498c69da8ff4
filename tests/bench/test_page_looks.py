"""How the report page looks: plots true to their figures, and colours that everyone can tell apart."""

from __future__ import annotations

import re
from itertools import combinations, pairwise
from xml.etree.ElementTree import Element

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.pages import SAMPLES, section, tree, words
from bench.samples import a_round, cell, results
from callgate.bench.report.page import render
from callgate.bench.report.page.scale import Linear, Log
from callgate.bench.report.page.style import DARK, LIGHT
from callgate.bench.report.page.texts import amount, beside, sentence, size, spread


@pytest.fixture(params=SAMPLES, scope="module")
def page(request: pytest.FixtureRequest) -> str:
    return render(SAMPLES[request.param])


def _lengths(plot: Element, tag: str, name: str) -> list[float]:
    return [float((each.get(name) or "").removesuffix("%")) for each in plot.iter(tag)]


def test_what_is_drawn_lies_within_the_plot(page: str) -> None:
    plots = [each for each in tree(page).iter("svg") if each.get("role") == "img"]
    for plot in plots:
        ends = [x + w for x, w in zip(_lengths(plot, "rect", "x"), _lengths(plot, "rect", "width"), strict=True)]
        places = _lengths(plot, "line", "x1") + _lengths(plot, "line", "x2") + _lengths(plot, "circle", "cx")
        assert all(-0.01 <= place <= 100.01 for place in ends + places)


def test_a_bar_is_as_long_as_its_time_and_divided_as_it_was_spent() -> None:
    ours = [a_round(model=1.0, tools=0.5, overhead=0.5)]
    root = tree(render(results(cell("direct", [a_round(model=3.0, tools=0.5, overhead=0.5)]), cell("plan", ours))))
    walls = next(each for each in section(root, "workload-weather").iter("svg") if each.get("role") == "img")
    assert _lengths(walls, "rect", "width") == [25.0, 12.5, 12.5, 75.0, 12.5, 12.5]
    assert _lengths(walls, "rect", "x") == [0.0, 25.0, 37.5, 0.0, 75.0, 87.5]
    assert "plan: 2 s; direct calls: 4 s" in words(walls.find("desc"))


def test_whiskers_go_from_p10_to_p90() -> None:
    root = tree(render(results(cell("plan", [a_round(wall) for wall in (1.0, 2.0, 2.0, 2.0, 4.0)]))))
    walls = next(each for each in section(root, "workload-weather").iter("svg") if each.get("role") == "img")
    level = [each for each in walls.iter("line") if each.get("class") == "whisker" and each.get("y1") == each.get("y2")]
    assert [(each.get("x1"), each.get("x2")) for each in level] == [("25.00%", "100.00%")]


_AMOUNTS = st.floats(1e-7, 1e9)


@given(st.lists(_AMOUNTS, min_size=1, max_size=20), st.sampled_from([13.0, 25.0]))
def test_a_logarithmic_scale_keeps_order_and_writes_values_apart(values: list[float], apart: float) -> None:
    scale = Log.over(values)
    assert scale is not None
    places = [scale.at(value) for value in sorted(values)]
    assert all(-1e-6 <= place <= 100 for place in places)
    assert places == sorted(places)
    ticks = [scale.at(value) for value in scale.ticks(apart)]
    assert ticks
    assert all(right - left >= apart - 1e-6 for left, right in pairwise(ticks))


@given(_AMOUNTS)
def test_a_linear_scale_begins_at_nothing_and_writes_round_values(most: float) -> None:
    ticks = Linear(most).ticks(25)
    assert ticks[0] == 0
    assert 2 <= len(ticks) <= 5
    assert ticks[-1] <= most * (1 + 1e-6)


def test_scales_of_nothing() -> None:
    assert Log.over([0.0]) is None
    assert (Linear(0).at(0), Linear(0).ticks(25)) == (0, [0])


def test_sentences_begin_with_a_capital_letter_and_names_stay_as_they_are() -> None:
    assert sentence("plan: 2.0 × faster") == "Plan: 2.0\u00a0× faster."
    assert sentence("execute_code, jail: as fast.") == "execute_code, jail: as fast."
    assert sentence("") == ""


def test_values_in_words() -> None:
    assert [amount(value) for value in (0, 13, 999.7, 2630, 999_600, 1.3e6)] == [
        "0",
        "13",
        "1 k",
        "2.63 k",
        "1 M",
        "1.3 M",
    ]
    assert [size(value) for value in (0, 52_600_000, 2_100_000_000)] == ["", "52.6 MB", "2.1 GB"]
    assert [beside(share) for share in (0.01, 0.5, 0.9, 1.5, 20)] == [
        "100 × faster", "2.0 × faster", "1.11 × faster", "1.50 × slower", "20 × slower",
    ]  # fmt: skip
    assert spread(cell("plan", [a_round(1.0)]), "wall_seconds") == ""
    assert spread(cell("plan", [a_round(0.5), a_round(1.5, overhead=0.2)]), "wall_seconds") == "500 ms to 1.5 s"
    assert spread(cell("plan", [a_round(1.25), a_round(1.5)]), "wall_seconds") == "1.25 to 1.5 s"


def _linear(colour: str) -> list[float]:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]


def contrast(one: str, other: str) -> float:
    """As WCAG 2 defines it."""
    light = [sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), _linear(each), strict=True)) for each in (one, other)]
    return (max(light) + 0.05) / (min(light) + 0.05)


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_contrast_is_what_wcag_aa_asks_for(colours: dict[str, str]) -> None:
    for text in ("ink", "muted", "accent", "good", "bad", "warn"):
        for ground in ("page", "surface"):
            assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    for text in ("ink", "warn"):
        assert contrast(colours[text], colours["warnback"]) >= 4.5
    for shape in ("model", "tools", "overhead", "input", "output", "direct", "plan", "code"):
        assert contrast(colours[shape], colours["surface"]) >= 3, shape


_SEEN: dict[str, list[list[float]]] = {
    "all colours": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}
"""Machado, Oliveira, Fernandes 2009, severity 1.0."""


def _lab(colour: str, seen: list[list[float]]) -> list[float]:
    """CIE L*a*b* of a colour as it is seen."""
    line = _linear(colour)
    red, green, blue = (min(1, max(0, sum(m * c for m, c in zip(row, line, strict=True)))) for row in seen)
    x, y, z = (
        (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.95047,
        0.2126 * red + 0.7152 * green + 0.0722 * blue,
        (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.08883,
    )
    a, b, c = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in (x, y, z))
    return [116 * b - 16, 500 * (a - b), 200 * (b - c)]


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("seen", _SEEN)
def test_shapes_beside_each_other_can_be_told_apart(colours: dict[str, str], seen: str) -> None:
    for group in (("model", "tools", "overhead"), ("input", "output"), ("direct", "plan", "code")):
        for one, other in combinations(group, 2):
            ours, theirs = (_lab(colours[each], _SEEN[seen]) for each in (one, other))
            assert sum((p - q) ** 2 for p, q in zip(ours, theirs, strict=True)) ** 0.5 >= 20, (one, other)


def test_paper_is_light_and_both_schemes_have_the_same_names() -> None:
    assert LIGHT.keys() == DARK.keys()
    style = words(tree(render(SAMPLES["nothing"])).find(".//style"))
    assert "@media screen and (prefers-color-scheme:dark)" in style
    assert "@media print" in style
    used = set(re.findall(r"var\(--([a-z]+)\)", style))
    assert used == set(LIGHT)


def test_an_axis_begins_at_nothing_and_names_no_value_over_another() -> None:
    root = tree(render(results(cell("plan", [a_round(17.8)]), cell("direct", [a_round(19.9)]))))
    walls = next(each for each in section(root, "workload-weather").iter("svg") if each.get("role") == "img")
    ticks = [(each.text, each.get("text-anchor")) for each in walls.iter("text") if each.get("class") == "tick"]
    assert ticks == [("0 s", "start"), ("5 s", "middle"), ("10 s", "middle"), ("15 s", "middle")]
    shares = [each for each in section(root, "workload-weather").iter("svg") if each.get("role") == "img"][1]
    ticks = [(each.text, each.get("text-anchor")) for each in shares.iter("text") if each.get("class") == "tick"]
    assert ticks == [("0 %", "start"), ("50 %", "middle"), ("100 %", "end")]
