"""The tokens of definitions and stubs: counted by a real tokenizer, for as many tools as they say."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from callgate.bench.model import tokens
from callgate.bench.rows import Row
from callgate.bench.singles.context import CALLS
from callgate.bench.singles.measures.definition_tokens import COUNTS, PROVIDERS, definitions

pytest.importorskip("splintr", reason="splintr, the tokenizer, is not installed")


@dataclass
class Folder:
    """What the measurement asks of a `Bench`."""

    calls: Path


def measured(folder: Path) -> list[Row]:
    bench: Any = Folder(folder)
    return anyio.run(definitions, bench)


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    if not CALLS.is_dir():
        pytest.skip(f"{CALLS} is absent")
    return measured(CALLS)


def test_the_tokenizer_is_that_of_openai() -> None:
    vocabulary = importlib.import_module("splintr").Tokenizer.from_pretrained(tokens.TOKENIZER)
    assert vocabulary.encode_ordinary("hello world") == [24912, 2375]
    assert tokens.Tokens()("hello world") == 2
    assert tokens.Tokens()("<|endoftext|>") == 7  # what somebody wrote is text, and no mark


def test_every_provider_is_measured_for_every_number_of_tools(rows: list[Row]) -> None:
    told = [row.measure for row in rows]
    for number in COUNTS:
        assert f"tokens of the stubs, {number} tools" in told
        for provider in PROVIDERS:
            assert f"tokens of the definitions, {number} tools, {provider}" in told
    assert len(rows) == len(COUNTS) * (len(PROVIDERS) + 1)


def test_a_hundred_tools_take_less_than_a_definition_for_each(rows: list[Row]) -> None:
    for row in rows:
        if "of the definitions" in row.measure:
            few = ", 10 tools" in row.measure
            assert (row.numbers["meta"] < row.numbers["direct"] / 3) is not few, row.measure
            assert row.numbers["unlisted"] <= row.numbers["meta"]
            assert row.numbers["answers"]


def test_each_detail_of_the_stubs_takes_more_than_the_one_before(rows: list[Row]) -> None:
    for row in rows:
        if "of the stubs" in row.measure:
            assert row.numbers["names"] < row.numbers["signatures"] < row.numbers["full"] < row.numbers["schemas"]


def test_where_the_tokenizer_is_absent_a_row_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    if not CALLS.is_dir():
        pytest.skip(f"{CALLS} is absent")
    monkeypatch.setattr(tokens, "find_spec", lambda name: None)
    (row,) = measured(CALLS)
    assert row.measured.startswith("not to be had: the tokenizer is not installed: pip install splintr-rs")


def test_where_the_tools_are_absent_a_row_says_so(tmp_path: Path) -> None:
    (row,) = measured(tmp_path)
    assert "not to be had: there is no " in row.measured
    assert row.verdict == "for information"
