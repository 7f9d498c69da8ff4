"""What is said of all workloads together: counted, with the titles that people know them by."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bench.samples import MODEL, cell, results, steady
from callgate.bench.report.headline import headline, simulation
from callgate.bench.results import Cell, Round, Task


def many(wall: float, *, tokens: int = 2000, **fields: Any) -> list[Round]:
    return steady(wall, input_tokens=tokens - 100, output_tokens=100, **fields)


def test_the_headline_counts_wins_losses_and_what_lies_between() -> None:
    def pair(workload: str, direct: list[Round], plan: list[Round]) -> list[Cell]:
        return [cell("direct", direct, workload=workload), cell("plan", plan, workload=workload)]

    run = results(
        *pair("a", many(2.0, tokens=1000), many(1.0, tokens=500)),
        *pair("b", many(4.0, tokens=1000), many(1.0, tokens=2500)),
        *pair("c", many(1.0), many(3.0)),
        *pair("d", many(1.0), many(1.0)),
        cell("code-jail", workload="e", outcome="wrong"),
        *pair("e", [], []),
        *pair("f", [], many(1.0)),
        cell("plan", many(1.0), workload="g"),
        *(
            cell("langgraph", many(wall, tokens=400), workload=each)
            for wall, each in ((2.0, "a"), (0.5, "b"), (9.0, "e"))
        ),
        cell("langgraph", workload="c"),
        cell("smolagents", many(0.1), workload="a"),
        cell("direct", workload="h", outcome="cannot", reason="why", tried=False),
        cell("plan", many(1.0), workload="h"),
        tasks=[Task(name=each, title=f"the {each}", about="", data="", task="") for each in "abcdefgh"],
    )
    found = headline(run)
    assert [each.winner for each in found.verdicts] == [
        "callgate", "mixed", "direct calls", "neither", "nobody", "callgate", "unknown", "not tried",
    ]  # fmt: skip
    assert found.sentences == [
        "Beside direct calls, of 8 workloads: callgate's modes win 2; direct calls win 1; "
        "one is faster and the other takes fewer tokens in 1; there is no difference in 1; "
        "nobody has a right answer in 1; direct calls were not tried in 1; one side was not measured in 1.",
        "Time: callgate is faster in 2 (2.0 × to 4.0 ×, median 3.0 ×); callgate is slower in 1 (3.0 ×).",
        "Tokens: callgate takes fewer in 1 (50 %); callgate takes more in 1 (2.5 ×).",
        "Direct calls had no right answer in 1, which callgate's modes win by that: the f.",
        "Direct calls were not tried in 1, which count as nobody's win: the h.",
        "Beside the fastest of all peers, whatever confines the two, by wall time: "
        "callgate's fastest mode is faster in 0, slower in 2, no difference in 0.",
        "Beside the fastest peer, plans: callgate is faster in 1, slower in 1, no difference in 0; "
        "it takes fewer tokens in 0, more in 2, as many in 0; "
        "only a peer has a right answer in 1; only callgate has a right answer in 1.",
        "callgate's modes were wrong or failed: code, jail in the e; plan in the e.",
        "The model is simulated: a script that makes no mistakes and waits 600 ms a turn and 4 ms an output token.",
    ]


def test_the_headline_of_nothing_says_so() -> None:
    assert headline(results(interrupted="Ctrl-C", model=None)).sentences == [
        "The run was interrupted: Ctrl-C.", "No workload was measured.",
    ]  # fmt: skip


def test_a_real_model_is_called_real() -> None:
    real = replace(MODEL, simulated=False, name="some-model")
    assert simulation(results(model=real)).startswith("The model is real: some-model")
