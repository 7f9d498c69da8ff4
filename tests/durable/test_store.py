"""What every store does: the rules of `callgate.durable.store`, for each store."""

from __future__ import annotations

from dataclasses import replace

import anyio
import pytest

from callgate.durable.store import MAX_STORED_BYTES, Decision, Held, RunStatus, StateChange, Store
from callgate.errors import (
    AlreadyDecided,
    ConfigurationError,
    DurableError,
    LimitReached,
    OwnershipLost,
    RunNotFound,
    StoreFailed,
)
from durable.stored import NOW, answered, approval, call, ended, event, granted, key, run, started

pytestmark = pytest.mark.anyio

SLEEPS = StateChange("waiting", released=True)


async def test_a_run_comes_back_as_it_was_added(store: Store) -> None:
    added = run(key="order 17", belongs_to="client", text="x = '\ud800\x00'", seed=b"\x00\xff")
    kept = await store.add(added)
    assert kept.is_new
    assert kept.held is None
    assert kept.run == added
    assert await store.find(added.id) == added


async def test_the_same_key_is_the_same_run(store: Store) -> None:
    first = run(key="order-17", belongs_to="a")
    await store.add(first)
    again = await store.add(run(key="order-17", belongs_to="a", text="another text"), takes=True)
    assert (again.is_new, again.held, again.run) == (False, None, first)
    assert (await store.add(run(key="order-17", belongs_to="b"))).is_new
    assert await store.find_key("order-17", "a") == first
    assert await store.find_key("order-17") is None


async def test_runs_without_a_key_are_runs_of_their_own(store: Store) -> None:
    assert (await store.add(run())).is_new
    assert (await store.add(run())).is_new


@pytest.mark.parametrize("name", ["a\nb", "\ud800", "x" * 513])
async def test_a_key_that_cannot_be_shown_is_refused(store: Store, name: str) -> None:
    with pytest.raises(ConfigurationError, match="key of a run must be at most 512 printable characters"):
        await store.add(run(key=name))
    with pytest.raises(ConfigurationError, match="belongs_to of a run"):
        await store.add(run(belongs_to=name))


async def test_an_id_that_is_used_twice_is_refused(store: Store) -> None:
    await store.add(run("a"))
    with pytest.raises(StoreFailed):
        await store.add(run("a"))


async def test_one_owner_at_a_time(store: Store) -> None:
    await store.add(run("a"))
    held = await store.take("a")
    assert held == Held("a", 1)
    assert await store.take("a") is None
    assert (await store.find("a")).owner is not None
    await store.write(held, SLEEPS)
    assert (await store.find("a")).owner is None
    assert await store.take("a") == Held("a", 2)


async def test_an_owner_that_lost_the_run_writes_nothing(store: Store) -> None:
    held = await started(store, "a")
    await store.write(held, SLEEPS)
    with pytest.raises(OwnershipLost):  # released
        await store.write(held, call(1))
    await store.take("a")
    before = await store.load("a")
    for change in (call(1), event(1), approval("a"), StateChange("failed", forgets_events=True)):
        with pytest.raises(OwnershipLost, match="'a' is not held here any more"):
            await store.write(held, change, call(2))
    assert await store.load("a") == before


@pytest.mark.parametrize("name", ["x", "\ud800", "'; DROP TABLE runs; --", "x" * 1_000_000])
async def test_a_run_that_was_never_stored_is_not_found(store: Store, name: str) -> None:
    for asked in (
        store.find(name), store.load(name), store.take(name), store.cancel(name), store.list(before=name),
        store.decide(name, key(1), granted()), store.settle(name, call(1)),
    ):  # fmt: skip
        with pytest.raises(RunNotFound, match="there is no run") as told:
            await asked
        assert len(str(told.value)) < 200


async def test_changes_of_a_run_that_was_never_stored_are_refused(store: Store) -> None:
    with pytest.raises(RunNotFound, match="there is no run 'x'"):
        await store.write(Held("x", 1), call(1))


async def test_what_was_written_comes_back_in_order(store: Store) -> None:
    held = await started(store, "a")
    await store.write(held, call(1, "started"))
    await store.write(held, call(2, "started", number=None), call(1), event(1, 1))
    await store.write(held, event(2), approval("a", 2), call(2, "failed", outcome='{"code": -32000}'), event(3, 2))
    history = await store.load("a")
    assert history.calls == (call(1), call(2, "failed", outcome='{"code": -32000}'))
    assert history.events == (event(1, 1), event(2), event(3, 2))
    assert history.approvals == (approval("a", 2),)
    assert history.run.status == "running"


async def test_equal_calls_are_told_apart_by_their_occurrence(store: Store) -> None:
    held = await started(store, "a")
    calls = tuple(call(1, key=key(1, n), number=n + 1, outcome=f'"{n}"') for n in range(3))
    await store.write(held, *calls)
    assert (await store.load("a")).calls == calls


async def test_writes_keep_their_order_though_nobody_waits_for_them(store: Store) -> None:
    held = await started(store, "a")
    await answered(store, held, 300)
    history = await store.load("a")
    assert [each.number for each in history.events] == list(range(1, 301))
    assert len(history.calls) == 300


async def test_a_write_can_be_awaited_twice_and_by_two_tasks(store: Store) -> None:
    held = await started(store, "a")
    written = store.write(held, call(1))

    async def wait() -> None:
        await written

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        tasks.start_soon(wait)
    await written


async def test_after_a_change_that_cannot_be_stored_nothing_later_is_and_the_run_can_be_taken_anew(
    store: Store,
) -> None:
    held = await started(store, "a")
    await store.write(held, event(1))
    failed = store.write(held, call(1), event(1))
    later = store.write(held, call(2))
    with pytest.raises(DurableError):
        await later
    with pytest.raises(StoreFailed):
        await failed
    with pytest.raises(DurableError):
        await store.write(held, call(3))
    assert (await store.load("a")).calls == ()
    assert list(await store.due(NOW)) == ["a"]
    again = await store.take("a")
    assert again == Held("a", 2)
    assert list(await store.due(NOW)) == []
    await store.write(again, call(4))
    assert (await store.load("a")).calls == (call(4),)


async def test_a_text_that_is_too_large_is_refused_before_anything_is_stored(store: Store) -> None:
    held = await started(store, "a")
    large = "ü" * (MAX_STORED_BYTES // 2 + 1)
    for change in (call(1, outcome=large), StateChange("failed", reason=large), approval("a", 1, arguments=large)):
        with pytest.raises(LimitReached, match="max_stored_bytes is 16777216, used 16777218"):
            store.write(held, call(2), change)
    with pytest.raises(LimitReached):
        await store.add(run(text=large))
    with pytest.raises(LimitReached):
        await store.decide("a", key(1), granted(reason=large))
    await store.write(held, call(1, outcome=large[:-1]))
    assert [each.number for each in (await store.load("a")).calls] == [1]


async def test_events_can_be_forgotten_and_begin_anew(store: Store) -> None:
    held = await started(store, "a")
    await answered(store, held, 3)
    await store.write(held, StateChange("running", forgets_events=True), event(1, 2))
    history = await store.load("a")
    assert history.events == (event(1, 2),)
    assert len(history.calls) == 3


async def test_a_run_that_ended_stays_ended(store: Store) -> None:
    name = await ended(store)
    found = await store.find(name)
    assert (found.status, found.result, found.owner) == ("succeeded", '"fine"', None)
    assert await store.take(name) is None
    assert name not in await store.due(1e12)
    with pytest.raises(AlreadyDecided, match="succeeded already") as told:
        await store.cancel(name)
    assert told.value.decided == "succeeded"


async def test_states_are_told_to_people(store: Store) -> None:
    held = await started(store, "a")
    await store.write(held, StateChange("needs_attention", reason="pay(1) may have happened", released=True))
    found = await store.find("a")
    assert (found.status, found.reason) == ("needs_attention", "pay(1) may have happened")
    assert await store.take("a")
    found = await store.find("a")
    assert (found.status, found.reason) == ("running", None)


# what is due


async def test_a_run_without_an_owner_is_due(store: Store) -> None:
    await store.add(run("a"))
    assert list(await store.due(NOW)) == ["a"]
    held = await store.take("a")
    assert held is not None
    assert list(await store.due(NOW)) == []
    await store.write(held, StateChange("running", released=True))
    assert list(await store.due(NOW)) == ["a"]


async def test_a_run_that_waits_for_a_time_is_due_then(store: Store) -> None:
    held = await started(store, "a")
    await store.write(held, StateChange("waiting", wake_at=NOW + 60, released=True))
    assert list(await store.due(NOW + 59.9)) == []
    assert list(await store.due(NOW + 60)) == ["a"]
    assert (await store.find("a")).wake_at == NOW + 60


async def test_a_run_that_needs_attention_is_not_due_until_somebody_settles_it(store: Store) -> None:
    held = await started(store, "a")
    await store.write(held, call(1, "unknown"), StateChange("needs_attention", reason="?", released=True))
    assert list(await store.due(1e12)) == []
    await store.settle("a", call(1))
    assert list(await store.due(NOW)) == ["a"]
    history = await store.load("a")
    assert history.calls == (call(1),)
    assert (history.run.status, history.run.reason) == ("running", None)


async def test_a_run_that_needs_attention_may_be_due_at_a_time_too(store: Store) -> None:
    held = await started(store, "a")
    await store.write(held, StateChange("needs_attention", "a tool is gone", wake_at=NOW + 60, released=True))
    assert list(await store.due(NOW + 59.9)) == []
    assert list(await store.due(NOW + 60)) == ["a"]
    found = await store.find("a")
    assert (found.status, found.wake_at) == ("needs_attention", NOW + 60)


async def test_all_runs_that_are_due_are_told_if_so_many_are_asked_for(store: Store) -> None:
    for n in range(1_003):
        await store.add(run(f"r{n}"))
    assert len(await store.due(NOW, most=1_002)) == 1_002
    assert len(await store.due(NOW, most=2_000)) == 1_003


async def test_a_run_whose_approval_is_decided_is_due(store: Store) -> None:
    held = await started(store, "a")
    await store.write(held, call(1, "waiting"), approval("a"), StateChange("waiting", wake_at=4e9, released=True))
    assert list(await store.due(NOW)) == []
    await store.decide("a", key(1), granted())
    assert list(await store.due(NOW)) == ["a"]
    assert await store.take("a")
    assert list(await store.decided()) == []  # the owner loads the run, with its decisions


async def test_a_decision_just_before_the_run_sleeps_is_not_missed(store: Store) -> None:
    held = await started(store, "a")
    await store.write(held, call(1, "waiting"), approval("a"))
    await store.decide("a", key(1), granted())
    await store.write(held, SLEEPS)
    assert list(await store.due(NOW)) == ["a"]


async def test_a_call_that_is_settled_just_before_its_run_needs_attention_is_not_missed(store: Store) -> None:
    held = await started(store, "a")
    await store.write(held, call(1, "unknown"))
    await store.settle("a", call(1))
    await store.write(held, StateChange("needs_attention", reason="?", released=True))
    assert list(await store.due(NOW)) == ["a"]
    assert await store.take("a")
    assert list(await store.decided()) == []


async def test_an_owner_hears_once_of_decisions_and_then_the_run_may_sleep(store: Store) -> None:
    held = await started(store, "a")
    await store.write(held, call(1, "waiting"), approval("a"), call(2, "unknown"))
    assert list(await store.decided()) == []
    await store.decide("a", key(1), granted())
    assert list(await store.decided()) == ["a"]
    assert list(await store.decided()) == []
    await store.settle("a", call(2))
    assert list(await store.decided()) == ["a"]
    await store.write(held, SLEEPS)
    assert list(await store.due(NOW)) == []


@pytest.mark.parametrize("status", ["running", "waiting", "needs_attention"])
async def test_a_run_that_is_to_end_is_due_and_its_owner_is_told(store: Store, status: RunStatus) -> None:
    held = await started(store, "a")
    await store.cancel("a")
    assert list(await store.decided()) == ["a"]
    await store.write(held, StateChange(status, released=True))
    assert list(await store.due(NOW)) == ["a"]
    assert (await store.find("a")).cancelled
    with pytest.raises(AlreadyDecided, match="cancelled already"):
        await store.cancel("a")


async def test_a_run_that_sleeps_and_is_to_end_is_due(store: Store) -> None:
    for name, status in (("a", "waiting"), ("b", "needs_attention")):
        held = await started(store, name)
        await store.write(held, StateChange(status, released=True))  # type: ignore[arg-type]
    await store.cancel("a")
    await store.cancel("b")
    assert set(await store.due(NOW)) == {"a", "b"}


# decisions


async def test_a_decision_comes_back_as_it_was_made(store: Store) -> None:
    held = await started(store, "a")
    await store.write(held, approval("a"))
    decision = granted("Ada <ada@example.org>", arguments='{"n": 2}', reason="less is enough")
    decided = await store.decide("a", key(1), decision)
    assert decided == replace(approval("a"), decision=decision)
    assert (await store.load("a")).approvals == (decided,)
    assert await store.pending() == []


async def test_of_two_decisions_the_first_holds_and_the_other_is_told(store: Store) -> None:
    held = await started(store, "a")
    await store.write(held, approval("a"))
    told: list[str] = []

    async def decide(decision: Decision) -> None:
        try:
            await store.decide("a", key(1), decision)
        except AlreadyDecided as error:
            told.append(error.decided)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(decide, granted("Ada", reason="fine"))
        tasks.start_soon(decide, granted("Bob", granted=False, reason="never"))
    (stored,) = (await store.load("a")).approvals
    assert stored.decision is not None
    verb, by, why = ("granted", "Ada", "fine") if stored.decision.granted else ("denied", "Bob", "never")
    assert told == [f"{verb} by {by} at 2023-11-14 22:13:20 UTC: {why}"]


async def test_a_decision_after_the_expiry_is_refused(store: Store) -> None:
    held = await started(store, "a")
    await store.write(held, approval("a", expires=NOW))
    with pytest.raises(AlreadyDecided, match="expired at 2023-11-14 22:13:20 UTC; nothing was decided"):
        await store.decide("a", key(1), granted(time=NOW))
    assert (await store.decide("a", key(1), granted(time=NOW - 0.1))).decision


async def test_an_approval_that_nobody_answered_expires_and_who_comes_later_is_told(store: Store) -> None:
    held = await started(store, "a")
    await store.write(held, approval("a", expires=NOW))
    too_late = granted("", granted=False, reason="nobody answered", time=NOW)
    gone = await store.expire(held, key(1), too_late)
    assert gone == replace(approval("a", expires=NOW), decision=too_late)
    assert (await store.load("a")).approvals == (gone,)
    with pytest.raises(AlreadyDecided, match="expired at 2023-11-14 22:13:20 UTC; nothing was decided") as told:
        await store.decide("a", key(1), granted(time=NOW - 0.1))  # by a clock that goes slow
    assert told.value.decided == "expired at 2023-11-14 22:13:20 UTC"


@pytest.mark.parametrize("said", [True, False])
async def test_an_approval_that_somebody_decided_does_not_expire_and_its_owner_is_told(
    store: Store, said: bool
) -> None:
    held = await started(store, "a")
    await store.write(held, approval("a", expires=NOW))
    decided = await store.decide("a", key(1), granted("Ada", granted=said, arguments='{"n": 2}', time=NOW - 0.1))
    assert await store.expire(held, key(1), granted("", granted=False, time=NOW)) == decided
    assert (await store.load("a")).approvals == (decided,)


async def test_a_grant_and_the_expiry_at_once_leave_one_decision_that_both_are_told(store: Store) -> None:
    too_late = granted("time", granted=False, time=NOW)
    for n in range(50):
        held = await started(store, f"r{n}")
        await store.write(held, approval(held.run, expires=NOW))
        holds: list[str] = []

        async def grant(run: str, holds: list[str]) -> None:
            try:
                await store.decide(run, key(1), granted("Ada", time=NOW - 0.1))
            except AlreadyDecided as error:
                holds.append(error.decided)
            else:
                holds.append("Ada")

        async def expire(held: Held, holds: list[str]) -> None:
            decided = (await store.expire(held, key(1), too_late)).decision
            holds.append("Ada" if decided != too_late else "expired at 2023-11-14 22:13:20 UTC")

        async with anyio.create_task_group() as tasks:
            if n % 2:
                tasks.start_soon(grant, held.run, holds)
            tasks.start_soon(expire, held, holds)
            if not n % 2:
                tasks.start_soon(grant, held.run, holds)
        (kept,) = (await store.load(held.run)).approvals
        assert holds == ["Ada" if kept.decision != too_late else "expired at 2023-11-14 22:13:20 UTC"] * 2


async def test_an_approval_expires_by_the_word_of_its_owner_alone_and_in_the_order_of_what_is_written(
    store: Store,
) -> None:
    held = await started(store, "a")
    too_late = granted(granted=False)
    with pytest.raises(RunNotFound, match="no approval for the call"):
        await store.expire(held, key(1), too_late)
    store.write(held, approval("a", expires=NOW))
    assert (await store.expire(held, key(1), too_late)).decision == too_late
    store.write(held, approval("a", asked=NOW + 1), SLEEPS)
    with pytest.raises(OwnershipLost):
        await store.expire(held, key(1), too_late)
    assert await store.take("a")
    with pytest.raises(OwnershipLost):
        await store.expire(held, key(1), too_late)
    with pytest.raises(RunNotFound):
        await store.expire(Held("x", 1), key(1), too_late)
    assert (await store.load("a")).approvals == (approval("a", asked=NOW + 1),)


async def test_a_decision_about_a_run_that_ended_is_refused(store: Store) -> None:
    held = await started(store, "a")
    await store.write(held, approval("a"), StateChange("cancelled"))
    assert await store.pending() == []
    with pytest.raises(AlreadyDecided, match="cancelled"):
        await store.decide("a", key(1), granted())


async def test_what_nobody_asked_cannot_be_decided_or_settled(store: Store) -> None:
    held = await started(store, "a")
    with pytest.raises(RunNotFound, match="no approval for the call"):
        await store.decide("a", key(1), granted())
    with pytest.raises(RunNotFound, match="no outcome for the call"):
        await store.settle("a", call(1))
    await store.write(held, call(1, "unknown"))
    await store.settle("a", call(1))
    with pytest.raises(AlreadyDecided, match="outcome of pay is not unknown: the call is done") as told:
        await store.settle("a", call(1, "failed"))
    assert told.value.decided == "done"


async def test_a_question_that_is_asked_again_forgets_its_decision(store: Store) -> None:
    held = await started(store, "a")
    await store.write(held, approval("a"))
    await store.decide("a", key(1), granted())
    again = approval("a", schema_digest=b"another", asked=NOW + 60)
    await store.write(held, again)
    assert (await store.load("a")).approvals == (again,)
    assert list(await store.pending()) == [again]


async def test_what_is_pending_is_listed_oldest_first_for_its_client(store: Store) -> None:
    for n, client in enumerate(["a", "b", "a"], 1):
        held = await started(store, f"r{n}", belongs_to=client)
        await store.write(held, approval(f"r{n}", 4 - n), SLEEPS)
    held = await started(store, "old")
    await store.write(held, approval("old", expires=NOW), SLEEPS)
    assert [each.run for each in await store.pending()] == ["r3", "r2", "r1"]
    assert [each.run for each in await store.pending(belongs_to="a")] == ["r3", "r1"]
    assert [each.run for each in await store.pending(most=1)] == ["r3"]
    assert [*await store.pending(most=-1), *await store.list(most=-1)] == []


# lists


async def test_runs_are_listed_newest_first_in_pages_and_without_large_columns(store: Store) -> None:
    for n in range(7):
        await store.add(run(f"r{n}", created=NOW + n // 2))
    pages: list[str] = []
    before = None
    while page := await store.list(most=3, before=before):
        assert {(each.text, each.options, each.result) for each in page} == {("", "", None)}
        pages += [each.id for each in page]
        before = page[-1].id
    assert pages == ["r6", "r5", "r4", "r3", "r2", "r1", "r0"]


async def test_lists_and_counts_are_of_a_status_and_of_a_client(store: Store) -> None:
    done = [await ended(store, f"e{n}", belongs_to="ab"[n % 2]) for n in range(4)]
    for n in range(2):
        await started(store, f"r{n}", belongs_to="a")
    assert {each.id for each in await store.list(status="succeeded")} == set(done)
    assert {each.id for each in await store.list(belongs_to="a")} == {"e0", "e2", "r0", "r1"}
    assert {each.id for each in await store.list(status="running", belongs_to="a")} == {"r0", "r1"}
    assert await store.count() == 6
    assert await store.count(status="succeeded", belongs_to="b") == 2


async def test_old_runs_are_pruned_with_all_that_belongs_to_them(store: Store) -> None:
    gone = [await ended(store, key=f"k{n}") for n in range(3)]
    await started(store, "running")
    assert await store.prune(ended_before=NOW) == 0
    assert await store.prune(ended_before=4e9) == 3
    assert [each.id for each in await store.list()] == ["running"]
    for name in gone:
        with pytest.raises(RunNotFound):
            await store.load(name)
    assert (await store.add(run(key="k0"))).is_new


async def test_a_client_may_be_told_of_a_run_while_its_owner_writes(store: Store) -> None:
    held = await started(store, "a")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(answered, store, held, 200)
        for _ in range(20):
            history = await store.load("a")
            numbers = [each.number for each in history.events]
            assert numbers == list(range(1, len(numbers) + 1))
            assert len(history.calls) == len(numbers)  # both are of one write
