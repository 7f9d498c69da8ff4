"""Long texts are cut at the end of a word, are never longer than they may be, and both ends are theirs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgate.cut import cut, cut_middle, duration

TEXTS = st.text(st.sampled_from("ab c,."), max_size=60)


@given(TEXTS, st.integers(1, 40))
def test_the_beginning_is_kept(text: str, most: int) -> None:
    shown = cut(text, most)
    assert len(shown) <= most
    if len(text) <= most:
        assert shown == text
    else:
        assert shown.endswith("…")
        assert text.startswith(shown.removesuffix("…"))


@given(TEXTS, st.integers(2, 40))
def test_of_a_long_text_both_ends_are_kept(text: str, most: int) -> None:
    shown = cut_middle(text, most)
    if len(text) <= most:
        assert shown == text
    else:
        first, _, last = shown.partition(" ... ")
        assert text.startswith(first)
        assert text.endswith(last)
        assert len(first) + len(last) <= most


def test_a_word_is_cut_only_where_it_takes_half_the_room() -> None:
    assert cut("the quick brown fox", 12) == "the quick…"
    assert cut("the quick brown fox", 10) == "the quick…"
    assert cut("abcdefghijklmnop", 8) == "abcdefg…"
    assert cut("a bcdefghijklmnop", 8) == "a bcdef…"
    assert cut_middle("one two three four five", 14) == "one two ... five"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0.0 ms"), (0.00042, "0.4 ms"), (0.0712, "71 ms"), (0.42, "420 ms"), (0.9996, "1.00 s"),
        (3.544, "3.54 s"), (61.0, "61.0 s"), (125, "2 min 5 s"), (7325, "2 h 2 min"), (1e9, "277,777 h 46 min"),
    ],
)  # fmt: skip
def test_a_duration_has_a_unit_that_fits_it(seconds: float, words: str) -> None:
    assert duration(seconds) == words
