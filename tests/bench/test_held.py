"""Two cells held against each other: what counts as a difference, and the words for it."""

from __future__ import annotations

import pytest

from bench.samples import a_round, cell
from callgate.bench.report.held import Held, held, held_tokens, rounds_told, share, wall


def of(ratio: float, *, pairs: int = 5, counted: bool = False, spread: float = 0.0) -> Held:
    return Held(ratio=ratio, low=ratio - spread, high=ratio + spread, pairs=pairs, counted=counted)


@pytest.mark.parametrize(
    ("compared", "says"),
    [
        (of(0.985), "same"),
        (of(0.97), "less"),
        (of(1.09, pairs=2), "same"),
        (of(1.11, pairs=2), "more"),
        (of(1.2, spread=0.3), "same"),
        (of(0.995, counted=True), "same"),
        (of(0.99, counted=True), "less"),
        (of(1.01, counted=True, pairs=1), "more"),
    ],
)
def test_times_need_more_of_a_difference_than_counts(compared: Held, says: str) -> None:
    assert compared.says == says


@pytest.mark.parametrize(
    ("compared", "words"),
    [
        (None, "tokens not counted"),
        (of(1.0, counted=True), "as many tokens"),
        (of(1.2, counted=True, spread=0.3), "no difference in tokens beyond their spread"),
        (of(0.91, counted=True), "9 % fewer tokens"),
        (of(1.5, counted=True), "50 % more tokens"),
        (of(3.0, counted=True), "3.0 × the tokens"),
    ],
)
def test_a_share_of_tokens_is_told_in_words(compared: Held | None, words: str) -> None:
    assert share(compared, "tokens") == words


@pytest.mark.parametrize(
    ("ratio", "words"), [(1.001, "no difference"), (0.75, "25 % less time"), (2.5, "2.5 × the time")]
)
def test_a_share_of_time_is_told_in_words(ratio: float, words: str) -> None:
    assert share(of(ratio), "time") == words


def test_few_rounds_are_told() -> None:
    assert [rounds_told(of(1.0, pairs=count)) for count in (1, 2, 3)] == ["one round", "2 rounds", ""]
    assert rounds_told(None) == ""


def test_cells_of_different_length_are_compared_as_far_as_both_go() -> None:
    compared = held(cell("plan", [a_round(1.0)] * 2), cell("direct", [a_round(2.0)] * 5), wall)
    assert compared is not None
    assert (compared.pairs, compared.ratio, compared.counted) == (2, 0.5, False)


def test_input_and_output_tokens_are_held_together_and_exactly() -> None:
    plan = cell("plan", [a_round(input_tokens=1800, output_tokens=96)])
    direct = cell("direct", [a_round(input_tokens=2048, output_tokens=41)])
    compared = held_tokens(plan, direct)
    assert compared is not None
    assert compared.ratio == pytest.approx(1896 / 2089)
    assert compared.counted


def test_what_one_side_did_not_count_is_not_held() -> None:
    plan = cell("plan", [a_round(input_tokens=0, output_tokens=0)])
    assert held_tokens(plan, cell("direct", [a_round()])) is None
