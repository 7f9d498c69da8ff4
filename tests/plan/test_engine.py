"""The engine, driven by hand: one event at a time, in any order, with any outcome."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgate.plan.actions import Arrived, Begin, Call, Event, Failed, Finished, GoOn, Paused, Returned, StepEnded, Stop
from callgate.plan.engine import Engine
from callgate.plan.inputs import Inputs
from callgate.tools.encoding import compact_json
from plan.plans import Play, compiled, played, step

MANY = 20_000
"""Far more than Python recurses; `tests/guard` runs chains of 100,000 steps."""


@st.composite
def dags(draw: st.DrawFn) -> dict[str, Any]:
    """A plan of `take` steps that wait for earlier ones in every way there is."""
    count = draw(st.integers(1, 10))
    steps = []
    for number in range(count):
        needs = draw(st.lists(st.integers(0, number - 1), max_size=3, unique=True)) if number else []
        arguments: dict[str, Any] = {}
        depends_on = []
        for need in needs:
            way = draw(st.integers(0, 3))
            if way == 0:
                depends_on.append(f"s{need}")
            else:
                arguments[f"x{need}"] = (f"$ref:s{need}", f"<${{s{need}}}>", [{"$ref": f"steps[{need}].result"}])[
                    way - 1
                ]
        each = step(f"s{number}", arguments=arguments, depends_on=depends_on)
        if draw(st.booleans()) and draw(st.booleans()):
            each["execution_mode"] = "sequential"
        if number and draw(st.booleans()) and draw(st.booleans()):
            each["after"] = [f"s{earlier}" for earlier in draw(st.sets(st.integers(0, number - 1), max_size=3))]
        steps.append(each)
    return {"steps": steps}


def answer_in_any_order(play: Play, data: st.DataObject) -> dict[int, bool]:
    """Drives it to the end; returns which calls succeeded. Checks what must hold after every event."""
    steps = play.engine.steps
    succeeded: dict[int, bool] = {}
    play.begin()
    while play.open:
        call = data.draw(st.sampled_from(list(play.open)))
        succeeded[call.step] = data.draw(st.booleans() | st.just(True))
        actions = play.answer(call, call.step if succeeded[call.step] else ValueError("no"))
        ended = {action.step for action in actions if isinstance(action, StepEnded)}
        assert call.step in ended
        for action in actions:
            if isinstance(action, Call):  # dataflow: the very event that brought its last input
                assert ended & {*steps[action.step].needs, *steps[action.step].after}
    return succeeded


@given(dags(), st.data())
def test_whatever_the_graph_and_the_outcomes_every_rule_holds(plan: dict[str, Any], data: st.DataObject) -> None:
    play = Play(compiled(plan))
    steps = play.engine.steps
    succeeded = answer_in_any_order(play, data)
    assert sorted(play.ended) == list(range(len(steps)))
    assert play.finished == 1
    called = [call.step for call in play.calls]
    assert len(called) == len(set(called))
    order = {step: place for place, step in enumerate(play.ended)}
    for each in steps:
        outcome = play.engine.outcomes[each.index]
        needed = [play.engine.outcomes[need].status for need in each.needs]
        assert (each.index in called) == all(status == "succeeded" for status in needed)
        if each.index in called:
            assert outcome.status == ("succeeded" if succeeded[each.index] else "failed")
            assert all(order[earlier] < order[each.index] for earlier in (*each.needs, *each.after))
            continue
        assert outcome.status == "skipped"
        assert outcome.cause is not None
        assert play.engine.outcomes[outcome.cause].status == "failed"
        cause, words = f"s{outcome.cause}", str(outcome.error)
        broken = [need for need in each.needs if play.engine.outcomes[need].status != "succeeded"]
        assert words in [
            f"Skipped because dependency 's{need}' failed" if need == outcome.cause
            else f"Skipped because dependency 's{need}' was skipped: {cause!r} failed"
            for need in broken
        ]  # fmt: skip


def test_a_step_that_arrives_while_news_of_ends_is_still_spread_learns_of_each_end_once() -> None:
    many = [step(f"s{number}", depends_on=["first"]) for number in range(5000)]
    last = step("last", arguments={"x": "$ref:slow"}, after=["s4999"])
    steps = compiled({"steps": [step("first"), step("slow"), *many, last]}, max_tool_calls=6000).steps
    engine = Engine((), max_bytes=1 << 20, max_memory_bytes=1 << 30, window=64)
    for each in steps[:-1]:
        engine.handle(Arrived(each, False))
    first = Failed(0, None, False, "no", "ValueError", False)
    assert any(isinstance(action, Paused) for action in engine.handle(first))
    engine.handle(Arrived(steps[-1], False))
    for _ in range(10):
        engine.handle(GoOn())
    assert [outcome.status for outcome in engine.outcomes[-2:]] == ["skipped", "pending"]
    (call, *_) = [a for a in engine.handle(Returned(1, None, False, "7")) if isinstance(a, Call)]
    assert call.arguments == {"x": 7}


def test_a_plan_with_many_references_is_taken_in_turns() -> None:
    first = [step(f"s{number}") for number in range(100)]
    needy = [step(f"t{number}", depends_on=[each["id"] for each in first]) for number in range(1000)]
    steps = compiled({"steps": [*first, *needy]}, max_tool_calls=2000).steps
    inputs = Inputs(1 << 20, 1 << 30)
    assert sum(1 for _ in inputs.taking(steps)) >= 9


@given(dags())
def test_waves_are_longest_paths_and_calls_keep_to_them(plan: dict[str, Any]) -> None:
    ready = compiled(plan)
    play = Play(ready).run(lambda call: call.step)
    for each in ready.steps:
        before = [ready.waves[earlier] for earlier in (*each.needs, *each.after)]
        assert ready.waves[each.index] == max((wave + 1 for wave in before), default=0)
    assert {call.step for call in play.calls} == set(range(len(ready.steps)))


def test_a_step_starts_when_its_own_inputs_are_there_and_not_a_wave_later() -> None:
    play = Play(compiled({"steps": [step("fast"), step("slow"), step("next", depends_on=["fast"])]}))
    fast, slow = play.begin()
    (_, call) = play.answer(fast, 1)
    assert isinstance(call, Call)
    assert play.ids[call.step] == "next"
    play.answer(call, 2)
    assert play.finished == 0
    assert isinstance(play.answer(slow, 3)[-1], Finished)


def test_failure_goes_forward_and_names_its_root() -> None:
    steps = [step("s1"), step("s2", depends_on=["s1"]), step("s3", depends_on=["s2"]), step("s4")]
    play = played({"steps": steps}, {"s1": ValueError("boom"), "s4": 4})
    assert [(each.status, each.error) for each in play.engine.outcomes] == [
        ("failed", "boom"),
        ("skipped", "Skipped because dependency 's1' failed"),
        ("skipped", "Skipped because dependency 's2' was skipped: 's1' failed"),
        ("succeeded", None),
    ]
    assert [each.cause for each in play.engine.outcomes] == [None, 0, 0, None]


def test_what_depends_on_an_unknown_outcome_is_skipped_and_says_so() -> None:
    steps = [step("s1"), step("s2", arguments={"x": "$ref:s1"}), step("s3", arguments={"x": "${s2}"})]
    play = played({"steps": steps}, {"s1": TimeoutError("late")})
    assert [(each.status, each.error) for each in play.engine.outcomes] == [
        ("unknown_outcome", "late"),
        ("skipped", "Skipped because the outcome of dependency 's1' is unknown"),
        ("skipped", "Skipped because dependency 's2' was skipped: 's1' has an unknown outcome"),
    ]


def test_a_sequential_step_waits_for_the_one_before_it_however_that_ends() -> None:
    steps = [step("a"), step("b", execution_mode="sequential"), step("c", execution_mode="sequential"), step("d")]
    play = Play(compiled({"steps": steps}))
    assert [play.ids[call.step] for call in play.begin()] == ["a", "d"]
    (_, b) = play.answer(play.open[0], ValueError("no"))
    assert isinstance(b, Call)
    assert play.ids[b.step] == "b"
    assert play.outcome("b").status == "pending"


def test_a_step_that_comes_after_others_waits_until_they_have_ended_however_they_end() -> None:
    steps = [step("a"), step("b", when="$ref:a"), step("c", depends_on=["a"]), step("d", after=["a", "b", "c"])]
    play = Play(compiled({"steps": steps}))
    (a,) = play.begin()
    assert [call.step for call in play.open] == [0]
    actions = play.answer(a, ValueError("no"))  # b and c are skipped
    assert [play.ids[action.step] for action in actions if isinstance(action, Call)] == ["d"]


def test_a_step_comes_after_one_that_its_own_condition_skipped() -> None:
    play = played({"steps": [step("a"), step("b", when="$ref:a"), step("c", after="b")]}, {"a": False, "c": 1})
    assert [each.status for each in play.engine.outcomes] == ["succeeded", "skipped", "succeeded"]


def test_what_a_step_needs_it_needs_even_where_it_comes_after_it_too() -> None:
    ready = compiled({"steps": [step("a"), step("b", after=["a"], depends_on=["a"], execution_mode="sequential")]})
    assert (ready.steps[1].needs, ready.steps[1].after) == ((0,), ())


@pytest.mark.parametrize("value", [True, 1, "x", [0], {"a": None}], ids=repr)
def test_a_step_whose_condition_holds_is_called(value: Any) -> None:
    assert played({"steps": [step("s"), step("t", when="$ref:s")]}, {"s": value}).outcome("t").status == "succeeded"


@pytest.mark.parametrize("value", [False, 0, "", [], {}, None, 0.0], ids=repr)
def test_a_step_whose_condition_is_false_is_skipped_and_what_needs_it_too(value: Any) -> None:
    steps = [step("s"), step("t", when="$ref:s"), step("u", depends_on=["t"]), step("v", depends_on=["u"])]
    play = played({"steps": steps}, {"s": value})
    assert [(each.status, each.error) for each in play.engine.outcomes[1:]] == [
        ("skipped", "Skipped because its condition is false"),
        ("skipped", "Skipped because dependency 't' was skipped: its condition is false"),
        ("skipped", "Skipped because dependency 'u' was skipped: 't' was skipped: its condition is false"),
    ]


# for_each


FEWER = "map over fewer of them, or set max_items on the step"


def mapped(count: int, **fields: Any) -> dict[str, Any]:
    return {"steps": [step("m", for_each=list(range(count)), arguments={"n": "$item", "i": "$index"}, **fields)]}


@given(st.integers(0, 12), st.integers(1, 5), st.data())
def test_a_window_is_kept_and_results_are_in_the_order_of_the_items(
    count: int, window: int, data: st.DataObject
) -> None:
    play = Play(compiled(mapped(count)), window=window)
    play.begin()
    while play.open:
        assert len(play.open) == min(window, count - (len(play.calls) - len(play.open)))
        call = data.draw(st.sampled_from(list(play.open)))
        assert call.arguments == {"n": call.item, "i": call.item}
        play.answer(call, {"n": call.item})
    assert play.result("m") == [{"n": number} for number in range(count)]
    assert [call.item for call in play.calls] == list(range(count))
    assert (play.ended, play.finished, play.outcome("m").items) == ([0], 1, count)


def test_a_failed_item_fails_the_step_when_all_have_ended() -> None:
    play = played(mapped(4), lambda call: ValueError(f"no {call.item}") if call.item in (1, 3) else call.item)
    outcome = play.outcome("m")
    assert (outcome.status, outcome.kind, outcome.items_failed) == ("failed", "ValueError", 2)
    assert outcome.error == "2 of 4 items failed: item 1: no 1; item 3: no 3"
    assert len(play.calls) == 4


def test_a_failed_item_may_be_null_instead() -> None:
    play = played(mapped(3, on_item_error="null"), lambda call: ValueError("no") if call.item == 1 else call.item)
    assert play.outcome("m").warnings == ("1 of 3 items failed and are null: item 1: no",)
    assert play.result("m") == [0, None, 2]


def test_where_all_items_fail_the_step_fails() -> None:
    play = played(mapped(9, on_item_error="null"), lambda _: ValueError("no"))
    error = str(play.outcome("m").error)
    assert error.startswith("9 of 9 items failed: item 0: no; ")
    assert error.endswith("; item 4: no; and 4 more")


@pytest.mark.parametrize(
    ("given_so", "error"),
    [
        ({"a": 1}, "for_each needs an array, got an object"),
        ("text", 'for_each needs an array, got "text" (a string)'),
        (None, "for_each needs an array, got null"),
        ([0] * 1001, f"for_each has 1001 items, more than max_items, which is 1000; {FEWER}"),
    ],
    ids=["object", "text", "null", "many"],
)  # fmt: skip
def test_what_cannot_be_mapped_over_fails_before_any_call(given_so: Any, error: str) -> None:
    play = played({"steps": [step("s"), step("t", for_each="$ref:s")]}, {"s": given_so})
    assert (play.outcome("t").status, play.outcome("t").error, len(play.calls)) == ("failed", error, 1)


def test_a_path_of_for_each_that_leads_nowhere_is_warned_of_when_the_step_fails() -> None:
    play = played({"steps": [step("s"), step("t", for_each="$ref:s.rows")]}, {"s": {"row": [1]}})
    assert play.outcome("t").error == "for_each needs an array, got null"
    assert play.outcome("t").warnings == (
        "$ref:s.rows leads nowhere, null was put there: 's' has the keys: row; did you mean row?",
    )


def test_text_that_is_a_json_array_can_be_mapped_over_and_an_empty_one_makes_no_call() -> None:
    plan = {"steps": [step("s"), step("t", for_each="$ref:s", arguments={"x": "$item"}), step("u", depends_on=["t"])]}
    assert [call.arguments for call in played(plan, {"s": ' ["a"]'}).calls[1:2]] == [{"x": "a"}]
    play = played(plan, {"s": []})
    assert [play.ids[call.step] for call in play.calls] == ["s", "u"]


# the end


def test_a_critical_step_that_fails_stops_new_starts_and_lets_others_end() -> None:
    steps = [step("a", critical=True), step("b"), step("c", depends_on=["b"]), step("d", depends_on=["a"])]
    play = Play(compiled({"steps": [*steps, step("m", for_each=[1, 2, 3])]}), window=1)
    a, b, item = play.begin()
    play.answer(a, ValueError("no"))
    play.answer(b, "b")
    play.answer(item, 1)
    assert (len(play.calls), play.finished) == (3, 1)
    critical = "Skipped because the critical step 'a' failed"
    assert [(each.status, each.error) for each in play.engine.outcomes] == [
        ("failed", "no"),
        ("succeeded", None),
        ("skipped", critical),
        ("skipped", critical),
        ("failed", "only 1 of 3 items were begun: the critical step 'a' failed"),
    ]


def test_after_a_stop_everything_has_ended_and_late_events_change_nothing() -> None:
    plan = {"steps": [step("a"), step("b"), step("c", depends_on=["a"]), step("m", for_each=[1, 2])]}
    play = Play(compiled(plan), window=1)
    a, b, item = play.begin()
    play.feed(Stop("it was cancelled", frozenset({b.step})))
    ended = [(each.status, each.error) for each in play.engine.outcomes]
    assert ended == [
        ("skipped", "Skipped because it was cancelled"),
        ("unknown_outcome", "interrupted: it was cancelled"),
        ("skipped", "Skipped because it was cancelled"),
        ("skipped", "Skipped because it was cancelled"),
    ]
    assert (play.ended, play.finished) == ([0, 1, 2, 3], 1)
    late: list[Event] = [
        Returned(*a[:3], "1"),
        Failed(*b[:3], "no", "ValueError"),
        Returned(*item[:3], "2"),
        Stop("again"),
        Begin(),
    ]
    assert [play.feed(event) for event in late] == [[]] * 5
    assert [(each.status, each.error) for each in play.engine.outcomes] == ended


@given(dags(), st.integers(0, 10), st.data())
def test_a_stop_at_any_moment_ends_every_step_once(plan: dict[str, Any], after: int, data: st.DataObject) -> None:
    play = Play(compiled(plan))
    play.begin()
    for _ in range(after):
        if play.open:
            call = data.draw(st.sampled_from(list(play.open)))
            play.answer(call, data.draw(st.sampled_from([1, ValueError("no")])))
    play.feed(Stop("enough"))
    for call in list(play.open):
        assert play.answer(call, 1) == []
    assert sorted(play.ended) == list(range(len(play.ids)))
    assert play.finished == 1


# confidence

UNSURE = {
    "steps": [
        step("s", fallback={"tool": "give", "condition": "on_low_confidence", "threshold": 0.7}, arguments={"x": 5})
    ]
}


@pytest.mark.parametrize(
    ("first", "second", "taken"),
    [
        ({"confidence": 0.7}, None, 0),
        ({"confidence": True}, None, 0),
        ({"other": 1}, None, 0),
        ([0.1], None, 0),
        ({"confidence": 0.2}, {"confidence": 0.3}, 1),
        ({"confidence": 0.2}, {"other": 1}, 1),
        ({"confidence": 0.2}, {"confidence": 0.1}, 0),
        ({"confidence": 0.2}, ValueError("no"), 0),
        ({"confidence": 0.2}, TimeoutError("late"), 0),
    ],
    ids=str,
)
def test_a_result_that_is_not_sure_is_asked_of_the_fallback(first: Any, second: Any, taken: int) -> None:
    play = played(UNSURE, lambda call: second if call.again else first)
    assert [(call.tool, call.again, call.arguments) for call in play.calls] == [
        ("take", False, {"x": 5}), ("give", True, {"x": 5}),
    ][: 1 if second is None else 2]  # fmt: skip
    assert play.result("s") == (first, second)[taken]
    assert bool(play.outcome("s").warnings) == (second is not None)


def test_a_fallback_on_errors_is_the_gates_affair() -> None:
    (call,) = Play(compiled({"steps": [step("s", fallback="give", timeout_seconds=5, retry=2)]})).begin()
    assert (call.fallback, call.timeout_seconds, call.retry and call.retry.attempts) == ("give", 5.0, 2)


# bounds


def test_a_chain_of_many_thousand_steps_runs() -> None:
    steps = [step("s0"), *[step(f"s{number}", depends_on=[f"s{number - 1}"]) for number in range(1, MANY)]]
    ready = compiled({"steps": steps})
    play = Play(ready).run(lambda call: call.step)
    assert play.ended == list(range(MANY))
    play = Play(ready).run({"s0": ValueError("no")})
    assert len(play.calls) == 1
    assert play.outcome(f"s{MANY - 1}").error == f"Skipped because dependency 's{MANY - 2}' was skipped: 's0' failed"


def test_arguments_that_would_be_too_large_fail_the_step_and_not_the_run() -> None:
    plan = {"steps": [step("s"), step("t", arguments={"x": ["$ref:s"] * 20}), step("u", arguments={"x": "${s}" * 20})]}
    play = Play(compiled(plan), max_bytes=5_000).run({"s": "x" * 1000})
    assert str(play.outcome("t").error).startswith("the arguments would be more than ")
    assert str(play.outcome("t").error).endswith("max_message_bytes is 5000")
    assert str(play.outcome("u").error).endswith("would be longer than max_message_bytes, 5000")


def test_results_that_take_too_much_memory_are_told_once() -> None:
    play = Play(compiled({"steps": [step("a"), step("b"), step("c")]}), memory=1500).run(lambda _: "x" * 1000)
    assert len(play.exceeded) == 1
    assert play.exceeded[0] > 1500


def test_what_was_read_is_let_go_when_nobody_is_left_to_read_it() -> None:
    play = Play(compiled({"steps": [step("s"), step("t", arguments={"x": "$ref:s.a"}), step("u", depends_on=["s"])]}))
    play.begin()
    play.answer(play.open[0], {"a": list(range(1000))})
    whole = play.held_bytes
    play.answer(play.open[0], None)
    play.answer(play.open[0], None)
    assert (
        play.held_bytes == sum(sys.getsizeof(text) for text in (compact_json(play.result("s")), "null", "null")) < whole
    )


def test_items_count_while_the_step_is_under_way() -> None:
    play = Play(compiled(mapped(10)), window=1, memory=1500)
    play.begin()
    play.answer(play.open[0], "x" * 1000)
    assert play.exceeded == []
    play.answer(play.open[0], "x" * 1000)
    assert len(play.exceeded) == 1


@given(dags(), st.integers(1, 3), st.data())
def test_no_more_calls_are_under_way_than_may_be(plan: dict[str, Any], most: int, data: st.DataObject) -> None:
    steps = [*plan["steps"], *[step(f"m{number}", for_each=[1, 2, 3], critical=number == 1) for number in range(2)]]
    play = Play(compiled({"steps": steps}), most=most, window=2)
    play.begin()
    while play.open:
        assert len(play.open) <= most
        play.answer(
            data.draw(st.sampled_from(list(play.open))), data.draw(st.sampled_from([1, 1, 1, ValueError("no")]))
        )
    assert sorted(play.ended) == list(range(len(steps)))
    assert play.finished == 1
