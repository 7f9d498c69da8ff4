"""What a model thought is not what it said: in whole texts, in pieces, and over both of a real SDK's ways."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.models.wires import request, says, talking
from callgate.agent.models.thoughts import SpeechFilter, without_thoughts

THOUGHT = "<think>\nThe user wants 5.\n</think>\n\n"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"{THOUGHT}It is 5.", "It is 5."),
        (f" \n{THOUGHT}It is 5.", "It is 5."),
        ("<thinking>a</thinking>b", "b"),
        ("<think></think>", ""),
        ("<think>never ends", ""),
        ("I think, so\n</think>\nIt is 5.", "It is 5."),
        ("Write <think>a</think> before it.", "Write <think>a</think> before it."),
        ("Close it with </think> in the line.", "Close it with </think> in the line."),
        ("It is 5.", "It is 5."),
        ("<thin ice>", "<thin ice>"),
        ("", ""),
    ],
)
def test_a_text_without_the_thought_before_it(text: str, left: str) -> None:
    assert without_thoughts(text) == left


PIECE = st.sampled_from(["<think>", "</think>", "<", "think", ">", "</", " ", "\n", "It is 5.", "<thinking>", "x"])


@given(st.lists(PIECE, max_size=12), st.integers(1, 5))
def test_in_pieces_it_says_the_same(pieces: list[str], size: int) -> None:
    text = "".join(pieces)
    told: list[str] = []
    saying = SpeechFilter(told.append)
    for start in range(0, len(text), size):
        saying.take(text[start : start + size])
    saying.end()
    whole = without_thoughts(text)
    if text.lstrip().startswith(("<think>", "<thinking>")):
        assert "".join(told).strip() == whole.strip()
    else:  # the end alone of a thought is seen too late
        assert "".join(told).strip() in (whole.strip(), text.strip())


def test_long_texts_are_read_in_no_time() -> None:
    began = time.process_time()
    for text in (" " * 300_000, "<think>" * 50_000, "<think>" + "</thin" * 50_000, "\n</think" * 40_000):
        without_thoughts(text)
        saying = SpeechFilter(lambda _: None)
        for letter in text:
            saying.take(letter)
        saying.end()
    assert time.process_time() - began < 10


@pytest.mark.anyio
@pytest.mark.parametrize("streamed", [False, True])
async def test_an_endpoint_that_leaves_both_in_one_text_gives_what_was_said(streamed: bool) -> None:
    async with talking("openai", says(f"{THOUGHT}It is 5.")) as talk:
        reply = await talk.model.ask(request(), on_delta=talk.told.append if streamed else None)
    assert (reply.turn.text, reply.ended) == ("It is 5.", "answered")
    if streamed:
        assert "".join(delta.text for delta in talk.told) == "It is 5."


@pytest.mark.anyio
async def test_who_only_thought_said_nothing() -> None:
    async with talking("openai", says("<think>I cannot see the end of")) as talk:
        assert (await talk.model.ask(request())).ended == "empty"
