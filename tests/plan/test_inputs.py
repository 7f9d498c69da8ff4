"""What results take, and for how long their values are kept."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from callgate.plan.inputs import Inputs
from callgate.plan.sizes import SMALL_BYTES, memory_of

VALUE = ["x" * 100] * 1_000
TEXT = json.dumps(VALUE, separators=(",", ":"))
READS_THE_FIRST: Any = SimpleNamespace(needs=(0,))


def inputs(readers: int) -> Inputs:
    made = Inputs(1 << 30, 1 << 30)
    for _ in made.taking([None, *[READS_THE_FIRST] * readers]):
        pass
    return made


def test_a_value_that_is_at_hand_is_not_decoded_and_counts_when_it_is_read() -> None:
    ours, decoding = inputs(1), inputs(1)
    ours.keep(0, TEXT, VALUE)
    decoding.keep(0, TEXT)
    assert ours.held_bytes == decoding.held_bytes
    assert ours.results[0] is not None
    assert decoding.results[0] is not None
    assert ours.results[0].value is VALUE
    assert decoding.results[0].value == VALUE
    assert ours.held_bytes == decoding.held_bytes
    ours.release(READS_THE_FIRST)
    decoding.release(READS_THE_FIRST)
    assert ours.held_bytes == decoding.held_bytes
    assert ours.results[0].value is not VALUE
    assert ours.results[0].value == VALUE


def test_a_value_that_nobody_reads_is_not_kept() -> None:
    nobody = inputs(0)
    nobody.keep(0, TEXT, VALUE)
    assert nobody.results[0] is not None
    assert nobody.results[0].value is not VALUE


def test_values_that_were_not_read_yet_are_few() -> None:
    most = SMALL_BYTES // memory_of(TEXT)
    made = Inputs(1 << 30, 1 << 30)
    readers: Any = [SimpleNamespace(needs=(number,)) for number in range(most + 1)]
    for _ in made.taking([None] * (most + 1)):
        pass
    for _ in made.taking(readers):
        pass
    for number in range(most + 1):
        made.keep(number, TEXT, VALUE)
    values = [each.value for each in made.results[: most + 1] if each is not None]
    assert [value is VALUE for value in values] == [True] * most + [False]
    made.keep(0, TEXT, VALUE)
    assert made.results[0] is not None
    assert made.results[0].value is VALUE
