"""What answers pass: right ones in the free text of models, and none that has the same words for something else."""

from __future__ import annotations

import pytest

from callgate_bench.workloads import WORKLOADS
from callgate_bench.workloads.workload import plain

_NINE = "Athens, Berlin, Bucharest, Espoo, Győr, Madrid, Mechelen, Milan, Naples"
RIGHT: dict[str, tuple[str, ...]] = {
    "monitoring": (
        "cpu_usage is at 72.5 %: OK",
        "- **Metric:** `cpu_usage`\n- **Current value:** 72.5%\n- **Status:** OK",
        "cpu_usage is at 72.5 percent, below its alert threshold of 80 (no alert): **OK**.",
        "| Metric | Value | Alert at | State |\n|---|---|---|---|\n| cpu_usage | 72.5 | 80 | OK |",
        "cpu_usage: 72.5 \u2013 OK, not ALERT",
    ),
    "weather": (
        "Athens, by 1.9 degrees",
        "**Athens** is the warmest today, at 29.1 \u00b0C, and 1.9\u00a0\u00b0C ahead of the second.",
        "Athens \u2014 1.9\u00b0",
    ),
    "budget": (
        "**Donald** (€587), Jean (€96), `Leslie` (302 euros) and Ole: 192",
        "Donald: $587 over\nJean: $96 over\nLeslie: $302 over\nOle: $192 over",
        "| Employee | Over by |\n|---|---|\n| Ole | €192 |\n| Leslie | €302 |\n| Jean | €96 |\n| Donald | €587 |",
        "1. Donald \u2013 spent €8,587.12 against a budget of €8,000, over by **587** euros\n"
        "2. Jean \u2013 96\n"
        "3. Leslie \u2013 302\n4. Ole \u2013 192",
        "Donald 587, Jean 96, Leslie 302, Ole 192. Kenneth and Adam are none of them.",
    ),
    "regions": (
        "The East region, with 373,831 euros",
        "**East** (capital: Warsaw) \u2014 revenue of €373,831.",
        "east: 373\u202f831",
    ),
    "enrich": (
        "8 companies with 13806 employees, led by Kattegat Vind",
        'The headline: "8 companies with 13,806 employees, led by **Kattegat Vind**".',
    ),
    "fan-out": (
        "27 products, 5179 pieces, 19356.71 euros",
        "- Products: **27**\n- Pieces: **5,179**\n- Total: **€19,356.71**",
        "| Products | Pieces | Total |\n|---|---|---|\n| 27 | 5,179 | €19,356.71 |",
        "The order is 5,179 pieces across 27 different products, for €19,356.71.",
        "27 of the 200 products have to be ordered, with 5179 pieces; the total is 19356.71 euros.",
    ),
    "judgement": (
        "CHG-4821 of ledger; ask Ines Duarte",
        "**CHG\u20114821** (service: ledger). Ask **Ines Duarte**.",
    ),
    "aggregation": (
        f"{_NINE}, Warsaw; mean 239 km, median 261 km",
        "1. Athens\n2. Berlin\n3. Bucharest\n4. Espoo\n5. Gyor\n6. Madrid\n7. Mechelen\n8. Milan\n9. Naples\n"
        "10. Warsaw\n\n"
        "- Population-weighted mean distance: **239 km**\n- Median distance of the cities: **261 km**",
        f"{_NINE} and Warsaw: 239 km (weighted mean), 261 km (median)",
    ),
    "large": (
        "Birch backpack 134126 euros, Birch headphones 130167 euros, Linden desk lamp 130098 euros",
        "1. **Birch backpack** \u2013 €134,126\n2. **Birch headphones** \u2013 €130,167\n"
        "3. **Linden desk lamp** \u2013 €130,098",
        "| # | Product | Revenue |\n|---|---|---|\n"
        "| 1 | Birch backpack | €134,126 |\n| 2 | Birch headphones | €130,167 |\n"
        "| 3 | Linden desk lamp | €130,098 |",
    ),
}
WRONG: dict[str, tuple[str, ...]] = {
    "monitoring": (
        "cpu_usage is at 72.5 %: ALERT",
        "cpu_usage is at 72.5 %: ALERT, not OK",
        "cpu_usage is at 72.5 %: not OK",
        "cpu_usage is at 72.5 %, its alert threshold is 80: OK. No, ALERT.",
        "cpu_usage is at 172.5 %: OK",
        "memory_usage is at 72.5 %: OK",
    ),
    "weather": (
        "Lisbon, by 1.9 degrees",
        "Athens, ahead of Lisbon by 1.9 degrees",
        "Athens is 1.9 degrees behind",
        "It is not Athens, which has 1.9 degrees less",
        "Athens, by -1.9 degrees",
        "Athens, by 11.9 degrees",
    ),
    "budget": (
        "Donald 96, Jean 587, Leslie 302, Ole 192",
        "| Donald | 302 |\n| Jean | 96 |\n| Leslie | 587 |\n| Ole | 192 |",
        "Donald 587, Jean 96, Leslie 302, Ole 192, Ken 12",
        "Donald 587, Jean 96, Leslie 302, Ole 192, Grace 20",
        "Donald 587, Jean 96, Leslie 302",
        "Donald 1587, Jean 96, Leslie 302, Ole 192",
        "Donald 587, Jean 96.5, Leslie 302, Ole 192",
        "Donald, Jean, Leslie, Ole",
    ),
    "regions": (
        "Centre, with 390,239 euros",
        "East, with 390,239 euros",
        "East and south, with 373,831 euros",
        "East, with 1,373,831 euros",
    ),
    "enrich": (
        "8 companies with 13807 employees, led by Kattegat Vind",
        "8 companies with 13806 employees, led by Baltic Wind, not Kattegat Vind",
        "13806 companies with 8 employees, led by Kattegat Vind",
    ),
    "fan-out": (
        "5179 products, 27 pieces, 19356.71 euros",
        "- Products: 5,179\n- Pieces: 27\n- Total: 19,356.71",
        "27 products, 5179 pieces, 9356.71 euros",
        "27 pieces of 5179 products, 19356.71 euros",
        "127 products, 5179 pieces, 19356.71 euros",
    ),
    "judgement": (
        "CHG-4821 of ledger; ask Mikko Laine",
        "CHG-4830 of ledger; ask Ines Duarte",
        "CHG-4821 or CHG\u20114802 of ledger; ask Ines Duarte",
        "CHG-4821 or CHG-4802 of ledger; ask Ines Duarte or Lea Brunner",
        "CHG-4821 of payments; ask Ines Duarte",
    ),
    "aggregation": (
        f"{_NINE}, Warsaw; mean 261 km, median 239 km",
        f"{_NINE}, Warsaw; median 239 km (mean 261 km)",
        f"{_NINE}, Warsaw: 261 km (mean), 239 km (median)",
        f"{_NINE}, Rome; mean 239 km, median 261 km",
        f"{_NINE}, Rome, Warsaw; mean 239 km, median 261 km",
        f"{_NINE}, Warsaw; mean 239.4 km, median 261 km",
    ),
    "large": (
        "Birch headphones 130167, Birch backpack 134126, Linden desk lamp 130098",
        "Birch backpack 130167, Birch headphones 134126, Linden desk lamp 130098",
        "Birch backpack 134126, Birch headphones 130098, Linden desk lamp 130167",
        "Birch backpack, Birch headphones, Linden desk lamp",
        "Birch backpack 134126, Birch headphones 130167, Linden desk lamp 130098, Maple mug 129000",
    ),
}


@pytest.mark.parametrize(("name", "answer"), [(name, each) for name, answers in RIGHT.items() for each in answers])
def test_a_right_answer_passes_however_it_is_written(name: str, answer: str) -> None:
    assert WORKLOADS[name].wrong(answer) == ""


@pytest.mark.parametrize(("name", "answer"), [(name, each) for name, answers in WRONG.items() for each in answers])
def test_a_wrong_answer_does_not_pass_with_the_words_of_a_right_one(name: str, answer: str) -> None:
    assert WORKLOADS[name].wrong(answer).startswith(("not in the answer: ", "should not be in the answer: "))


def test_every_workload_has_answers_of_both_kinds() -> None:
    assert set(RIGHT) == set(WRONG) == set(WORKLOADS)


def test_what_is_missing_or_too_much_is_named() -> None:
    budget = WORKLOADS["budget"]
    assert budget.wrong("Donald 587, Jean 96") == "not in the answer: leslie \u2026 302, ole \u2026 192"
    assert budget.wrong("Donald 587, Jean 96, Leslie 302, Ole 192, Ken 1") == "should not be in the answer: ken"
    assert WORKLOADS["monitoring"].wrong("cpu_usage at 72.5: ALERT") == "not in the answer: ok"


def test_plain_text_has_one_kind_of_dash_and_no_marks() -> None:
    assert plain("**A**\u2010`b`\u2011c \u2013 \u2212 1,234\u202f567\n\n x") == "a-b-c - - 1234567 x"
