"""Waves and cycles: what they are by definition, and that very long ones are no harm."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from callgate.plan.compile import cycles, waves
from plan.plans import read, step

Needs = list[list[int]]
MANY = 100_000


@st.composite
def forests(draw: st.DrawFn) -> Needs:
    """Steps that wait for earlier ones, in any order of writing."""
    count = draw(st.integers(0, 12))
    order = draw(st.permutations(range(count)))
    needs: Needs = [[] for _ in range(count)]
    for place, name in enumerate(order):
        if place:
            needs[name] = draw(st.lists(st.sampled_from(order[:place]), max_size=3, unique=True))
    return needs


@st.composite
def graphs(draw: st.DrawFn) -> Needs:
    """Steps that wait for any."""
    count = draw(st.integers(1, 8))
    return [draw(st.lists(st.integers(0, count - 1), max_size=3, unique=True)) for _ in range(count)]


def longest_path(needs: Needs, step: int) -> int:
    return max((1 + longest_path(needs, need) for need in needs[step]), default=0)


def can_reach(needs: Needs, start: int) -> set[int]:
    seen: set[int] = set()
    todo = list(needs[start])
    while todo:
        step = todo.pop()
        if step not in seen:
            seen.add(step)
            todo += needs[step]
    return seen


@given(forests())
def test_the_wave_of_a_step_is_its_longest_path(needs: Needs) -> None:
    assert waves(needs) == [longest_path(needs, step) for step in range(len(needs))]
    assert cycles(needs) == []


@given(graphs())
def test_steps_that_wait_for_a_cycle_have_no_wave(needs: Needs) -> None:
    reach = [can_reach(needs, step) for step in range(len(needs))]
    stuck = {
        step for step in range(len(needs)) if step in reach[step] or any(each in reach[each] for each in reach[step])
    }
    assert {step for step, wave in enumerate(waves(needs)) if wave == -1} == stuck


@given(graphs())
def test_every_cycle_that_is_told_is_one_and_there_is_one_where_any_is(needs: Needs) -> None:
    wave = waves(needs)
    found = cycles(needs)
    for cycle in found:
        assert len(set(cycle)) == len(cycle)
        for waiting, follows in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
            assert follows in needs[waiting]
    assert bool(found) == (-1 in wave)
    told = [frozenset(cycle) for cycle in found]
    assert all(not one & other for number, one in enumerate(told) for other in told[:number])


def test_at_most_so_many_cycles_are_told() -> None:
    pairs = [[number ^ 1] for number in range(100)]
    assert len(cycles(pairs)) == 10
    assert len(cycles(pairs, most=3)) == 3


def test_a_chain_of_a_hundred_thousand_steps_has_as_many_waves() -> None:
    chain: Needs = [[], *([number] for number in range(MANY - 1))]
    assert waves(chain) == list(range(MANY))
    backwards: Needs = [[number + 1] for number in range(MANY - 1)] + [[]]
    assert waves(backwards) == list(range(MANY - 1, -1, -1))


def test_a_cycle_of_a_hundred_thousand_steps_is_found_whole() -> None:
    ring = [[(number + 1) % MANY] for number in range(MANY)]
    wave = waves(ring)
    assert set(wave) == {-1}
    assert cycles(ring) == [list(range(MANY))]


def test_a_wide_plan_and_a_star_are_quick() -> None:
    star: Needs = [[] for _ in range(MANY)] + [list(range(MANY))]
    assert waves(star)[-1] == 1
    fan: Needs = [[]] + [[0] for _ in range(MANY)]
    assert set(waves(fan)[1:]) == {1}


def test_a_cycle_is_told_in_words_however_long() -> None:
    count = 10_000
    ring = [step(f"n{number}", arguments={"x": f"$ref:n{(number + 1) % count}"}) for number in range(count)]
    (fault,) = read({"steps": ring}).faults
    assert fault.message == (
        "cycle in the plan: n0 → n1 → n2 → n3 → n4 → n5 → … (9988 more) … "
        "→ n9994 → n9995 → n9996 → n9997 → n9998 → n9999 → n0"
    )


def test_every_knot_is_told() -> None:
    plan = {
        "steps": [
            step("a", depends_on=["b"]), step("b", depends_on=["a"]), step("c", depends_on=["c"]),
            step("d", depends_on=["a"]), step("e", execution_mode="sequential", depends_on=["f"]), step("f"),
        ]
    }  # fmt: skip
    faults = read(plan).faults
    assert [fault.message for fault in faults] == ["cycle in the plan: a → b → a", "cycle in the plan: c → c"]


def test_a_step_that_waits_for_the_one_before_can_be_in_a_cycle() -> None:
    steps = [step("a", arguments={"x": "$ref:b"}), step("b", execution_mode="sequential")]
    assert [fault.message for fault in read({"steps": steps}).faults] == ["cycle in the plan: a → b → a"]
