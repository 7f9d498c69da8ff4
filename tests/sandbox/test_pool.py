"""The warm pool: bounded, refilled, patient for a bounded time, and right about its slots. Backed by real guests."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import AsyncIterator

import anyio
import pytest

from callgate.errors import SandboxBusy, SandboxCrashed
from callgate.sandbox.backend import Allowance, Backend, Guest
from callgate.sandbox.pool import WarmPool
from sandbox.asking import ALLOWANCE, SECONDS, ask, gone, until
from sandbox.conftest import running

pytestmark = pytest.mark.anyio


class Counting:
    """A backend that counts what it opens, and fails when told to."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.name = backend.name
        self.description = backend.description
        self.opened: list[Guest] = []
        self.failures = 0

    async def open(self, allowance: Allowance) -> Guest:
        if self.failures:
            self.failures -= 1
            raise SandboxCrashed("not now")
        self.opened.append(await self.backend.open(allowance))
        return self.opened[-1]

    async def __aenter__(self) -> Counting:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None


@contextlib.asynccontextmanager
async def pool_of(
    *, size: int = 2, max_guests: int = 3, queue_seconds: float = 20
) -> AsyncIterator[tuple[WarmPool, Counting]]:
    async with running("jail tier 2") as backend:
        counting = Counting(backend)
        async with WarmPool(counting, ALLOWANCE, size=size, max_guests=max_guests, queue_seconds=queue_seconds) as pool:
            yield pool, counting
            idle = list(pool._idle)
        for guest in idle:
            assert not guest.alive
        assert pool.idle == 0


async def filled(pool: WarmPool, size: int) -> None:
    await until(lambda: pool.idle >= size)


async def test_it_fills_hands_out_and_refills() -> None:
    async with pool_of() as (pool, backend):
        await filled(pool, 2)
        ready = list(backend.opened)
        guest = await pool.checkout(ALLOWANCE)
        assert guest is ready[0]
        assert (await ask(guest, "1")).value == 1
        await filled(pool, 2)
        assert len(backend.opened) == 3
        pool.checkin(guest)
        assert await gone(getattr(guest, "pid", 0))


async def test_another_allowance_gets_a_guest_of_its_own() -> None:
    async with pool_of() as (pool, backend):
        await filled(pool, 2)
        guest = await pool.checkout(Allowance(1, 128 << 20, 4, 1 << 20))
        assert guest not in backend.opened[:2]
        assert pool.idle == 2
        await pool.end(guest)


async def test_no_more_than_max_guests_are_out_and_waiting_is_bounded() -> None:
    async with pool_of(size=0, max_guests=2, queue_seconds=0.05) as (pool, _):
        one, other = await pool.checkout(ALLOWANCE), await pool.checkout(ALLOWANCE)
        with pytest.raises(SandboxBusy) as busy:
            await pool.checkout(ALLOWANCE)
        assert str(busy.value) == (
            "2 programs are running and none ended within 0.05 s: raise max_guests, or run fewer at a time"
        )
        pool.checkin(one)
        third = await pool.checkout(ALLOWANCE)
        await pool.end(other)
        await pool.end(third)


async def test_whoever_waits_gets_the_next_free_place() -> None:
    async with pool_of(size=0, max_guests=1) as (pool, _):
        first = await pool.checkout(ALLOWANCE)
        got: list[int] = []

        async def wait(number: int) -> None:
            guest = await pool.checkout(ALLOWANCE)
            got.append(number)
            await pool.end(guest)

        with anyio.fail_after(SECONDS):
            async with anyio.create_task_group() as tasks:
                for number in range(5):
                    tasks.start_soon(wait, number)
                await anyio.wait_all_tasks_blocked()
                assert got == []
                await pool.end(first)
        assert sorted(got) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("most", [1, 2, 3])
async def test_a_program_whose_guests_would_all_wait_for_it_is_refused_at_once(most: int) -> None:
    async with pool_of(size=0, max_guests=most) as (pool, _), contextlib.AsyncExitStack() as stack:
        for _ in range(most):  # each is started by a call of the one before
            guest = await pool.checkout(ALLOWANCE)
            stack.push_async_callback(pool.end, guest)
            stack.enter_context(pool.holding())
        with anyio.fail_after(SECONDS), pytest.raises(SandboxBusy, match="would wait for this program"):
            await pool.checkout(ALLOWANCE)
        assert pool.in_use == most


async def test_of_programs_that_would_wait_for_each_other_the_last_is_refused_and_the_others_get_a_guest() -> None:
    async with pool_of(size=0, max_guests=3) as (pool, _):
        outcomes: list[str] = []

        async def program() -> None:
            guest = await pool.checkout(ALLOWANCE)
            with pool.holding():
                arrived.append(guest)
                if len(arrived) == 3:
                    everybody.set()
                await everybody.wait()
                try:
                    inner = await pool.checkout(ALLOWANCE)
                    outcomes.append("got one")
                    await pool.end(inner)
                except SandboxBusy:
                    outcomes.append("busy")
            await pool.end(guest)

        arrived: list[Guest] = []
        everybody = anyio.Event()
        with anyio.fail_after(SECONDS):
            async with anyio.create_task_group() as tasks:
                for _ in range(3):
                    tasks.start_soon(program)
        assert outcomes == ["busy", "got one", "got one"]
        assert pool.in_use == 0


async def test_programs_of_two_pools_cannot_wait_for_each_other() -> None:
    async with pool_of(size=0, max_guests=1) as (one, _), pool_of(size=0, max_guests=1) as (other, _):
        outcomes: list[str] = []
        arrived: list[Guest] = []
        both = anyio.Event()

        async def program(outer: WarmPool, inner: WarmPool) -> None:
            guest = await outer.checkout(ALLOWANCE)
            with outer.holding():
                arrived.append(guest)
                if len(arrived) == 2:
                    both.set()
                await both.wait()
                try:
                    await inner.end(await inner.checkout(ALLOWANCE))
                    outcomes.append("got one")
                except SandboxBusy:
                    outcomes.append("busy")
            await outer.end(guest)

        with anyio.fail_after(SECONDS):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(program, one, other)
                tasks.start_soon(program, other, one)
        assert outcomes == ["busy", "got one"]


async def test_a_program_queues_where_somebody_else_in_the_queue_will_make_room() -> None:
    async with pool_of(size=0, max_guests=1) as (one, _), pool_of(size=0, max_guests=2) as (other, _):
        ends = anyio.Event()

        async def quick() -> None:
            guest = await other.checkout(ALLOWANCE)
            await ends.wait()
            await other.end(guest)

        async def program(outer: WarmPool, inner: WarmPool) -> None:
            guest = await outer.checkout(ALLOWANCE)
            with outer.holding():
                await anyio.wait_all_tasks_blocked()
                await inner.end(await inner.checkout(ALLOWANCE))
            await outer.end(guest)

        with anyio.fail_after(SECONDS):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(quick)
                await anyio.wait_all_tasks_blocked()
                tasks.start_soon(program, one, other)
                tasks.start_soon(program, other, one)
                await anyio.wait_all_tasks_blocked()
                ends.set()
        assert (one.in_use, other.in_use) == (0, 0)


async def test_a_program_of_a_program_queues_while_a_guest_waits_for_nobody() -> None:
    async with pool_of(size=0, max_guests=2) as (pool, _):
        other, outer = await pool.checkout(ALLOWANCE), await pool.checkout(ALLOWANCE)
        with anyio.fail_after(SECONDS), pool.holding():
            async with anyio.create_task_group() as tasks:

                async def inner() -> None:
                    await pool.end(await pool.checkout(ALLOWANCE))

                tasks.start_soon(inner)
                await anyio.wait_all_tasks_blocked()
                await pool.end(other)
        await pool.end(outer)


async def test_what_a_program_left_behind_holds_no_guest_any_more() -> None:
    async with pool_of(size=0, max_guests=1, queue_seconds=0.05) as (pool, _):
        left = anyio.Event()

        async def behind() -> None:
            await left.wait()
            with pytest.raises(SandboxBusy, match="none ended within"):
                await pool.checkout(ALLOWANCE)

        async with anyio.create_task_group() as tasks:
            guest = await pool.checkout(ALLOWANCE)
            with pool.holding():
                tasks.start_soon(behind)
            pool.checkin(guest)
            another = await pool.checkout(ALLOWANCE)
            left.set()
        await pool.end(another)


async def test_guests_of_a_pool_beside_another_count_among_the_guests_of_that_one() -> None:
    async with pool_of(size=1, max_guests=2, queue_seconds=0.05) as (pool, counting), pool.beside(counting) as beside:
        one, other = await pool.checkout(ALLOWANCE), await beside.checkout(ALLOWANCE)
        assert (pool.in_use, beside.in_use) == (2, 2)
        for full in (pool, beside):
            with pytest.raises(SandboxBusy, match="2 programs are running"):
                await full.checkout(ALLOWANCE)
        with pool.holding(), beside.holding():
            for full in (pool, beside):
                with pytest.raises(SandboxBusy, match="all 2 guests would wait for this program"):
                    await full.checkout(ALLOWANCE)
        pool.checkin(one)
        third = await beside.checkout(ALLOWANCE)
        await beside.end(third)
        beside.checkin(other)
        assert (pool.in_use, beside.in_use) == (0, 0)
        await filled(beside, 1)
        left = list(beside._idle)
    assert [guest.alive for guest in left] == [False]


async def test_giving_up_in_the_queue_takes_no_place() -> None:
    async with pool_of(size=0, max_guests=1) as (pool, _):
        for _ in range(5):
            first = await pool.checkout(ALLOWANCE)
            async with anyio.create_task_group() as tasks:
                for _ in range(3):
                    tasks.start_soon(pool.checkout, ALLOWANCE)
                await anyio.wait_all_tasks_blocked()
                tasks.cancel_scope.cancel()
            pool.checkin(first)
        with anyio.fail_after(SECONDS):
            await pool.end(await pool.checkout(ALLOWANCE))


async def test_an_opening_that_fails_or_is_cancelled_gives_its_place_back() -> None:
    async with pool_of(size=0, max_guests=1, queue_seconds=0.05) as (pool, backend):
        backend.failures = 1
        with pytest.raises(SandboxCrashed):
            await pool.checkout(ALLOWANCE)
        with anyio.CancelScope() as scope:
            scope.cancel()
            await pool.checkout(ALLOWANCE)
        await pool.end(await pool.checkout(ALLOWANCE))


async def test_it_goes_on_filling_after_a_failure() -> None:
    async with pool_of(size=1) as (pool, backend):
        await filled(pool, 1)
        backend.failures = 2
        await pool.end(await pool.checkout(ALLOWANCE))
        await filled(pool, 1)


async def test_a_guest_that_died_in_the_pool_is_not_handed_out() -> None:
    async with pool_of(size=2) as (pool, backend):
        await filled(pool, 2)
        pid = getattr(backend.opened[0], "pid", 0)
        os.kill(pid, signal.SIGKILL)
        await until(lambda: not backend.opened[0].alive)
        guest = await pool.checkout(ALLOWANCE)
        assert guest is not backend.opened[0]
        assert (await ask(guest, "1")).value == 1
        await pool.end(guest)


async def test_leaving_it_by_cancellation_ends_its_guests(anyio_backend: str) -> None:
    async with running("jail tier 2") as backend:
        with anyio.CancelScope() as scope:
            async with WarmPool(backend, ALLOWANCE, size=2, max_guests=2, queue_seconds=1) as pool:
                await filled(pool, 2)
                guests = list(pool._idle)
                scope.cancel()
                await anyio.sleep_forever()
        assert [guest.alive for guest in guests] == [False, False]
